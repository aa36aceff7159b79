"""What the benchmarks of the Python frameworks share: rows and their sizes, the numbers computed with, the protocol.

A program adds works to Rows and calls main(). It then takes these options of Google Benchmark:
  --benchmark_list_tests=true, --benchmark_filter=REGEX, --benchmark_min_time=SECONDS, --benchmark_format=json
and prints the names of its rows, or {"benchmarks": [{"name", "real_time", "time_unit": "ns"}]}. A row that raises is
reported on stderr and left out. PEER_THREADS is the number of threads; without it the framework decides.

Images are [batch, height, width, channels] and sequences [steps, batch, features], which is what these frameworks are
fastest with.
"""
import argparse
import gc
import json
import os
import re
import sys
import time
from typing import Callable, NamedTuple

import numpy as np

RATE = 0.1                                  # of gradient descent
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8    # of Adam
LETTERS, WORDS, TOKENS = 27, 10000, 30
SOURCE_STEPS, TARGET_STEPS = 24, 13         # of the translator
HEADS, HEAD_SIZE = 8, 64
TENSORS = 20                                # that Adam updates in adam_20m

# --- numbers -----------------------------------------------------------------------------------------------------


def values(shape, seed=1):
    """Always the same numbers, uniform in [-2, 2)."""
    return np.random.default_rng(seed).random(shape, dtype=np.float32) * 4 - 2


def indices(shape, high, seed=1):
    return np.random.default_rng(seed).integers(0, high, shape, dtype=np.int32)


def initial(shape, seed=1):
    """Zeros for a bias, Glorot's uniform numbers for everything else."""
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    window = int(np.prod(shape[:-2]))
    return values(shape, seed) / 2 * np.float32(np.sqrt(6 / (window * (shape[-2] + shape[-1]))))


def initial_parameters(name, sizes):
    """The parameters of a model, by name."""
    shapes = WORKLOADS[name].parameters(**sizes)
    return {parameter: initial(shape, seed) for seed, (parameter, shape) in enumerate(shapes.items(), 1)}


# --- workloads ---------------------------------------------------------------------------------------------------

# By the runner's defaults; held to one and to two threads, which only operations are: all else compiles for long.
PLAIN, HELD = ("",), ("_t1", "_t2")


class Workload(NamedTuple):
    suffixes: tuple                        # of the names of the base rows
    inputs: Callable                       # sizes -> arrays
    sizes: dict = {}                       # of the base rows
    growth: dict = {}                      # axis: the sizes of growth rows
    parameters: Callable | None = None     # of a model: sizes -> {name: shape}


def of_shapes(shapes):
    """The inputs of these shapes, a function of the sizes."""
    return lambda **sizes: [values(shape, seed) for seed, shape in enumerate(shapes(**sizes), 1)]


VECTOR = of_shapes(lambda size: [(size,)])
VECTORS = of_shapes(lambda size: 2 * [(size,)])
MATRIX = of_shapes(lambda size: [(size, size)])
MATRICES = of_shapes(lambda size: 2 * [(size, size)])
ROWS = of_shapes(lambda rows, width: [(rows, width)])


def chain_inputs(length):
    return [values((64,), seed) * np.float32(0.05) + 1 for seed in (1, 2)]


def sequence_inputs(biases, gates, directions=1):
    """A sequence, and wx, wh and the biases of each direction."""
    def inputs(batch, steps, width):
        one = [(width, gates * width), (width, gates * width), *((blocks * width,) for blocks in biases)]
        weights = [initial(shape, seed) for seed, shape in enumerate(directions * one, 2)]
        return [values((steps, batch, width)), *weights]
    return inputs


def one_sample_inputs(width):
    return [values((1, 1)), *(initial(shape, 2) for shape in lstm_parameters("", 1, width).values())]


def lengths(batch):
    """Uniform in 5..50, both included."""
    return np.array([5 + i * 29 % 46 for i in range(batch)], np.int32)


def mask(batch, steps):
    """[steps, batch, 1]: 1 within the sequence, 0 after its end."""
    return (np.arange(steps)[:, None, None] < lengths(batch)[None, :, None]).astype(np.float32)


def operations():
    grows = {"size": (4096, 1 << 24)}
    matrix = Workload(HELD, MATRIX, {"size": 1024}, {"size": (128, 4096)})
    return {
        "add_1": Workload(PLAIN, VECTORS, {"size": 1}),
        "add_64": Workload(PLAIN, VECTORS, {"size": 64}, {"size": (4096, 1 << 20)}),
        "matmul_256": Workload(HELD, MATRICES, {"size": 256}),
        "matmul_1024": Workload(HELD, MATRICES, {"size": 1024}, {"size": (64, 2048)}),
        **{name: Workload(HELD, VECTOR, {"size": 1 << 20}, grows) for name in ("exp", "tanh", "sigmoid")},
        "softmax": Workload(HELD, ROWS, {"rows": 1024, "width": 1024}, {"width": (64, 8192)}),
        **{name: matrix for name in ("sum_axis0", "sum_axis1", "sum_all", "transposed_copy")},
        "chain_32_backward": Workload(PLAIN, chain_inputs, {"length": 32}, {"length": (8, 128)}),
        "lstm4_one_sample": Workload(PLAIN, one_sample_inputs, {"width": 4}, {"width": (16, 64)}),
    }


