#!/usr/bin/env python3
"""The rows of capstan_cuda_bench in PyTorch, eager, on a GPU: one line of JSON each.

Where a user can choose between ways to do the same, there is a row for each: "mnist_cnn/fused". The figure of the row
is that of the fastest.
"""
import argparse
import gc
import json
import re
import sys
import time
from statistics import median

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = torch.device("cuda", 0)
MANY, ROWS, COLUMNS = 1 << 26, 8192, 4096


def values(shape, seed=1):
    """Always the same numbers, uniform in [-2, 2)."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.rand(shape, generator=generator, device=DEVICE) * 4 - 2


def indices(shape, high, seed=1):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randint(high, shape, generator=generator, device=DEVICE)


class Bench:
    def __init__(self, options):
        self.options = options
        self.failed = False

    def row(self, name, prepare):
        """Measures work by the clock of the host, around many runs and the wait for the GPU."""
        self._print(name, lambda: self._median(prepare()))

    def unrecorded(self, name, prepare):
        def measure():
            with torch.no_grad():
                return self._median(prepare())
        self._print(name, measure)

    def issue(self, name, calls, prepare):
        """How long the host takes to ask for work that the GPU does meanwhile."""
        def measure():
            with torch.no_grad():
                work, figures = prepare(), []
                for turn in range(self.options.repeats + 1):
                    torch.cuda.synchronize()
                    start = time.perf_counter()
                    for _ in range(calls):
                        work()
                    if turn > 0:
                        figures.append((time.perf_counter() - start) / calls)
                torch.cuda.synchronize()
                return median(figures)
        self._print(name, measure)

    def _median(self, work):
        for _ in range(10):  # cuDNN tries its algorithms, pools fill up
            work()
        runs, seconds = 1, self._seconds(work, 1)
        while seconds < self.options.min_time:
            wanted = int(1.2 * runs * self.options.min_time / max(seconds, 1e-7))
            runs = min(max(wanted, runs + 1), 10 * runs)
            seconds = self._seconds(work, runs)
        return median(self._seconds(work, runs) / runs for _ in range(self.options.repeats))

    @staticmethod
    def _seconds(work, runs):
        gc.collect()
        gc.disable()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(runs):
            work()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        gc.enable()
        return seconds

    def _print(self, name, measure):
        if not self.options.filter.search(name.split("/")[0]):
            return
        if self.options.list:
            print(name)
            return
        try:
            result = {"name": name, "us": 1e6 * measure()}
        except (RuntimeError, TypeError, ValueError) as error:
            self.failed = True
            result = {"name": name, "error": str(error)}
        print(json.dumps(result), flush=True)


# --- single operations -----------------------------------------------------------------------------------------


def elementwise_rows(bench):
    def unary(name, function, shape):
        def prepare():
            x = values(shape)
            return lambda: function(x)
        bench.unrecorded(name, prepare)

    def binary(name, function):
        def prepare():
            a, b = values([MANY], 1), values([MANY], 2)
            return lambda: function(a, b)
        bench.unrecorded(name, prepare)

    unary("copy", torch.clone, [MANY])
    binary("add", torch.add)
    binary("mul", torch.mul)
    unary("exp", torch.exp, [MANY])
    unary("tanh", torch.tanh, [MANY])
    unary("transposed_copy", lambda x: x.t().contiguous(), [ROWS, COLUMNS])
    unary("sum_axis0", lambda x: x.sum(0), [ROWS, COLUMNS])
    unary("sum_axis1", lambda x: x.sum(1), [ROWS, COLUMNS])
    unary("sum_all", lambda x: x.sum(), [ROWS, COLUMNS])


def layer_rows(bench, name, shapes, function):
    def make(recorded):
        return [values(shape, seed + 1).requires_grad_(recorded) for seed, shape in enumerate(shapes)]

    def forward():
        inputs = make(False)
        return lambda: function(*inputs)

    def both():
        inputs = make(True)
        grad = values(function(*inputs).shape, 9)
        return lambda: torch.autograd.grad(function(*inputs), inputs, grad)

    bench.unrecorded(name + "_forward", forward)
    bench.row(name, both)


def normalizing_rows(bench):
    layer_rows(bench, "softmax", [[ROWS, COLUMNS]], lambda x: F.softmax(x, -1))
    layer_rows(bench, "layer_norm", [[ROWS, COLUMNS], [COLUMNS], [COLUMNS]],
               lambda x, weight, bias: F.layer_norm(x, (COLUMNS,), weight, bias))


def matmul_row(bench, name, shape, dtype):
    def prepare():
        a, b = values(shape, 1).to(dtype), values(shape, 2).to(dtype)
        return lambda: torch.matmul(a, b)
    bench.unrecorded(name, prepare)


def allow_tf32(on):
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


def product_rows(bench, suffix):
    matmul_row(bench, "matmul_4096" + suffix, [4096, 4096], torch.float32)
    matmul_row(bench, "matmul_8192" + suffix, [8192, 8192], torch.float32)
    matmul_row(bench, "batched_matmul" + suffix, [64, 1024, 1024], torch.float32)
    layer_rows(bench, "conv3x3" + suffix, [[32, 64, 56, 56], [64, 64, 3, 3], [64]],
               lambda x, weight, bias: F.conv2d(x, weight, bias, padding=1))
    layer_rows(bench, "conv5x5" + suffix, [[50, 32, 28, 28], [64, 32, 5, 5], [64]],
               lambda x, weight, bias: F.conv2d(x, weight, bias, padding=2))


def matrix_rows(bench):
    product_rows(bench, "")
    allow_tf32(True)
    product_rows(bench, "_tf32")
    allow_tf32(False)
    matmul_row(bench, "matmul_4096_bf16", [4096, 4096], torch.bfloat16)
    matmul_row(bench, "matmul_8192_bf16", [8192, 8192], torch.bfloat16)


def small_rows(bench):
    def add():
        a, b = values([16], 1), values([16], 2)
        return lambda: torch.add(a, b)
    bench.issue("add_16_issue", 1000, add)

    def chain():
        x, w = (values([64], 1) * 0.05 + 1).requires_grad_(), values([64], 2) * 0.05 + 1

        def work():
            y = x
            for _ in range(32):
                y = y * w
            return torch.autograd.grad(y.sum(), x)
        return work
    bench.row("chain_32_backward", chain)


# --- training steps --------------------------------------------------------------------------------------------


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
        self.fc1, self.fc2 = nn.Linear(7 * 7 * 64, 1024), nn.Linear(1024, 10)
        self.drop = nn.Dropout(0.5)

    def forward(self, images):
        h = F.max_pool2d(F.relu(self.conv1(images)), 2)
        h = F.max_pool2d(F.relu(self.conv2(h)), 2)
        return self.fc2(self.drop(F.relu(self.fc1(h.flatten(1)))))


class LetterNet(nn.Module):
    limit = 1.25

    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(27, 64), nn.Linear(64, 27)

    def forward(self, letters):  # [steps, batch, letters]
        return self.out(self.lstm(letters)[0]).flatten(0, 1)

    @staticmethod
    def batch():
        return F.one_hot(indices([10, 64], 27), 27).float(), indices([10, 64], 27, 2).flatten()


class WordNet(nn.Module):
    words, limit = 10000, 5

    def __init__(self, size, steps):
        super().__init__()
        self.steps = steps
        self.table, self.lstm = nn.Embedding(self.words, size), nn.LSTM(size, size, 2)
        self.out = nn.Linear(size, self.words)

    def forward(self, text):  # [steps, batch]
        return self.out(self.lstm(self.table(text))[0]).flatten(0, 1)

    def batch(self):
        return indices([self.steps, 20], self.words, 1), indices([self.steps, 20], self.words, 2).flatten()


def training_row(bench, name, make_net, make_optimizer, batch, limit=None):
    """A step on a fixed batch, with each implementation of the optimizer."""
    for variant in ("foreach", "fused"):
        def prepare(variant=variant):
            torch.manual_seed(1)
            net = make_net().to(DEVICE)
            parameters = list(net.parameters())
            optimizer = make_optimizer(parameters, **{variant: True})
            inputs, labels = batch(net)

            def work():
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(net(inputs), labels).backward()
                if limit is not None:
                    nn.utils.clip_grad_norm_(parameters, limit, foreach=True)
                optimizer.step()
            return work
        bench.row(f"{name}/{variant}", prepare)


def training_rows(bench):
    def adam(parameters, **how):
        return torch.optim.Adam(parameters, lr=1e-4, **how)

    def sgd(parameters, **how):
        return torch.optim.SGD(parameters, lr=0.1, **how)

    training_row(bench, "mnist_cnn", Cnn, adam,
                 lambda net: (values([50, 1, 28, 28]), torch.arange(50, device=DEVICE) % 10))
    training_row(bench, "char_lstm", LetterNet, sgd, lambda net: net.batch(), LetterNet.limit)
    training_row(bench, "ptb_small", lambda: WordNet(200, 20), sgd, lambda net: net.batch(), WordNet.limit)
    training_row(bench, "ptb_medium", lambda: WordNet(650, 35), sgd, lambda net: net.batch(), WordNet.limit)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="rows to measure")
    parser.add_argument("--min-time", type=float, default=0.05, metavar="SECONDS", help="that a figure takes at least")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="figures of which the median counts")
    bench = Bench(parser.parse_args())
    torch.backends.cudnn.benchmark = True
    allow_tf32(False)
    elementwise_rows(bench)
    normalizing_rows(bench)
    matrix_rows(bench)
    small_rows(bench)
    training_rows(bench)
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
