#!/usr/bin/env python3
"""Measures Capstan and, where it was found, LibTorch in turns; prints work, ours, theirs, ratio.

Both sides are Google Benchmark programs with rows of the same names. A process runs all rows of one setting, and
processes of the two sides alternate. A row's figure is the median over the rounds. LibTorch's is that of its best
setting: threads of its kernels, threads of BLAS, malloc as it comes or told to keep memory, and the variant of the
program where there are several ("parity_step/layer"). Rows that end in _t1 or _t2 hold both sides to that many
threads; in all others Capstan runs with its defaults. --memory measures each row in a process of its own too, for the
peak of its memory: the whole process's, libraries included. The rows csv_* are compared with pandas, if the Python of
CAPSTAN_PEERS_PYTHON, or the one that runs this, has it. Saving and loading safetensors is compared with a plain copy of
that file, the time that a checkpoint stalls training with a copy of the weights, and a loop of 10,000 steps a second that
writes a scalar in each with the same loop without.
"""
import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import NamedTuple

BENCH = Path(__file__).resolve().parent
TUNING = re.compile(r"(CAPSTAN|TORCH|OPENBLAS|GOTO|OMP|MKL|MALLOC)_|GLIBC_TUNABLES$")
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "10000000000", "MALLOC_TOP_PAD_": "67108864"}
HOPELESS = 1.5  # after a round, a setting this many times slower than the row's best is not tried again


def row_of(name):
    """parity_step_t1/layer/real_time -> parity_step_t1"""
    return name.split("/")[0]


def variant_of(name):
    return "/".join(name.removesuffix("/real_time").split("/")[1:])


def threads_of(name):
    """The number of threads that a row holds both sides to, or None."""
    suffix = re.search(r"_t(\d+)$", row_of(name))
    return int(suffix[1]) if suffix else None


class Setting(NamedTuple):
    """What a user of LibTorch can turn to make it faster."""
    threads: int
    blas: int
    keeps: bool

    def fits(self, name):
        held_to = threads_of(name)
        return held_to is None or (self.threads == held_to and self.blas <= held_to)

    def environment(self):
        threads = {"TORCH_THREADS": str(self.threads), "OPENBLAS_NUM_THREADS": str(self.blas)}
        return threads | (KEEP_MEMORY if self.keeps else {})

    def __str__(self):
        return f"threads {self.threads}, blas {self.blas}, malloc {'keeps memory' if self.keeps else 'as it comes'}"


SETTINGS = [Setting(threads, blas, keeps) for keeps in (False, True) for threads in (1, 2) for blas in (1, 2)]


@dataclass
class Row:
    name: str
    ours: list                                    # nanoseconds, one figure a turn
    theirs: list = field(default_factory=list)    # empty without a peer
    setting: str | None = None                    # the peer's
    extra: dict = field(default_factory=dict)     # more columns of the JSON file
    peer_row: str = ""                            # the peer's name of it, with the variant
    environment: dict = field(default_factory=dict)    # of its best setting
    peer: str | None = None                            # who that is, if not LibTorch

    def ratio(self):
        return median(self.theirs) / median(self.ours) if self.theirs else None

    def as_json(self, peer):
        theirs = median(self.theirs) if self.theirs else None
        return {"name": self.name, "ours_ns": median(self.ours), "peer_ns": theirs, "peer": (self.peer or peer) if theirs else None,
                "ratio": self.ratio(), "peer_setting": self.setting} | self.extra


# --- running ---------------------------------------------------------------------------------------------------


def output_of(command, extra_environment=None):
    """Standard output of a program whose environment tunes neither threads nor malloc but as asked."""
    plain = {name: value for name, value in os.environ.items() if not TUNING.match(name)}
    environment = plain | {"CCACHE_DISABLE": "1"} | (extra_environment or {})
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stderr}")
    return done.stdout


def run_benchmarks(program, names, environment, min_time):
    """Pairs of name and nanoseconds, from one process."""
    if not names:
        return []
    text = output_of([program, f"--benchmark_filter=^({'|'.join(names)})$", f"--benchmark_min_time={min_time}",
                      "--benchmark_format=json"], environment)
    return [(result["name"], result["real_time"]) for result in json.loads(text)["benchmarks"]]