def layers():
    """Each has a row with gradients for all inputs, and one forward alone, which ends in _forward."""
    images, short_rows = (32, 56, 56, 64), (32, 64, 56, 56)
    sequence = {"batch": 32, "steps": 50, "width": 256}
    table = {
        "conv3x3_64": (of_shapes(lambda batch, width: [(batch, 56, 56, width), (3, 3, width, width), (width,)]),
                       {"batch": 32, "width": 64}, {"batch": (4, 128), "width": (16, 128)}),
        "conv5x5": (of_shapes(lambda batch: [(batch, 28, 28, 32), (5, 5, 32, 64), (64,)]),
                    {"batch": 50}, {"batch": (5, 200)}),
        "depthwise": (of_shapes(lambda batch: [(batch, 56, 56, 128), (3, 3, 128, 1), (128,)]),
                      {"batch": 16}, {"batch": (2, 64)}),
        "max_pool2d": (of_shapes(lambda batch: [(batch, 28, 28, 64)]), {"batch": 50}, {"batch": (5, 200)}),
        "layer_norm": (of_shapes(lambda rows, width: [(rows, width), (width,), (width,)]),
                       {"rows": 1024, "width": 1024}, {"width": (64, 8192)}),
        "layer_norm_images": (of_shapes(lambda: [short_rows, (56,), (56,)]), {}, {}),
        "batch_norm": (of_shapes(lambda batch: [(batch, 1024), (1024,), (1024,)]),
                       {"batch": 1024}, {"batch": (64, 8192)}),
        "batch_norm_images": (of_shapes(lambda: [images, (64,), (64,)]), {}, {}),
        "softmax_layer": (ROWS, {"rows": 1024, "width": 1024}, {}),
        "softmax_images": (of_shapes(lambda: [short_rows]), {}, {}),
        "attention": (of_shapes(lambda batch, positions: 3 * [(batch, HEADS, positions, HEAD_SIZE)]),
                      {"batch": 8, "positions": 128}, {"positions": (32, 512), "batch": (1, 32)}),
        "attention_layer": (of_shapes(lambda: [(8, 128, 512), (512, 1536), (512, 512)]), {}, {}),
        "gru_256": (sequence_inputs((3, 1), gates=3), sequence,    # the second bias is within the reset gate's product
                    {"batch": (1, 128), "steps": (10, 200), "width": (64, 512)}),
        "bilstm_256": (sequence_inputs((4,), gates=4, directions=2), sequence, {"batch": (1, 128)}),
        "lstm_variable_length": (sequence_inputs((4,), gates=4), sequence, {"batch": (4, 128)}),
    }
    forward_grows = {"gru_256": {"batch": (1, 128)}}
    return {name: Workload(PLAIN, *row) for name, row in table.items()} | {
        f"{name}_forward": Workload(PLAIN, inputs, sizes, forward_grows.get(name, {}))
        for name, (inputs, sizes, _) in table.items()}


# --- models ------------------------------------------------------------------------------------------------------


def dense_parameters(name, inputs, outputs):
    return {f"{name}_w": (inputs, outputs), f"{name}_b": (outputs,)}


def lstm_parameters(name, inputs, width):
    return {f"{name}_wx": (inputs, 4 * width), f"{name}_wh": (width, 4 * width), f"{name}_b": (4 * width,)}


def parity_parameters(batch, steps, width):
    return {"wx": (1, width), "wh": (width, width), "b": (width,)} | dense_parameters("out", width, steps + 1)


def parity_batch(batch, steps, width):
    bits = (values((steps, batch, 1)) > 0).astype(np.float32)
    return [bits, bits.sum((0, 2)).astype(np.int32)]


def letter_parameters(batch, steps, width):
    return lstm_parameters("lstm", LETTERS, width) | dense_parameters("out", width, LETTERS)


def cell_parameters(batch, steps, width):
    shapes = dense_parameters("out", width, LETTERS)
    for gate in ("input", "forget", "update", "output"):
        shapes |= {f"{gate}_wx": (LETTERS, width), f"{gate}_wh": (width, width), f"{gate}_b": (width,)}
    return shapes


def letter_batch(batch, steps, width):
    one_hot = np.eye(LETTERS, dtype=np.float32)[indices((steps, batch), LETTERS)]
    return [one_hot, indices((steps * batch,), LETTERS, 2)]


def word_parameters(batch, steps, width):
    return ({"words": (WORDS, width)} | lstm_parameters("lstm1", width, width) | lstm_parameters("lstm2", width, width)
            | dense_parameters("out", width, WORDS))


def word_batch(batch, steps, width):
    return [indices((steps, batch), WORDS, 1), indices((steps * batch,), WORDS, 2)]


def translator_parameters(batch, width):
    shapes = {"source": (TOKENS, TOKENS), "target": (TOKENS, TOKENS)} | dense_parameters("out", width, TOKENS)
    for name in ("encoder", "decoder"):
        shapes |= lstm_parameters(f"{name}1", TOKENS, width) | lstm_parameters(f"{name}2", width, width)
    return shapes


