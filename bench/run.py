#!/usr/bin/env python3
"""Measures Capstan and every peer that was found in turns; prints times, ratios, peaks of memory, and a verdict a row.

Peers are LibTorch (as installed, and that of the Python package torch), TensorFlow and JAX. All are programs with rows
of the same names and Google Benchmark's options. A row's figure is the median over the rounds; a peer's is that of its
best setting (threads of its kernels, threads of BLAS, malloc as it comes or told to keep memory) and of the best
variant of the program where there are several ("parity_step/layer"). A ratio is the median over pairs that were
measured in the same round. Rows near their targets, on either side, are then settled: one by one, in turns with the
best of LibTorch. Rows that end in _t1 or _t2 hold all sides to that many threads; in all others Capstan runs
with its defaults. What a row has to reach stands in bench/targets.py, and counts against the best LibTorch.

All programs run on the first two processors that this one may use.

Rows called NAME.AXIS=VALUE are the work of row NAME at another size; they make a table of their own. The rows csv_* are
compared with pandas, if the Python of CAPSTAN_PEERS_PYTHON has it. Saving and loading safetensors is compared with a
plain copy of that file, the time that a checkpoint stalls training with a copy of the weights, and a loop of 10,000
steps a second that writes a scalar in each with the same loop without.

An interrupt (Ctrl-C) ends the measuring; what was measured until then is printed.
"""
import argparse
import json
import os
import re
import sys
from pathlib import Path

from clock import Clock
import targets
from measured import growth_of, row_of
from peers import Failed, found_peers, list_benchmarks
from report import print_comparison, print_growth, print_names, print_sizes, print_summary, print_table
from rows_of_processes import process_rows, wanted_stages
from rows_of_programs import Timing, against_loops, measure_peaks, names_without_twins
from verdicts import check_rows, holds, unclear_rows, verdict

GROWTH_ROUNDS = 2
FRAMEWORK_ROUNDS = 1  # frameworks are shown, not judged by, and slow to start


def hold_processors():
    """Keeps this process and all that it starts to two processors. Returns which, in words."""
    if not hasattr(os, "sched_setaffinity"):
        return "any processor"
    chosen = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, chosen)
    if len(chosen) < 2:
        return f"processor {chosen[0]} alone"
    files = [Path(f"/sys/devices/system/cpu/cpu{one}/topology/thread_siblings_list") for one in chosen]
    if not all(file.exists() for file in files):
        return f"processors {chosen[0]} and {chosen[1]}"
    same = files[0].read_text() == files[1].read_text()
    return f"processors {chosen[0]} and {chosen[1]}, {'siblings of one core' if same else 'of different cores'}"


class Run:
    """One run: its stages fill it, and it can be reported after any of them."""

    def __init__(self, options):
        self.options, self.build, self.clock = options, options.build.resolve(), Clock()
        self.processors = hold_processors()
        self.programs = json.loads((self.build / "bench.json").read_text())
        self.peers = list(found_peers(self.programs["peers"], options.peers))
        self.has_libtorch = any(peer.kind == "libtorch" for peer in self.peers)  # found, whatever becomes of it
        self.command = [self.programs["bench"]]
        ours = list_benchmarks(self.command)
        wanted = [name for name in ours if options.filter.search(row_of(name))]
        needed = {other for name in wanted for other in targets.needs(row_of(name))}
        wanted = [name for name in ours if name in wanted or row_of(name) in needed]
        self.ours = [name for name in wanted if not growth_of(name)]
        self.ours_growth = [name for name in wanted if growth_of(name)] if options.growth else []
        self.failed, listed = {}, self.list_peers()
        self.main = self.timing(self.ours, listed, self.peers, "rows")
        growing = [peer for peer in self.peers if options.all or peer.kind == "libtorch"]
        self.growth = self.timing(self.ours_growth, listed, growing, "growth")
        self.peaks, self.other_rows = {}, []

    def list_peers(self):
        """The names of each peer's rows. A peer that cannot even tell them is left out."""
        listed = {}
        for peer in self.peers:
            try:
                listed[peer.name] = list_benchmarks(peer.command) if self.ours or self.ours_growth else []
            except Failed as error:
                print(f"without {peer.name}: {error}", file=sys.stderr)
                self.failed[peer.name] = str(error)
        self.peers = [peer for peer in self.peers if peer.name in listed]
        return listed

    def timing(self, ours, listed, peers, stage):
        rows, options = {row_of(name) for name in ours}, self.options
        names = {peer: [name for name in theirs if row_of(name) in rows] for peer, theirs in listed.items()}
        framework_rounds = options.rounds if options.all else FRAMEWORK_ROUNDS
        return Timing(self.command, ours, peers, names, self.clock, stage, options.min_time, framework_rounds)

    def timings(self):
        """The tables, and how many rounds each has."""
        rounds = self.options.rounds
        return [(self.main, rounds), (self.growth, min(rounds, GROWTH_ROUNDS))]

    def plan(self):
        """What will be measured, as far as can be known before scouting."""
        options = self.options
        for timing, rounds in self.timings():
            timing.plan_all(rounds, scouts=not options.quick, settled=options.settle if timing is self.main else 0)
        for names, _, seconds in wanted_stages(options):
            self.clock.plan("processes", names[0], 1, seconds)
        if options.memory:
            alone = names_without_twins([row_of(name) for name in [*self.ours, *self.ours_growth]])
            self.clock.plan("peaks", "all", len(alone), 5)

    def measure(self):
        options = self.options
        self.plan()
        self.clock.say(f"{len(self.ours)} rows, {len(self.ours_growth)} of growth, against "
                       f"{', '.join(peer.name for peer in self.peers) or 'nobody'}, on {self.processors}")
        for timing, rounds in self.timings():
            if not options.quick:
                timing.scout()
            timing.run(rounds)
        if unclear := unclear_rows(list(self.main.rows())) if options.settle else []:
            self.main.settle(unclear, options.rounds, options.settle)
        for row in process_rows(self.build, self.programs, self.peers, options, self.clock):
            self.other_rows.append(row)
        if options.memory:
            rows = [*self.main.rows(), *self.growth.rows()]
            for name, peaks in measure_peaks(rows, self.programs, self.command, self.peers, self.clock):
                self.peaks[name] = peaks

    def growth_rows(self):
        return self.with_peaks(list(self.growth.rows()))

    def with_peaks(self, rows):
        for row in rows:
            row.extra |= self.peaks.get(row.name, {})
        return rows

    def rows(self):
        rows = self.with_peaks([*against_loops(self.main.rows()), *self.other_rows])
        return sorted(rows, key=lambda row: targets.LAST.fullmatch(row.name) is not None)

    def missing(self, rows):
        """Targets that no row was held against, in a run of all rows."""
        return [] if self.options.filter.pattern else targets.without_row(rows)

    def is_wanted(self, name):
        """Whether a row, of an earlier run perhaps, is one that this run is asked for."""
        return self.options.filter.search(name) and (self.options.growth or not growth_of(name))

    def as_json(self, rows, growth, checks):
        def row_json(row):
            made = checks[row.name]
            return row.as_json() | {"checks": [check._asdict() for check in made], "holds": holds(made),
                                    "verdict": verdict(row, made)}

        return {"peers": [{"name": peer.name, "kind": peer.kind} for peer in self.peers],
                "processors": self.processors, "rounds": self.options.rounds, "settle": self.options.settle,
                "min_time": self.options.min_time,
                "failed": self.failed, "missing": self.missing(rows), "rows": [row_json(row) for row in rows],
                "growth": [row.as_json() for row in growth]}