def benchmark_rows(programs, wanted, options):
    peer = programs["peer"]
    names = [n for n in output_of([programs["bench"], "--benchmark_list_tests=true"]).split() if wanted(row_of(n))]
    rows = [row_of(n) for n in names]
    peer_names = output_of([peer["bench"], "--benchmark_list_tests=true"]).split() if peer and names else []
    compared = {row_of(n) for n in peer_names}
    settings = SETTINGS if peer else [s for s in SETTINGS if s.threads == s.blas and not s.keeps]
    promising = {(n, s) for n in peer_names for s in settings if row_of(n) in rows and s.fits(n)}

    ours, theirs = defaultdict(list), defaultdict(list)    # by row; by name and setting
    for turn in range(options.rounds if names else 0):
        print(f"round {turn + 1} of {options.rounds}", file=sys.stderr)
        for setting in settings:
            peer_now = [n for n in peer_names if (n, setting) in promising]
            rows_now = {row_of(n) for n in peer_now}
            for held_to in (None, setting.threads):
                ours_now = [n for n in names if threads_of(n) == held_to and setting.fits(n)
                            and (row_of(n) in rows_now or row_of(n) not in compared)]
                threads = {"CAPSTAN_NUM_THREADS": str(held_to)} if held_to else {}
                for name, ns in run_benchmarks(programs["bench"], ours_now, threads, options.min_time):
                    ours[row_of(name)].append(ns)
            if peer:
                for name, ns in run_benchmarks(peer["bench"], peer_now, setting.environment(), options.min_time):
                    theirs[name, setting].append(ns)
        best = defaultdict(lambda: float("inf"))
        for (name, _), figures in theirs.items():
            best[row_of(name)] = min(best[row_of(name)], median(figures))
        promising = {key for key in promising if median(theirs[key]) <= HOPELESS * best[row_of(key[0])]}

    for row in rows:
        tried = [key for key in theirs if row_of(key[0]) == row]
        if not tried:
            yield Row(row, ours[row])
            continue
        name, setting = min(tried, key=lambda key: median(theirs[key]))
        variant = variant_of(name)
        yield Row(row, ours[row], theirs[name, setting], f"{setting}{', ' if variant else ''}{variant}",
                  peer_row=name.removesuffix("/real_time"), environment=setting.environment())


def add_peaks(rows, programs, min_time):
    """Peak memory in MB of a process that runs one row; the peer's in its best setting."""
    sides = [("ours", programs["bench"], {})]
    for row in rows:
        best = [("peer", programs["peer"]["bench"], row.environment)] if row.theirs else []
        for side, program, environment in sides + best:
            name = row.name if side == "ours" else row.peer_row
            command = [programs["measure"], program, f"--benchmark_filter=^{name}(/real_time)?$",
                       f"--benchmark_min_time={min_time}"]
            row.extra[f"{side}_peak_mb"] = round(int(output_of(command, environment).split()[1]) * 1024 / 1e6, 1)
        row.extra.setdefault("peer_peak_mb", None)
        yield row


def process_row(name, measure, ours, theirs, turns, setting):
    """Whole processes by turns: wall time, and peak memory in MB."""
    figures = {"ours": [], "peer": []}
    for _ in range(turns):
        for side, command in (("ours", ours), ("peer", theirs)):
            if command:
                figures[side].append([int(number) for number in output_of([measure, *command]).split()])
    times = {side: [ns for ns, _ in pairs] for side, pairs in figures.items()}
    peaks = {f"{side}_peak_mb": round(median(kb for _, kb in pairs) * 1024 / 1e6, 1) if pairs else None
             for side, pairs in figures.items()}
    return Row(name, times["ours"], times["peer"], setting if theirs else None, peaks)


def process_rows(build, programs, wanted, options):
    peer, measure = programs["peer"], programs["measure"]
    if wanted("compile_user_file"):
        print("compiling", file=sys.stderr)
        ours = [programs["compiler"], "-std=c++20", "-O2", "-c", "-I", BENCH.parent / "include",
                BENCH / "user_file.cpp", "-o", build / "user_file.o"]
        theirs = peer and [programs["compiler"], "-std=c++17", "-O2", "-w", "-c",
                           *(f"-I{folder}" for folder in peer["include_dirs"]),
                           BENCH / "user_file_torch.cpp", "-o", build / "user_file_torch.o"]
        yield process_row("compile_user_file", measure, ours, theirs, 1 if options.quick else 3, "-std=c++17 -O2")
    if wanted("hello_start"):
        print("starting", file=sys.stderr)
        theirs = peer and [peer["hello"]]
        turns = 5 if options.quick else 21
        yield process_row("hello_start", measure, [programs["hello"]], theirs, turns, "as it comes")


# --- CSV files -------------------------------------------------------------------------------------------------


def write_csv(path, mixed):
    """100,000 rows: eight floating numbers; if mixed two of them are integers, one a text, and some fields are empty."""
    random = Random(1)
    with open(path, "w", encoding="ascii") as file:
        file.write("a,b,c,d,e,f,g,h\n")
        for _ in range(100_000):
            row = [f"{random.uniform(-1e4, 1e4):.6g}" for _ in range(8)]
            if mixed:
                row[1], row[2] = str(random.randrange(100_000)), str(random.randrange(100))
                row[3] = "" if random.random() < 0.01 else row[3]
                row[7] = random.choice(["INLAND", "NEAR BAY", "NEAR OCEAN", "<1H OCEAN"])
            file.write(",".join(row) + "\n")


