#!/usr/bin/env python3
"""Measures Capstan and every peer that was found in turns; prints times, ratios, peaks of memory, and a verdict a row.

Peers are LibTorch (as installed, and that of the Python package torch), TensorFlow and JAX. All are programs with rows
of the same names and Google Benchmark's options. A row's figure is the median over the rounds; a peer's is that of its
best setting (threads of its kernels, threads of BLAS, malloc as it comes or told to keep memory) and of the best
variant of the program where there are several ("parity_step/layer"). Rows that end in _t1 or _t2 hold all sides to
that many threads; in all others Capstan runs with its defaults. What a row has to reach stands in bench/targets.py,
and counts against the best LibTorch.

Rows called NAME.AXIS=VALUE are the work of row NAME at another size; they make a table of their own. The rows csv_* are
compared with pandas, if the Python of CAPSTAN_PEERS_PYTHON has it. Saving and loading safetensors is compared with a
plain copy of that file, the time that a checkpoint stalls training with a copy of the weights, and a loop of 10,000
steps a second that writes a scalar in each with the same loop without.

An interrupt (Ctrl-C) ends the measuring; what was measured until then is printed.
"""
import argparse
import json
import re
import sys
from pathlib import Path

from clock import Clock
from measured import growth_of, row_of, threads_of
from peers import SETTINGS, Failed, found_peers, list_benchmarks
from report import print_comparison, print_growth, print_summary, print_table
from rows_of_processes import process_rows, wanted_stages
from rows_of_programs import KEPT, SECONDS, Timing, all_keys, growth_keys, measure_peaks, rounds_of
from verdicts import check_rows, needs_stream, verdict

GROWTH_ROUNDS = 2


class Run:
    """One run: its stages fill it, and it can be reported after any of them."""

    def __init__(self, options):
        self.options, self.build, self.clock = options, options.build.resolve(), Clock()
        self.programs = json.loads((self.build / "bench.json").read_text())
        self.peers = list(found_peers(self.programs["peers"]))
        self.command = [self.programs["bench"]]
        ours = list_benchmarks(self.command)
        wanted = [name for name in ours if options.filter.search(row_of(name))]
        if any(needs_stream(row_of(name)) for name in wanted):
            wanted = [name for name in ours if name in wanted or name.startswith("stream_")]
        self.ours = [name for name in wanted if not growth_of(name)]
        self.ours_growth = [name for name in wanted if growth_of(name)] if options.growth else []
        self.failed, listed = {}, self.list_peers()
        self.main = self.timing(self.ours, listed, "rows")
        self.main.keys = all_keys(self.main.names, self.peers)
        self.growth = self.timing(self.ours_growth, listed, "growth")
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

    def timing(self, ours, listed, stage):
        rows = {row_of(name) for name in ours}
        names = {peer: [name for name in theirs if row_of(name) in rows] for peer, theirs in listed.items()}
        return Timing(self.command, ours, self.peers, names, set(), self.clock, stage, self.options.min_time)

    def plan(self):
        """What will be measured, as far as can be known before scouting."""
        options, rounds = self.options, self.options.rounds
        kept = 1 if options.quick else KEPT
        for peer in self.peers:
            tries = sum(key.peer == peer.name for key in self.main.keys)
            seconds = SECONDS[peer.kind]
            if not options.quick:
                self.clock.plan("scouting", peer.name, tries, seconds / 2)
            self.clock.plan("rows", peer.name, int(rounds_of(peer, rounds) * kept * tries), seconds)
            growing = len(self.growth.names[peer.name]) if peer.kind == "libtorch" else 0  # frameworks seldom take part
            self.clock.plan("growth", peer.name, 2 * GROWTH_ROUNDS * growing, seconds)
        turns = kept * len(SETTINGS) if self.peers else 1
        self.clock.plan("rows", "ours", int(rounds * turns * len(self.ours)), SECONDS["ours"])
        self.clock.plan("growth", "ours", 2 * GROWTH_ROUNDS * len(self.ours_growth), SECONDS["ours"])
        for names, _, seconds in wanted_stages(options):
            self.clock.plan("processes", names[0], 1, seconds)
        if options.memory:
            plain = [name for name in self.ours if threads_of(name) is None]
            self.clock.plan("peaks", "all", len(plain), 1.5)

    def measure(self):
        options = self.options
        self.plan()
        self.clock.say(f"{len(self.ours)} rows, {len(self.ours_growth)} of growth, against "
                       f"{', '.join(peer.name for peer in self.peers) or 'nobody'}")
        if not options.quick:
            self.main.scout()
        self.main.run(options.rounds)
        if self.ours_growth:
            whole = [peer for peer in self.peers if peer.name not in self.main.failed]
            self.growth.keys = growth_keys(self.main, self.growth.names, whole)
            self.growth.run(1 if options.quick else GROWTH_ROUNDS)
        for row in process_rows(self.build, self.programs, self.peers, options, self.clock):
            self.other_rows.append(row)
        if options.memory:
            measure, rows = self.programs["measure"], list(self.main.rows())
            for name, peak in measure_peaks(rows, measure, self.command, self.peers, self.clock):
                self.peaks[name] = peak

    def rows(self):
        rows = [*self.main.rows(), *self.other_rows]
        for row in rows:
            row.extra |= self.peaks.get(row.name, {})
        return rows

    def as_json(self, rows, growth, checks):
        def row_json(row):
            made = checks[row.name]
            return row.as_json() | {"checks": [check._asdict() for check in made], "verdict": verdict(made)}

        return {"peers": [{"name": peer.name, "kind": peer.kind} for peer in self.peers],
                "rounds": self.options.rounds, "min_time": self.options.min_time, "failed": self.failed,
                "rows": [row_json(row) for row in rows],
                "growth": [row.as_json() for row in growth]}


def print_run(run):
    options, rows, growth = run.options, run.rows(), list(run.growth.rows())
    if not rows and not growth:
        sys.exit("nothing was measured")
    checks = check_rows(rows)
    run.failed |= run.main.failed | run.growth.failed
    if not any(peer.kind == "libtorch" for peer in run.peers):
        print("LibTorch was not found (libtorch-dev, CMAKE_PREFIX_PATH, or torch of CAPSTAN_PEERS_PYTHON):\n"
              "there are no ratios to judge.")
    if rows:
        print_table(rows, checks, run.peers)
    if growth:
        print_growth(growth, rows)
    print_summary(rows, growth, checks, run.failed, run.main.left_out | run.growth.left_out)
    made = run.as_json(rows, growth, checks)
    if options.json:
        options.json.write_text(json.dumps(made, indent=1) + "\n")
    if options.against:
        print_comparison(made, json.loads(options.against.read_text()), options.against)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True, help="build folder, configured with -DCAPSTAN_BENCH=ON")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="rows to measure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare ratios with an earlier run's file")
    parser.add_argument("--rounds", type=int, default=3, help="turns of every setting (3)")
    parser.add_argument("--min-time", type=float, default=0.05, metavar="SECONDS", help="of a row in a turn (0.05)")
    parser.add_argument("--no-memory", dest="memory", action="store_false", help="without peaks of memory")
    parser.add_argument("--no-growth", dest="growth", action="store_false", help="without rows at other sizes")
    parser.add_argument("--quick", action="store_true", help="one short round, for a first look")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.min_time = 1, 0.01
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
    print_run(run)
    if broken:
        sys.exit(f"\nThis is not all: {broken}")


if __name__ == "__main__":
    main()
