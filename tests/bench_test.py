#!/usr/bin/env python3
"""What bench/ makes of figures, by invented ones: pairs, verdicts, growth, and the comparison of two runs."""
import contextlib
import io
import json
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import targets
from clock import Clock
from measured import WORK, Figure, Figures, Row, by_round, paired_ratio, work_factor
from peers import SETTINGS, TUNING, Peer
from rows_of_programs import Key, Timing, against_loops
from verdicts import check_rows, compare_runs, unclear_rows, verdict


def row(name, ours, theirs=None, framework=None, **others):
    peers = [Figures("LibTorch 1.13.1", "libtorch", by_round(theirs))] if theirs else []
    peers += [Figures("TensorFlow 2.0", "framework", by_round(framework))] if framework else []
    return Row(name, by_round(ours), peers, **others)


def verdicts_of(*rows, has_libtorch=True):
    checks = check_rows(rows, has_libtorch)
    return [verdict(one, checks[one.name]) for one in rows]


class Pairs(unittest.TestCase):
    def test_a_figure_is_divided_by_that_of_its_round_and_the_nearest_turn(self):
        theirs = [Figure(20, 0, 3), Figure(90, 1, 6)]
        ours = [Figure(1, 0, 0), Figure(2, 0, 4), Figure(3, 1, 5), Figure(100, 2, 6)]
        self.assertEqual(paired_ratio(theirs, ours), (15, 20, 25))  # of 20/2 and 90/3

    def test_a_slow_round_of_both_sides_changes_no_ratio(self):
        ratio = row("add_1", [1, 2, 5], [10, 20, 50]).ratio(row("add_1", [1], [1]).best())
        self.assertEqual(ratio, (1, 1, 1))  # the only pair is that of the first round
        slow = row("add_1", [1, 2, 5], [10, 20, 50])
        self.assertEqual(slow.ratio(slow.best()), (10, 10, 10))

    def test_without_a_round_in_common_there_is_no_ratio(self):
        self.assertIsNone(paired_ratio([Figure(1, 0)], [Figure(1, 1)]))
        self.assertIsNone(paired_ratio([Figure(1)], [Figure(0)]))


