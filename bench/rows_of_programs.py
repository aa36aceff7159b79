"""Rows of the benchmark programs: all rows of one setting run in one process, and processes of all sides take turns.

A short scouting round tells which settings and variants of a peer are hopeless for a row. The others are measured in
full rounds, by turns with Capstan, which runs with its defaults but in rows that end in _t1 or _t2.
"""
import sys
from collections import defaultdict
from statistics import median
from typing import NamedTuple

from measured import Figures, Row, growth_of, row_of, threads_of, variant_of, with_twins
from peers import SETTINGS, Failed, Setting, filter_of, output_of, run_benchmarks

HOPELESS = 1.5      # after scouting, a setting this many times slower than the peer's best is not tried again
CLOSE = 1.25        # the same after a full round
SCOUTING = 0.01     # seconds of a row
SECONDS = {"ours": 0.2, "libtorch": 0.25, "framework": 0.8}  # of a row in a turn, until it is known
KEPT = 0.35         # what scouting leaves over, until it is known
FRAMEWORK_ROUNDS = 2  # they are shown, not judged by, and slow to start


class Key(NamedTuple):
    peer: str
    name: str  # of the peer's row, with its variant
    setting: Setting


def all_keys(names, peers):
    """Everything that can be tried: `names` are those of each peer's rows, by its name."""
    return {Key(peer.name, name, setting) for peer in peers for name in names[peer.name]
            for setting in peer.settings() if setting.fits(name)}


def near_best(figures, share, group):
    """The keys that take at most `share` times what the best of their group takes."""
    best = defaultdict(lambda: float("inf"))
    for key, values in figures.items():
        best[group(key)] = min(best[group(key)], median(values))
    return {key for key, values in figures.items() if median(values) <= share * best[group(key)]}


def rounds_of(peer, rounds):
    return min(rounds, FRAMEWORK_ROUNDS) if peer.kind == "framework" else rounds


class Timing:
    """The rows of one table. `ours` are our programs' names of them; `keys` is what is tried."""

    def __init__(self, command, ours, peers, names, keys, clock, stage, min_time):
        self.command, self.ours, self.peers, self.names, self.keys = command, ours, peers, names, keys
        self.clock, self.stage, self.min_time = clock, stage, min_time
        self.our_figures, self.figures = defaultdict(list), defaultdict(list)
        self.failed = {}      # peers whose program broke off, and why
        self.left_out = set()  # (peer, name): rows that the peer's program could not run

    def names_now(self, peer, setting):
        return [name for name in self.names[peer.name] if Key(peer.name, name, setting) in self.keys]

    def ours_now(self, setting):
        """Our rows that a peer runs in this setting, and once a round those that nobody is compared with."""
        rows = {row_of(key.name) for key in self.keys if key.setting == setting}
        compared = {row_of(key.name) for key in self.keys}
        first = {name: next(one for one in SETTINGS if one.fits(name)) for name in self.ours}
        return [name for name in self.ours if setting.fits(name)
                and (row_of(name) in rows or (row_of(name) not in compared and first[name] == setting))]

    def run_peer(self, peer, setting, stage, min_time, figures):
        names = self.names_now(peer, setting)
        if not names or peer.name in self.failed:
            return
        try:
            with self.clock.running(stage, peer.name, len(names)):
                results = run_benchmarks(peer.command, names, setting.environment(), min_time)
        except Failed as error:
            self.failed[peer.name] = str(error)
            self.keys = {key for key in self.keys if key.peer != peer.name}
            print(f"{peer.name} is left out from here on: {error}", file=sys.stderr)
            return
        for name, ns in results.items():
            figures[Key(peer.name, name, setting)].append(ns)
        missing = {Key(peer.name, name, setting) for name in names} - {Key(peer.name, n, setting) for n in results}
        self.left_out |= {(key.peer, key.name) for key in missing}
        self.keys -= missing

    def run_ours(self, setting):
        names = self.ours_now(setting)
        for held_to in (None, setting.threads):
            held = [name for name in names if threads_of(name) == held_to]
            if not held:
                continue
            threads = {"CAPSTAN_NUM_THREADS": str(held_to)} if held_to else {}
            with self.clock.running(self.stage, "ours", len(held)):
                results = run_benchmarks(self.command, held, threads, self.min_time)
            for name, ns in results.items():
                self.our_figures[row_of(name)].append(ns)

    def scout(self):
        scouted = defaultdict(list)
        for setting in SETTINGS:
            for peer in self.peers:
                if names := self.names_now(peer, setting):
                    self.clock.say(f"scouting: {peer.name}, {setting}, {len(names)} rows")
                    self.run_peer(peer, setting, "scouting", SCOUTING, scouted)
        self.keys &= near_best(scouted, HOPELESS, lambda key: (key.peer, row_of(key.name)))
        self.clock.forget("scouting")

    def plan(self, rounds, turn):
        """Tells the clock what is left."""
        self.clock.forget(self.stage)
        for peer in self.peers:
            count = sum(key.peer == peer.name for key in self.keys)
            left = max(0, rounds_of(peer, rounds) - turn)
            self.clock.plan(self.stage, peer.name, left * count, SECONDS[peer.kind])
        count = sum(len(self.ours_now(setting)) for setting in SETTINGS)
        self.clock.plan(self.stage, "ours", (rounds - turn) * count, SECONDS["ours"])

    def run(self, rounds):
        for turn in range(rounds):
            self.plan(rounds, turn)
            for setting in SETTINGS:
                now = [peer for peer in self.peers if turn < rounds_of(peer, rounds) and self.names_now(peer, setting)]
                if now or self.ours_now(setting):
                    who = ", ".join(["Capstan", *(peer.name for peer in now)])
                    self.clock.say(f"{self.stage}, round {turn + 1} of {rounds}: {setting}: {who}")
                self.run_ours(setting)
                for peer in now:
                    self.run_peer(peer, setting, self.stage, self.min_time, self.figures)
            self.keys &= near_best(self.figures, CLOSE, lambda key: (key.peer, row_of(key.name)))

    def rows(self):
        """What was measured so far, in the order of our program."""
        for row in dict.fromkeys(row_of(name) for name in self.ours):
            if self.our_figures[row]:
                best = (self.best(peer, row) for peer in self.peers)
                yield Row(row, self.our_figures[row], [figures for figures in best if figures])

    def best(self, peer, row):
        tried = [key for key in self.figures if key.peer == peer.name and row_of(key.name) == row]
        if not tried:
            return None
        key = min(tried, key=lambda one: median(self.figures[one]))
        variant = variant_of(key.name)
        setting = f"t{key.setting.threads}" if peer.kind == "framework" else str(key.setting)
        return Figures(peer.name, peer.kind, self.figures[key], f"{setting}{f' /{variant}' if variant else ''}",
                       key.name.removesuffix("/real_time"), key.setting.environment())


