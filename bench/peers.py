"""Who is compared with, what a user can turn to make them faster, and how their programs are run."""
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from measured import threads_of

TUNING = re.compile(r"(CAPSTAN|TORCH|PEER|OPENBLAS|GOTO|OMP|KMP|GOMP|MKL|MALLOC|TF|XLA|JAX)_|"
                    r"(GLIBC_TUNABLES|NPROC|LD_PRELOAD)$")
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "10000000000", "MALLOC_TOP_PAD_": "67108864"}


class Failed(Exception):
    """A program that did not end well; the text says which and why."""


class Setting(NamedTuple):
    """What a user of a peer can turn to make it faster."""
    threads: int
    blas: int
    keeps: bool

    def fits(self, name):
        held_to = threads_of(name)
        return held_to is None or (self.threads == held_to and self.blas <= held_to)

    def environment(self):
        threads, blas = str(self.threads), str(self.blas)
        variables = {"TORCH_THREADS": threads, "PEER_THREADS": threads, "OMP_NUM_THREADS": threads,
                     "OPENBLAS_NUM_THREADS": blas, "MKL_NUM_THREADS": blas}
        return variables | (KEEP_MEMORY if self.keeps else {})

    def __str__(self):
        return f"t{self.threads} b{self.blas}{' keep' if self.keeps else ''}"


SETTINGS = [Setting(threads, blas, keeps) for keeps in (False, True) for threads in (1, 2) for blas in (1, 2)]


@dataclass(frozen=True)
class Peer:
    name: str
    kind: str            # libtorch or framework
    command: tuple       # its benchmarks
    hello: str | None    # its program that adds two tensors
    library: str | None  # what such a program links
    include_dirs: tuple
    standard: str | None  # of C++, that its headers ask for

    @classmethod
    def from_json(cls, entry):
        return cls(entry["name"], entry["kind"], tuple(entry["bench"]), entry["hello"], entry["library"],
                   tuple(entry["include_dirs"]), entry["standard"])

    def settings(self):
        """Frameworks of Python have threads alone. Where MKL is LibTorch's BLAS, setting LibTorch's sets MKL's, too."""
        if self.kind == "framework":
            return [one for one in SETTINGS if one.threads == one.blas and not one.keeps]
        return [one for one in SETTINGS if one.threads == one.blas] if self.has_mkl() else SETTINGS

    def has_mkl(self):
        headers = [Path(folder, "ATen", "Config.h") for folder in self.include_dirs]
        return any(re.search(r"AT_MKL_ENABLED\(\) 1", header.read_text()) for header in headers if header.exists())


def found_peers(entries, wanted):
    """Peers of wanted names whose programs were built; of the others it is said that they were not."""
    for entry in (one for one in entries if wanted.search(one["name"])):
        if Path(entry["bench"][-1]).exists():
            yield Peer.from_json(entry)
        else:
            print(f"without {entry['name']}: {entry['bench'][-1]} is not there", file=sys.stderr)


def output_of(command, extra_environment=None):
    """Standard output of a program whose environment tunes neither threads nor malloc but as asked."""
    plain = {name: value for name, value in os.environ.items() if not TUNING.match(name)}
    environment = plain | {"CCACHE_DISABLE": "1"} | (extra_environment or {})
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{command[0]} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def filter_of(names):
    """The option that picks exactly these rows; names hold dots, but nothing else that a pattern would read."""
    return f"--benchmark_filter=^({'|'.join(names)})$".replace(".", r"\.")


def list_benchmarks(command):
    return output_of([*command, "--benchmark_list_tests=true"]).split()


def run_benchmarks(command, names, environment, min_time):
    """Nanoseconds by name, from one process. Rows that failed there are missing."""
    text = output_of([*command, filter_of(names), f"--benchmark_min_time={min_time}", "--benchmark_format=json"],
                     environment)
    return {result["name"]: result["real_time"] for result in json.loads(text)["benchmarks"]
            if not result.get("error_occurred")}
