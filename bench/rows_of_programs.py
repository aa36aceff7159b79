"""Rows of the benchmark programs: all rows of one setting run in one process, and processes of all sides take turns.

A short scouting round tells which settings and variants of a LibTorch are hopeless for a row. The others are measured
in full rounds, by turns with Capstan, which runs with its defaults but in rows that end in _t1 or _t2. Frameworks
compile for long: they are not scouted, and take part in fewer rounds.

Between the two sides of a pair lies the time that all other rows of a process take, within which a machine that others
share may become twice as slow. So rows that are not far from their target, above or below it, are then settled: one by
one, each in a process of its own, by turns with the best of LibTorch.
"""
import sys
from collections import defaultdict
from typing import NamedTuple

import targets
from measured import Figure, Figures, Row, middle, row_of, threads_of, variant_of
from peers import SETTINGS, Failed, Setting, filter_of, output_of, run_benchmarks

HOPELESS = 1.5      # after scouting, a setting this many times slower than the peer's best is not tried again
CLOSE = 1.25        # the same after a full round
RIVALS = 2          # settings and variants that a row is settled against: the best, if they are close
SCOUTING = 0.01     # seconds of a row
SECONDS = {"ours": 0.2, "libtorch": 0.25, "framework": 0.8, "process": 1}  # of a row in a turn, until it is known
KEPT = 0.35         # what scouting leaves over, until it is known
UNSETTLED = 2       # processes that settle a row, times the share of rows that need it, until it is known


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
        best[group(key)] = min(best[group(key)], middle(values))
    return {key for key, values in figures.items() if middle(values) <= share * best[group(key)]}


def peer_and_row(key):
    return key.peer, row_of(key.name)