class Verdicts(unittest.TestCase):
    def test_a_target_within_the_quartiles_is_close(self):
        self.assertEqual(verdicts_of(row("parity_step", [10, 10, 10], [36, 41, 44])), ["holds, close"])
        self.assertEqual(verdicts_of(row("parity_step", [10, 10, 10], [36, 39, 44])), ["MISSED 3.90, close"])
        self.assertEqual(verdicts_of(row("parity_step", [10, 10, 10], [30, 31, 32])), ["MISSED 3.10"])

    def test_a_product_is_missed_though_its_target_is_within_the_quartiles(self):
        self.assertEqual(verdicts_of(row("matmul_256_t1", [100] * 3, [97, 98, 104])), ["MISSED 0.98, close"])
        self.assertEqual(verdicts_of(row("matmul_256_t1", [100] * 3, [98, 101, 104])), ["holds, close"])

    def test_a_product_holds_near_the_peak(self):
        peak = row("peak_fma_t1", [2**27 / 100])    # 100 operations a ns
        near, far = (row("matmul_1024_t1", [2 * 1024**3 / rate], [1]) for rate in (96, 90))
        self.assertEqual(verdicts_of(near, peak), ["holds", "-"])
        self.assertIn("90% of peak", verdicts_of(far, peak)[0])

    def test_a_slow_round_of_a_row_and_its_yardstick_changes_no_share(self):
        yardstick = row("peak_fma_t1", [2**27 / 100, 2**27 / 50, 2**27 / 25])
        matmul = row("matmul_1024_t1", [2 * 1024**3 / 90, 2 * 1024**3 / 45], [1, 1])
        self.assertIn("90% of peak", verdicts_of(matmul, yardstick)[0])  # of medians it would be 120 %

    def test_a_share_is_that_of_the_yardstick_beside_the_row(self):
        slow = Row("matmul_1024_t1", [Figure(2 * 1024**3 / 48, 0, 5)], row("matmul_1024_t1", [1], [1]).theirs)
        yardstick = [Figure(2**27 / (50 if turn == 5 else 100), 0, turn) for turn in range(9)]
        self.assertEqual(verdicts_of(slow, Row("peak_fma_t1", yardstick)), ["holds", "-"])

    def test_settled_peers_alone_are_judged(self):
        few = Figures("LibTorch 1.13.1", "libtorch", by_round([140]))
        many = Figures("LibTorch 2.15", "libtorch", by_round([100, 200, 200]), settled=True)
        self.assertEqual(Row("parity_step", by_round([30, 60, 60]), [few, many]).best().peer, "LibTorch 2.15")

    def test_a_row_that_no_libtorch_measured_is_missed_where_there_is_one(self):
        self.assertEqual(verdicts_of(row("parity_step", [1])), ["not compared"])
        self.assertEqual(verdicts_of(row("parity_step", [1]), has_libtorch=False), ["-"])

    def test_a_faster_framework_is_named(self):
        self.assertEqual(verdicts_of(row("add_1", [12], [120], [10])), ["holds, but TensorFlow 1.2x faster"])
        self.assertEqual(verdicts_of(row("add_1", [12], [120], [11.8])), ["holds"])

    def test_two_threads_are_held_against_one_in_pairs(self):
        self.assertEqual(verdicts_of(row("gather_t1", [10, 20, 30]), row("gather_t2", [10, 20, 30])), ["-", "holds"])
        self.assertEqual(verdicts_of(row("gather_t1", [10] * 3), row("gather_t2", [11] * 3)),
                         ["-", "MISSED 1.10 of t1"])
        self.assertEqual(verdicts_of(row("stream_copy_t1", [10]), row("stream_copy_t2", [20])), ["-", "-"])

    def test_rows_near_their_targets_are_unclear_on_either_side(self):
        rows = [row("parity_step", [10], [ratio]) for ratio in (29, 31, 50, 55)]
        self.assertEqual([bool(unclear_rows([one])) for one in rows], [False, True, True, False])
        self.assertEqual(unclear_rows([row("parity_step", [10])]), [])
        peak = row("peak_fma_t1", [2**27 / 100])
        rows = [row("matmul_1024_t1", [2 * 1024**3 / rate], [1]) for rate in (60, 90)]
        self.assertEqual([unclear_rows([one, peak]) for one in rows], [[], ["matmul_1024_t1"]])

    def test_one_thread_is_unclear_where_two_are(self):
        one, two = row("matmul_256_t1", [10], [30]), row("matmul_256_t2", [9], [30])
        self.assertEqual(unclear_rows([one, two]), ["matmul_256_t1", "matmul_256_t2"])
        self.assertEqual(unclear_rows([row("exp_t1", [10], [30]), row("exp_t2", [6], [30])]), [])

    def test_loops_are_the_peer_of_their_plan(self):
        rows = against_loops([row("plan_lstm4", [100]), row("loops_lstm4", [60])])
        self.assertEqual([one.name for one in rows], ["plan_lstm4"])
        self.assertEqual(verdicts_of(*rows), ["holds"])
        self.assertEqual(verdicts_of(*against_loops([row("plan_lstm4", [100]), row("loops_lstm4", [40])])),
                         ["MISSED 0.40"])

    def test_targets_without_a_row_are_named(self):
        self.assertEqual(targets.without_row([row(name, [1]) for name in [*targets.RATIOS, *targets.LIMITS]]), [])
        self.assertIn("library_size", targets.without_row([row("add_1", [1])]))

    def test_limits_are_in_their_units(self):
        checks = check_rows([row("library_size", [44.0], unit="MB")], True)["library_size"]
        self.assertEqual(checks, [("<=45 MB", "44 MB", True, False)])


class Growth(unittest.TestCase):
    def test_work_grows_by_its_largest_part(self):
        self.assertEqual(work_factor("matmul_1024.size=2048"), 8)
        self.assertEqual(work_factor("parity_step.batch=100"), 0.1)
        self.assertIsNone(work_factor("unknown.size=3"))

    def test_base_sizes_are_those_of_the_programs(self):
        try:
            from peer_rows import WORKLOADS
        except ImportError:
            self.skipTest("NumPy is not there")
        known = {f"{name}.{axis}": workload.sizes[axis]
                 for name, workload in WORKLOADS.items() for axis in workload.growth}
        self.assertEqual(known, {name: size for name, (size, _) in WORK.items()})


class Runs(unittest.TestCase):
    def made(self, *rows):
        checks = check_rows(rows, True)
        return {"growth": [], "rows": [one.as_json() | {
            "checks": [check._asdict() for check in checks[one.name]],
            "holds": all(check.holds for check in checks[one.name])} for one in rows]}

    def test_runs_that_say_the_same_agree(self):
        old, new = self.made(row("add_1", [1], [12])), self.made(row("add_1", [2], [25]))
        self.assertTrue(compare_runs(new, old).agree())

    def test_another_verdict_or_another_set_of_rows_differs(self):
        old = self.made(row("add_1", [10], [101]), row("add_64", [10], [101]))
        self.assertEqual(compare_runs(self.made(row("add_1", [10], [99]), row("add_64", [10], [101])), old).verdicts,
                         ["add_1"])
        fewer = compare_runs(self.made(row("add_1", [10], [101])), old)
        self.assertEqual((fewer.only_old, fewer.agree()), (["add_64"], False))
        self.assertTrue(compare_runs(self.made(row("add_1", [10], [101])), old, re.compile("add_1").search).agree())

    def test_a_verdict_that_was_close_does_not_differ(self):
        old = self.made(row("add_1", [10] * 3, [90, 101, 110]))
        self.assertEqual(compare_runs(self.made(row("add_1", [10] * 3, [98, 98, 98])), old).verdicts, [])


