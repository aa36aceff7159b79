"""What npy.py, safetensors.py and state_dict.py write and expect. elements.hpp beside this file knows the same."""
import math


def element(name, i):
    """Element i, row-major, of a type by its name in any of the packages; types of 8 bits hold them, too."""
    value = i * 7 % 17
    kind = name.lower()
    if kind in ("b1", "bool"):
        return value % 2 == 1
    if kind.startswith("c"):
        return complex(value - 8, (i + 1) * 7 % 17 - 8)
    return value if kind.startswith("u") else value - 8


def elements(name, shape):
    return [element(name, i) for i in range(math.prod(shape))]