class Timing:
    """The rows of one table. `ours` are our programs' names of them, `names` those of each peer's."""

    def __init__(self, command, ours, peers, names, clock, stage, min_time, framework_rounds):
        self.command, self.ours, self.peers, self.names = command, ours, peers, names
        self.keys = all_keys(names, peers)  # what is tried
        self.clock, self.stage, self.min_time, self.framework_rounds = clock, stage, min_time, framework_rounds
        self.scouting, self.settling = f"scouting for {stage}", f"settling {stage}"
        self.our_figures, self.figures = defaultdict(list), defaultdict(list)
        self.failed = {}      # peers whose program broke off, and why
        self.left_out = set()  # (peer, name): rows that the peer's program could not run
        self.rivals = {}      # row: the keys that it was settled against

    def names_now(self, peer, setting):
        return [name for name in self.names[peer.name] if Key(peer.name, name, setting) in self.keys]

    def ours_now(self, setting):
        """Our rows that a peer runs in this setting, and once a round those that nobody is compared with."""
        rows = {row_of(key.name) for key in self.keys if key.setting == setting}
        compared = {row_of(key.name) for key in self.keys}
        first = {name: next(one for one in SETTINGS if one.fits(name)) for name in self.ours}
        return [name for name in self.ours if setting.fits(name)
                and (row_of(name) in rows or (row_of(name) not in compared and first[name] == setting))]

    def rounds_of(self, peer, rounds):
        return min(rounds, self.framework_rounds) if peer.kind == "framework" else rounds

    def measure_peer(self, peer, setting, names, stage, who, min_time):
        """Nanoseconds by name; None if the peer's program breaks off, now or earlier."""
        if peer.name in self.failed:
            return None
        try:
            with self.clock.running(stage, who, len(names)):
                return run_benchmarks(peer.command, names, setting.environment(), min_time)
        except Failed as error:
            return self.leave_out(peer.name, error)

    def run_peer(self, peer, setting, number, stage, min_time, figures):
        names = self.names_now(peer, setting)
        results = self.measure_peer(peer, setting, names, stage, peer.name, min_time) if names else None
        if results is None:
            return
        for name, ns in results.items():
            figures[Key(peer.name, name, setting)].append(Figure(ns, number, SETTINGS.index(setting)))
        missing = set(names) - set(results)
        self.left_out |= {(peer.name, name) for name in missing}
        self.keys -= {Key(peer.name, name, setting) for name in missing}

    def leave_out(self, name, error):
        self.failed[name] = str(error)
        self.keys = {key for key in self.keys if key.peer != name}
        print(f"{name} is left out from here on: {error}", file=sys.stderr)

    def measure_ours(self, names, stage, who, number, turn):
        """Rows that are held to a number of threads run apart from the others."""
        for held_to in dict.fromkeys(map(threads_of, names)):
            held = [name for name in names if threads_of(name) == held_to]
            threads = {"CAPSTAN_NUM_THREADS": str(held_to)} if held_to else {}
            with self.clock.running(stage, who, len(held)):
                results = run_benchmarks(self.command, held, threads, self.min_time)
            for name, ns in results.items():
                self.our_figures[name].append(Figure(ns, number, turn))

    def run_ours(self, setting, number):
        self.measure_ours(self.ours_now(setting), self.stage, "ours", number, SETTINGS.index(setting))

    def scout(self):
        scouted = defaultdict(list)
        for setting in SETTINGS:
            for peer in (one for one in self.peers if one.kind == "libtorch"):
                if names := self.names_now(peer, setting):
                    self.clock.say(f"{self.scouting}: {peer.name}, {setting}, {len(names)} rows")
                    self.run_peer(peer, setting, 0, self.scouting, SCOUTING, scouted)
        self.keys -= set(scouted) - near_best(scouted, HOPELESS, peer_and_row)
        self.clock.forget(self.scouting)

    def plan_all(self, rounds, scouts, settled):
        """Tells the clock what there will be to do, as far as can be known before scouting."""
        kept = KEPT if scouts else 1
        for peer in self.peers:
            tries, seconds = sum(key.peer == peer.name for key in self.keys), SECONDS[peer.kind]
            scouted = scouts and peer.kind == "libtorch"
            if scouted:
                self.clock.plan(self.scouting, peer.name, tries, seconds / 2)
            left = self.rounds_of(peer, rounds) * tries * (KEPT if scouted else 1)
            self.clock.plan(self.stage, peer.name, int(left), seconds)
        turns = kept * len(SETTINGS) if self.peers else 1
        self.clock.plan(self.stage, "ours", int(rounds * turns * len(self.ours)), SECONDS["ours"])
        judged = sum(row_of(name) in targets.RATIOS for name in self.ours) if self.peers else 0
        self.clock.plan(self.settling, "all", int(settled * UNSETTLED * judged), SECONDS["process"])

    def plan(self, rounds, turn):
        """Tells the clock what is left."""
        self.clock.forget(self.stage)
        for peer in self.peers:
            count = sum(key.peer == peer.name for key in self.keys)
            left = max(0, self.rounds_of(peer, rounds) - turn)
            self.clock.plan(self.stage, peer.name, left * count, SECONDS[peer.kind])
        count = sum(len(self.ours_now(setting)) for setting in SETTINGS)
        self.clock.plan(self.stage, "ours", (rounds - turn) * count, SECONDS["ours"])

    def run(self, rounds):
        for turn in range(rounds):
            self.plan(rounds, turn)
            for setting in SETTINGS:
                now = [peer for peer in self.peers
                       if turn < self.rounds_of(peer, rounds) and self.names_now(peer, setting)]
                if now or self.ours_now(setting):
                    who = ", ".join(["Capstan", *(peer.name for peer in now)])
                    self.clock.say(f"{self.stage}, round {turn + 1} of {rounds}: {setting}: {who}")
                self.run_ours(setting, turn)
                for peer in now:
                    self.run_peer(peer, setting, turn, self.stage, self.min_time, self.figures)
            self.keys &= near_best(self.figures, CLOSE, peer_and_row)

    def rivals_of(self, row):
        """The best of all LibTorchs, best first, if the row is held against them."""
        if row not in targets.RATIOS:
            return []
        libtorch = {peer.name for peer in self.peers if peer.kind == "libtorch"}
        tried = {key: figures for key, figures in self.figures.items()
                 if key in self.keys and key.peer in libtorch and row_of(key.name) == row}
        close = near_best(tried, CLOSE, lambda _: None)
        return sorted(close, key=lambda key: middle(tried[key]))[:RIVALS]

    def settle_ours(self, row, number, turn):
        names = [name for name in self.ours if row_of(name) == row]
        self.measure_ours(names, self.settling, "all", number, turn)

    def settle_rival(self, key, number, turn):
        peer = next(one for one in self.peers if one.name == key.peer)
        results = self.measure_peer(peer, key.setting, [key.name], self.settling, "all", self.min_time)
        if results == {}:
            self.left_out.add((key.peer, key.name))
        self.figures[key] += [Figure(ns, number, turn) for ns in (results or {}).values()]

    def settle(self, rows, first, rounds):
        """Rounds `first` and following, row by row, what bounds a row beside it. Who begins changes every round."""
        self.rivals = {row: self.rivals_of(row) for row in rows}
        sides = {row: [*((self.settle_rival, key) for key in keys), (self.settle_ours, row),
                       *((self.settle_ours, name) for name in targets.yardsticks_of(row)
                         if threads_of(row) in (None, threads_of(name)))]
                 for row, keys in self.rivals.items()}
        self.clock.plan(self.settling, "all", rounds * sum(map(len, sides.values())), SECONDS["process"])
        for number in range(first, first + rounds):
            self.clock.say(f"{self.settling}, round {number - first + 1} of {rounds}: {len(rows)} rows")
            for turn, of_row in enumerate(sides.values()):
                for measure, whom in of_row if number % 2 else reversed(of_row):
                    measure(whom, number, turn)
        self.clock.forget(self.settling)

    def rows(self):
        """What was measured so far, in the order of our program."""
        for row in dict.fromkeys(row_of(name) for name in self.ours):
            variants = [figures for name, figures in self.our_figures.items() if row_of(name) == row]
            if variants:
                best = (self.best(peer, row) for peer in self.peers)
                yield Row(row, min(variants, key=middle), [figures for figures in best if figures])

    def best(self, peer, row):
        tried = [key for key in self.figures if key.peer == peer.name and row_of(key.name) == row]
        settled = [key for key in tried if key in self.rivals.get(row, ())]
        tried = settled or tried  # the others have a few figures each, of which one is low by chance
        if not tried:
            return None
        key = min(tried, key=lambda one: middle(self.figures[one]))
        variant = variant_of(key.name)
        setting = f"t{key.setting.threads}" if peer.kind == "framework" else str(key.setting)
        return Figures(peer.name, peer.kind, self.figures[key], f"{setting}{f' /{variant}' if variant else ''}",
                       key.name.removesuffix("/real_time"), bool(settled))