def csv_rows(build, programs, wanted, options):
    """Whole files, by turns with pandas where a Python that has it is found."""
    python = os.environ.get("CAPSTAN_PEERS_PYTHON", sys.executable)
    has_pandas = subprocess.run([python, "-c", "import pandas"], capture_output=True).returncode == 0
    for name, mixed in (("csv_numbers", False), ("csv_mixed", True)):
        if not wanted(name):
            continue
        print(name, file=sys.stderr)
        path = build / f"{name}.csv"
        write_csv(path, mixed)
        commands = {"ours": [programs["csv"]], "peer": [python, BENCH / "csv_pandas.py"] if has_pandas else None}
        figures, setting, peer = {"ours": [], "peer": []}, None, None
        for _ in range(options.rounds):
            for side, command in commands.items():
                if command:
                    result = json.loads(output_of([*command, path, 3 if options.quick else 7]))
                    figures[side].append(1e6 * result["median_ms"])
                    peer = f"pandas {result['pandas']}" if "pandas" in result else None
        yield Row(name, figures["ours"], figures["peer"], peer and f"{peer}, its C reader", peer=peer)


# --- files that Capstan writes ---------------------------------------------------------------------------------


FILE_ROWS = {  # our figure, what it is held against, and what that is called
    "safetensors_save_1gb": ("save", "file_copy", "plain file copy"),
    "safetensors_load_1gb": ("load", "file_copy", "plain file copy"),
    "checkpoint_stall": ("checkpoint_stall", "copy_of_state", "copy of the weights"),
    "loop_with_scalars": ("thousand_steps_with_scalars", "thousand_steps", "without scalars"),
    "scalars_1000": ("thousand_scalars", None, None),
}


def file_rows(build, programs, wanted, options):
    names = [name for name in FILE_ROWS if wanted(name)]
    if not names:
        return
    print("weights, checkpoints, scalars", file=sys.stderr)
    size, rounds = (100, 1) if options.quick else (1000, options.rounds)
    figures = json.loads(output_of([programs["files"], build / "bench_files", size, rounds]))
    for name in names:
        ours, theirs, what = FILE_ROWS[name]
        yield Row(name, [1e6 * figures[ours]], [1e6 * figures[theirs]] if theirs else [], what, peer=what)


# --- printing --------------------------------------------------------------------------------------------------


def peer_name(peer):
    for folder in peer["include_dirs"]:
        header = Path(folder, "torch", "version.h")
        found = header.exists() and re.search(r'TORCH_VERSION[\s\\]+"([^"]+)"', header.read_text())
        if found:
            return f"LibTorch {found[1]}"
    return "LibTorch"


def human(ns):
    unit, size = next((u, s) for u, s in (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1)) if ns >= s or s == 1)
    value = ns / size
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"


def spread(figures):
    """Half of the middle half, as a share of the median."""
    if len(figures) < 2:
        return ""
    low, _, high = quantiles(figures, n=4, method="inclusive")
    return f"{50 * (high - low) / median(figures):.0f} %"


def print_row(row):
    line = f"{row.name:<20} {human(median(row.ours)):>9} {spread(row.ours):>5}"
    if row.theirs:
        line += f" {human(median(row.theirs)):>9} {spread(row.theirs):>5} {row.ratio():>7.2f} x  {row.setting}"
    if row.extra:
        peaks = [f"{mb:.0f} MB" for mb in (row.extra["ours_peak_mb"], row.extra["peer_peak_mb"]) if mb is not None]
        line += f"  (peak {' against '.join(peaks)})"
    print(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="build folder, configured with -DCAPSTAN_BENCH=ON")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="rows to measure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    parser.add_argument("--rounds", type=int, default=5, help="turns of every setting (5)")
    parser.add_argument("--min-time", type=float, default=0.05, metavar="SECONDS", help="of a row in a turn (0.05)")
    parser.add_argument("--memory", action="store_true", help="peak memory of each row, in a process of its own")
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.min_time = 1, 0.01

    build = options.build.resolve()
    programs = json.loads((build / "bench.json").read_text())
    peer = peer_name(programs["peer"]) if programs["peer"] else None
    timed = benchmark_rows(programs, options.filter.search, options)
    rows = [*(add_peaks(timed, programs, options.min_time) if options.memory else timed),
            *process_rows(build, programs, options.filter.search, options),
            *csv_rows(build, programs, options.filter.search, options),
            *file_rows(build, programs, options.filter.search, options)]

    if not rows:
        sys.exit(f"no row matches {options.filter.pattern!r}")
    if peer:
        print(f"{'work':<20} {'Capstan':>9} {'+-':>5} {'theirs':>9} {'+-':>5} {'ratio':>9}  best setting of {peer}")
    else:
        print("LibTorch was not found (libtorch-dev, or CMAKE_PREFIX_PATH): these are Capstan's figures alone.")
        print(f"{'work':<20} {'Capstan':>9} {'+-':>5}")
    for row in rows:
        print_row(row)
    if options.json:
        options.json.write_text(json.dumps([row.as_json(peer) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