PROGRAM = """
import json, os, re, sys
who, times, log = {!r}, {!r}, {!r}
wanted = re.compile(next(one.split("=", 1)[1] for one in sys.argv if one.startswith("--benchmark_filter")))
names = [name for name in times if wanted.search(name)]
with open(log, "a") as file:
    file.writelines(f"{{who}} {{name}} {{os.environ.get('CAPSTAN_NUM_THREADS', '-')}}\\n" for name in names)
if any(times[name] == "breaks off" for name in names):
    sys.exit("no such instruction")
print(json.dumps({{"benchmarks": [{{"name": name, "real_time": times[name]}} for name in names
                                if times[name] != "fails"]}}))
"""


class Settling(unittest.TestCase):
    """Programs that invent their times, and log what they were run for."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def command(self, who, times):
        program = self.folder / f"{who}.py"
        program.write_text(PROGRAM.format(who, times, str(self.folder / "log")))
        return sys.executable, str(program)

    def timing(self, ours, **theirs):
        """Rows of LibTorchs that took as long as is told in a round before."""
        peers = [Peer(peer, "libtorch", self.command(peer, times), None, None, (), None)
                 for peer, times in theirs.items()]
        made = Timing(self.command("ours", ours), list(ours), peers, {peer: list(times) for peer, times in theirs.items()},
                      Clock(), "rows", 0.01, 1)
        for name, ns in ours.items():
            made.our_figures[name] = by_round([ns])
        for key in made.keys:
            ns = theirs[key.peer][key.name]
            made.figures[key] = by_round([ns if isinstance(ns, int) else 1])
        return made

    def settled(self, timing, rows, rounds=1):
        """What ran, in its order: who, the row, and how many threads Capstan was held to."""
        with contextlib.redirect_stderr(io.StringIO()):
            timing.settle(rows, 1, rounds)
        return (self.folder / "log").read_text().splitlines()

    def test_sides_take_turns_row_by_row_and_who_begins_changes(self):
        timing = self.timing({"exp_t1": 10, "stream_copy_t1": 5, "stream_copy_t2": 3}, peer={"exp_t1": 20})
        ran = self.settled(timing, ["exp_t1"], rounds=2)
        self.assertEqual(ran[:4], ["peer exp_t1 -", "peer exp_t1 -", "ours exp_t1 1", "ours stream_copy_t1 1"])
        self.assertEqual(ran[4:], ran[3::-1])
        self.assertEqual([len(timing.our_figures[name]) for name in ("exp_t1", "stream_copy_t1", "stream_copy_t2")],
                         [3, 3, 1])

    def test_the_best_two_ways_and_settings_are_settled(self):
        timing = self.timing({"add_1": 10}, peer={"add_1/slow": 26, "add_1/good": 20, "add_1/near": 24})
        keys = [Key("peer", f"add_1/{way}", SETTINGS[0]) for way in ("good", "near", "slow")]
        timing.keys = set(keys)
        self.assertEqual(timing.rivals_of("add_1"), keys[:2])
        timing.figures[keys[1]] = by_round([26])
        self.assertEqual(timing.rivals_of("add_1"), keys[:1])

    def test_a_pair_is_of_one_row_in_one_round(self):
        timing = self.timing({"add_1": 10, "add_64": 30}, peer={"add_1": 20, "add_64": 90})
        self.settled(timing, ["add_1", "add_64"])
        by_name = {row.name: row for row in timing.rows()}
        self.assertEqual([by_name[name].ratio(by_name[name].best()).median for name in ("add_1", "add_64")], [2, 3])
        self.assertTrue(by_name["add_1"].best().settled)

    def test_a_peer_that_breaks_off_is_left_out_and_the_rest_goes_on(self):
        timing = self.timing({"add_1": 10, "add_64": 10}, weak={"add_1": "breaks off", "add_64": 9}, well={"add_1": 20})
        ran = self.settled(timing, ["add_1", "add_64"])
        self.assertIn("no such instruction", timing.failed["weak"])
        self.assertEqual([line for line in ran if line.startswith("weak")], ["weak add_1 -"])
        self.assertIn("ours add_64 -", ran)

    def test_a_row_that_a_peer_cannot_run_is_named(self):
        timing = self.timing({"add_1": 10}, peer={"add_1": "fails"})
        self.settled(timing, ["add_1"])
        self.assertEqual(timing.left_out, {("peer", "add_1")})
        self.assertEqual(timing.failed, {})


class Environment(unittest.TestCase):
    def test_what_tunes_a_peer_is_taken_away(self):
        for name in ["KMP_BLOCKTIME", "GOMP_SPINCOUNT", "NPROC", "JAX_PLATFORMS", "XLA_FLAGS", "TF_NUM", "LD_PRELOAD"]:
            self.assertTrue(TUNING.match(name), name)
        for name in ["PATH", "LD_LIBRARY_PATH", "NPROC_OF_ANOTHER"]:
            self.assertFalse(TUNING.match(name), name)


if __name__ == "__main__":
    unittest.main()