def against_loops(rows):
    """Rows whose peer is another row of ours get its figures; that one is then no row of its own."""
    by_name = {row.name: row for row in rows}
    for name, loops in targets.LOOPS.items():
        if name in by_name and loops in by_name:
            by_name[name].theirs.append(Figures(targets.LOOPS_NAME, "other", by_name.pop(loops).ours))
    return list(by_name.values())


# --- memory ------------------------------------------------------------------------------------------------------

AS_IT_COMES = [setting for setting in SETTINGS if setting.threads == setting.blas and not setting.keeps]


def peak_mb(measure, command, environment):
    return int(output_of([measure, *command], environment).split()[1]) * 1024 / 1e6


def row_peak_mb(measure, command, name, environment):
    """Of a process that runs one row."""
    one = filter_of([name]).replace(")$", ")(/real_time)?$")
    return peak_mb(measure, [*command, one, f"--benchmark_min_time={SCOUTING}"], environment)


def hello_peaks(measure, peers):
    """Of the LibTorch programs that add two tensors, by the peer's name."""
    for peer in (one for one in peers if one.hello):
        try:
            yield peer.name, peak_mb(measure, [peer.hello], {})
        except Failed as error:
            print(f"no peaks of {peer.name}: {error}", file=sys.stderr)


def lowest_peaks(row, measure, commands, hellos):
    """LibTorch's lowest peak, on one thread or two, with malloc as it comes; and its lowest beyond hello's."""
    whole, own = [], []
    for figures in (one for one in row.theirs if one.peer in hellos):
        try:
            peaks = [row_peak_mb(measure, commands[figures.peer], figures.name, setting.environment())
                     for setting in AS_IT_COMES]
        except Failed as error:
            print(f"no peak of {figures.peer} in {row.name}: {error}", file=sys.stderr)
            continue
        whole.append(min(peaks))
        own.append(min(peaks) - hellos[figures.peer])
    return min(whole, default=None), min(own, default=None)


def names_without_twins(names):
    """One of the rows that differ by their threads alone: the plain one, else that of two threads."""
    known = set(names)
    return [name for name in dict.fromkeys(names)
            if threads_of(name) is None or threads_of(name) == 2 and name.removesuffix("_t2") not in known]


def measure_peaks(rows, programs, ours, peers, clock):
    """Peak memory in MB of each row, ours and LibTorch's, but for twins. Yields a row's name and its columns.

    Peaks are of whole processes; own ones are what is beyond the peak of a program that adds two tensors.
    """
    measure = programs["measure"]
    commands = {peer.name: peer.command for peer in peers}
    hello, hellos = peak_mb(measure, [programs["hello"]], {}), dict(hello_peaks(measure, peers))
    alone = set(names_without_twins([row.name for row in rows]))
    rows = [row for row in rows if row.name in alone]
    clock.say(f"peak memory of {len(rows)} rows")
    for row in rows:
        peak = row_peak_mb(measure, ours, row.name, {})
        whole, own = lowest_peaks(row, measure, commands, hellos)
        columns = {"ours_peak_mb": peak, "peer_peak_mb": whole, "ours_own_mb": peak - hello, "peer_own_mb": own}
        yield row.name, {name: mb if mb is None else round(mb, 1) for name, mb in columns.items()}