# --- rows at other sizes -----------------------------------------------------------------------------------------


def growth_keys(main, names, peers):
    """For rows at other sizes, the settings that were near the best in their base row, or in a twin of it.

    LibTorch's are held against the best LibTorch, a framework's against the best of all: it takes part where it leads.
    """
    kinds = {peer.name: peer.kind for peer in peers}
    libtorch = {key: values for key, values in main.figures.items() if kinds[key.peer] == "libtorch"}
    near = near_best(libtorch, HOPELESS, lambda key: row_of(key.name))
    near |= {key for key in near_best(main.figures, HOPELESS, lambda key: row_of(key.name))
             if kinds[key.peer] == "framework"}
    return {key for key in all_keys(names, peers) if is_near(key, near, main.figures)}


def is_near(key, near, figures):
    base = with_twins(growth_of(key.name)[0])
    variant = variant_of(key.name)
    known = [one for one in figures if one.peer == key.peer and row_of(one.name) in base]
    if not known:
        return True  # nothing to judge by
    same = [one for one in known if variant_of(one.name) == variant] or known
    return any(one in near and one.setting == key.setting for one in same)


# --- memory ------------------------------------------------------------------------------------------------------


def peak_mb(measure, command, name, environment):
    """Of a process that runs one row."""
    one = filter_of([name]).replace(")$", ")(/real_time)?$")
    text = output_of([measure, *command, one, f"--benchmark_min_time={SCOUTING}"], environment)
    return round(int(text.split()[1]) * 1024 / 1e6, 1)


def measure_peaks(rows, measure, ours, peers, clock):
    """Peak memory in MB of each row, and of the best LibTorch in its best setting. Twins are left out.

    Yields a row's name and its columns.
    """
    commands = {peer.name: peer.command for peer in peers}
    rows = [row for row in rows if threads_of(row.name) is None]
    clock.say(f"peak memory of {len(rows)} rows")
    for row in rows:
        best = row.best()
        peaks = {"ours_peak_mb": peak_mb(measure, ours, row.name, {}), "peer_peak_mb": None}
        if best:
            try:
                peaks["peer_peak_mb"] = peak_mb(measure, commands[best.peer], best.name, best.environment)
            except Failed as error:
                print(f"no peak of {best.peer} in {row.name}: {error}", file=sys.stderr)
        yield row.name, peaks