def print_run(run):
    """Whether all that has a target reached it, and the run agrees with the earlier one."""
    options, rows, growth = run.options, run.rows(), run.growth_rows()
    if not rows and not growth:
        sys.exit("nothing was measured")
    checks = check_rows(rows, run.has_libtorch)
    run.failed |= run.main.failed | run.growth.failed
    print(f"on {run.processors}")
    if not run.has_libtorch:
        print("LibTorch was not found (libtorch-dev, CMAKE_PREFIX_PATH, or torch of CAPSTAN_PEERS_PYTHON):\n"
              "there are no ratios to judge.")
    if rows:
        print_table(rows, checks, run.peers)
        print_sizes(rows, options.verbose)
    if growth:
        print_growth(growth, rows)
    print_summary(rows, growth, checks, run.failed, run.main.left_out | run.growth.left_out)
    missing = run.missing(rows)
    print_names("targets without a row, which are missed", missing)
    made = run.as_json(rows, growth, checks)
    if options.json:
        options.json.write_text(json.dumps(made, indent=1) + "\n")
    reached = not missing and all(holds(of_row) is not False for of_row in checks.values())
    if not options.against:
        return reached
    return print_comparison(made, json.loads(options.against.read_text()), options.against, run.is_wanted) and reached


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="build folder, configured with -DCAPSTAN_BENCH=ON")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="rows to measure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with an earlier run: agree or differ")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if rows are missed, or the runs differ")
    parser.add_argument("--peers", type=re.compile, default=re.compile(""), metavar="REGEX", help="peers' names")
    parser.add_argument("--all", action="store_true", help="frameworks in every round and at other sizes, too")
    parser.add_argument("--verbose", action="store_true", help="print what the sizes of libraries consist of")
    parser.add_argument("--rounds", type=int, default=3, help="turns of every setting (3)")
    parser.add_argument("--settle", type=int, default=7, metavar="ROUNDS", help="more, of rows near their targets (7)")
    parser.add_argument("--min-time", type=float, default=0.05, metavar="SECONDS", help="of a row in a turn (0.05)")
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="without peaks of memory")
    parser.add_argument("--no-growth", dest="growth", action="store_false", help="without rows at other sizes")
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.settle, options.min_time = 1, 0, 0.01
    if options.against and not options.against.exists():
        parser.error(f"{options.against} is not there")
    return options


def main():
    options = read_options()
    try:
        run = Run(options)
    except Failed as error:
        sys.exit(str(error))
    if not run.ours and not run.ours_growth and not wanted_stages(options):
        sys.exit(f"no row matches {options.filter.pattern!r}")
    broken = None
    try:
        run.measure()
    except KeyboardInterrupt:
        broken = "interrupted"
    except Failed as error:
        broken = str(error)
    well = print_run(run)
    if broken:
        sys.exit(f"\nThis is not all: {broken}")
    if options.strict and not well:
        sys.exit(1)


if __name__ == "__main__":
    main()
