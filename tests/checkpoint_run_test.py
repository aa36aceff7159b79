#!/usr/bin/env python3
"""Kills a training that saves checkpoints, and lets it find full disks: checkpoint_run_test.py PROGRAM

PROGRAM is tests/checkpoint_run.cpp, which says what it prints. A run that was killed again and again must have every
loss of one that was not, bit for bit.
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PROGRAM = sys.argv[1]
SAVES = 200      # that must have begun before the last run is left in peace
STEPS = 160
CANNOT = 77      # exit code: this machine does not let it
LONGEST = 0.12   # seconds from a start to its kill, or eight steps where they are slow
STARTS = 2000    # more there are never
HANGS = 300      # seconds after which a run does not end by itself


class Run:
    """One start of the program, and what it has said."""

    def __init__(self, folder, threads, how, kill_after=None):
        command = [PROGRAM, "train", str(folder), str(STEPS), str(threads), how]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.killer, self.hung = None, False
        watchdog = threading.Timer(HANGS, self.end)
        watchdog.daemon = True
        watchdog.start()
        self.facts = {"start": [], "skipped": [], "save": [], "saved": []}
        self.losses, self.done = {}, None
        for line in self.process.stdout:
            if not line.endswith(b"\n"):
                break  # it was killed while it wrote the line
            word, *rest = line.decode().split()
            if word == "start" and kill_after is not None:
                self.killer = threading.Timer(kill_after, self.process.kill)
                self.killer.start()
            if word == "loss":
                self.losses[int(rest[0])] = rest[1]
            elif word == "done":
                self.done = rest[0]
            else:
                self.facts[word].append(int(rest[0]))
        self.errors = self.process.stderr.read().decode()
        self.code = self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        watchdog.cancel()
        if self.killer is not None:
            self.killer.cancel()

    def end(self):
        self.hung = True
        self.process.kill()


class Kill(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_a_run_that_is_killed_again_and_again_has_the_losses_of_one_that_is_not(self):
        began = time.monotonic()
        whole = Run(self.folder / "whole", 2, "background")
        longest = max(LONGEST, 8 * (time.monotonic() - began) / STEPS)
        self.assertEqual((whole.code, whole.errors, whole.hung), (0, "", False))
        self.assertEqual(whole.facts["start"], [0])
        self.assertEqual(sorted(whole.losses), list(range(1, STEPS + 1)))

        chance = random.Random(20240607)
        saves, kills, rounds, disk = 0, 0, 0, 0
        folder = self.folder / "killed"
        for starts in range(STARTS + 1):
            self.assertLess(starts, STARTS, f"so many starts made {saves} saves")
            last = saves >= SAVES
            threads, how = chance.choice((1, 2)), chance.choice(("background", "background", "foreground"))
            run = Run(folder, threads, how, None if last else chance.uniform(0, longest))
            self.assertEqual((run.errors, run.hung), ("", False))
            self.assertTrue(run.facts["start"], f"it ended before it began, with code {run.code}: not by us")
            start = run.facts["start"][0]
            self.assertGreaterEqual(start, disk, "a checkpoint that was on the disk is lost")
            self.assertEqual(run.facts["skipped"], [0] if run.facts["skipped"] else [])
            for step, loss in run.losses.items():
                self.assertEqual(loss, whole.losses[step], f"step {step} of a run that went on from {start}")
            self.assertIn(run.code, (0, -9))
            saves += len(run.facts["save"])
            disk = max([disk, start, *run.facts["saved"]])
            kills += run.code == -9
            if run.code == 0:
                self.assertEqual(run.done, whole.done)
                if last:
                    break
                rounds, disk = rounds + 1, 0  # once more, from the beginning
                folder = self.folder / f"killed{rounds}"
        left = sorted(file.name for file in folder.iterdir())
        if run.facts["save"]:  # the first save removes what killed runs have left
            self.assertEqual([name for name in left if ".part" in name], [])
            self.assertLessEqual(len(left), 4)  # the last three and the best
        seconds = time.monotonic() - began
        print(f"{saves} saves, {kills} kills, {rounds + 1} trainings, {seconds:.1f} s", file=sys.stderr)


class Disk(unittest.TestCase):
    def run_mode(self, mode):
        with tempfile.TemporaryDirectory() as name:
            os.chmod(name, 0o755)
            folder = pathlib.Path(name) / "run"
            folder.mkdir()
            result = subprocess.run([PROGRAM, mode, str(folder)], capture_output=True, text=True, timeout=120,
                                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=False)
            os.chmod(folder, 0o755)
        if result.returncode == CANNOT:
            self.skipTest(f"{mode} cannot be set up on this machine")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_full_disk_leaves_the_run_and_the_checkpoints_before_as_they_were(self):
        self.run_mode("full")

    def test_a_folder_that_cannot_be_written_leaves_the_run_and_the_checkpoints_before_as_they_were(self):
        self.run_mode("read-only")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
