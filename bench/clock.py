"""How much of a run is left: rows still to be measured, times what a row of that sort took so far."""
import sys
import time
from contextlib import contextmanager


class Clock:
    def __init__(self):
        self.left, self.guess, self.ran, self.spent = {}, {}, {}, {}

    def plan(self, stage, who, count, seconds_each):
        """So many rows of `who` are left in a stage; the guess holds until the first of them ran."""
        self.left[stage, who], self.guess[stage, who] = count, seconds_each

    def forget(self, stage):
        self.left = {key: count for key, count in self.left.items() if key[0] != stage}

    @contextmanager
    def running(self, stage, who, count):
        start = time.monotonic()
        yield
        key = stage, who
        self.ran[key] = self.ran.get(key, 0) + count
        self.spent[key] = self.spent.get(key, 0) + time.monotonic() - start
        self.left[key] = max(0, self.left.get(key, 0) - count)

    def seconds_each(self, key):
        return self.spent[key] / self.ran[key] if self.ran.get(key) else self.guess[key]

    def minutes_left(self):
        return sum(count * self.seconds_each(key) for key, count in self.left.items()) / 60

    def say(self, text):
        print(f"{text} (about {max(1, round(self.minutes_left()))} min left)", file=sys.stderr, flush=True)