def translator_batch(batch, width):
    return [indices((SOURCE_STEPS, batch), TOKENS, 1), indices((TARGET_STEPS, batch), TOKENS, 2),
            indices((TARGET_STEPS * batch,), TOKENS, 3)]


def cnn_parameters(batch):
    return {"conv1_w": (5, 5, 1, 32), "conv1_b": (32,), "conv2_w": (5, 5, 32, 64), "conv2_b": (64,),
            **dense_parameters("fc1", 7 * 7 * 64, 1024), **dense_parameters("fc2", 1024, 10)}


def cnn_batch(batch):
    return [values((batch, 28, 28, 1)), np.arange(batch, dtype=np.int32) % 10]


def adam_gradients(size):
    return [values((size // TENSORS,), 30 + i) for i in range(TENSORS)]


def adam_parameters(size):
    return {f"p{i}": (size // TENSORS,) for i in range(TENSORS)}


def models():
    letters = {"batch": 64, "steps": 10, "width": 64}
    return {
        "parity_step": Workload(PLAIN, parity_batch, {"batch": 1000, "steps": 50, "width": 24},
                                {"batch": (100, 10000), "steps": (10, 250), "width": (8, 128)}, parity_parameters),
        "char_lstm_fused": Workload(PLAIN, letter_batch, letters,
                                    {"batch": (8, 512), "steps": (5, 80), "width": (16, 256)}, letter_parameters),
        "char_lstm_cell": Workload(PLAIN, letter_batch, letters, {"batch": (8, 512), "width": (16, 256)},
                                   cell_parameters),
        "ptb_small": Workload(PLAIN, word_batch, {"batch": 20, "steps": 20, "width": 200},
                              {"batch": (5, 80), "steps": (5, 80), "width": (50, 400)}, word_parameters),
        "ptb_medium": Workload(PLAIN, word_batch, {"batch": 20, "steps": 35, "width": 650}, {}, word_parameters),
        "seq2seq_step": Workload(PLAIN, translator_batch, {"batch": 64, "width": 50},
                                 {"batch": (8, 512), "width": (16, 200)}, translator_parameters),
        "mnist_cnn_step": Workload(PLAIN, cnn_batch, {"batch": 50}, {"batch": (10, 250)}, cnn_parameters),
        "adam_20m": Workload(PLAIN, adam_gradients, {"size": 20_000_000}, {"size": (1_000_000, 100_000_000)},
                             adam_parameters),
    }


WORKLOADS = operations() | layers() | models()

# --- the protocol ------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    name: str
    prepare: Callable    # sizes -> the work, a function without arguments that returns once it is done
    sizes: dict


class Rows(list):
    def add(self, name, prepare, variant=""):
        """All rows of a workload: the base rows, then those that grow. `prepare` takes the sizes by name."""
        workload, ending = WORKLOADS[name], f"/{variant}" if variant else ""
        self.extend(Row(name + suffix + ending, prepare, workload.sizes) for suffix in workload.suffixes)
        for axis, sizes in workload.growth.items():
            self.extend(Row(f"{name}.{axis}={size}{ending}", prepare, workload.sizes | {axis: size}) for size in sizes)


def threads():
    """How many threads the framework may use, or None if it decides."""
    return int(os.environ["PEER_THREADS"]) if "PEER_THREADS" in os.environ else None


def nanoseconds_a_call(work, min_time):
    for _ in range(3):    # the first calls trace, compile, and fill pools
        work()
    calls, wanted = 1, 1e9 * min_time
    while True:
        start = time.perf_counter_ns()
        for _ in range(calls):
            work()
        elapsed = time.perf_counter_ns() - start
        if elapsed >= wanted:
            return elapsed / calls
        calls = max(calls + 1, int(calls * min(10, 1.4 * wanted / max(elapsed, 1))))


def measure(rows, min_time):
    gc.freeze()    # what the framework's import made need not be looked through again
    prepared, work = None, None
    for row in rows:
        try:
            if prepared != (row.prepare, row.sizes):    # rows that differ in the suffix alone share what was compiled
                prepared, work = None, None
                gc.collect()
                work = row.prepare(**row.sizes)
                prepared = (row.prepare, row.sizes)
            yield {"name": row.name, "real_time": nanoseconds_a_call(work, min_time), "time_unit": "ns"}
        except Exception as error:    # whatever a framework cannot do is its own affair, and the others go on
            prepared = None
            print(f"{row.name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}", file=sys.stderr)


def main(rows, description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark_list_tests", choices=("true", "false"), default="false")
    parser.add_argument("--benchmark_filter", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--benchmark_min_time", type=float, default=0.05, metavar="SECONDS")
    parser.add_argument("--benchmark_format", choices=("json",), default="json")
    options = parser.parse_args()
    wanted = [row for row in rows if options.benchmark_filter.search(row.name)]
    if options.benchmark_list_tests == "true":
        print("\n".join(row.name for row in wanted))
    else:
        print(json.dumps({"benchmarks": list(measure(wanted, options.benchmark_min_time))}, indent=1))
