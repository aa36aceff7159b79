#!/usr/bin/env python3
"""Prints the frameworks that this Python has, a line each: name|version|folder. Imports none: that takes seconds.

The first line is the interpreter's own: python|version|its program.
"""
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

# Modules, and the packages that bring them.
MODULES = {"torch": ["torch"], "tensorflow": ["tensorflow", "tensorflow-cpu"], "jax": ["jax"]}


def version_of(packages):
    for package in packages:
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return None


print(f"python|{platform.python_version()}|{sys.executable}")
for module, packages in MODULES.items():
    spec, found = find_spec(module), version_of(packages)
    if spec and spec.origin and found:
        print(f"{module}|{found}|{Path(spec.origin).parent}")
