"""What is to be reached, row by row, as data. Ratios are against the best LibTorch at its best setting."""
import re
from typing import NamedTuple

MEBIBYTE = 1 << 20
TWO_THREADS = 1.05    # at most so many times what one thread takes

# Targets are against LibTorch. A framework that is more than so many times faster costs a row nothing, but is named in
# its verdict.
FRAMEWORK_LEAD = 1.05


def held(*names):
    """The rows of these works that hold all sides to one thread, and to two."""
    return [name + suffix for name in names for suffix in ("_t1", "_t2")]


def with_forward(*names):
    """Layers with their gradients, and forward alone."""
    return [name + suffix for name in names for suffix in ("", "_forward")]


SUMS = held("sum_axis0", "sum_axis1", "sum_all")
MAPS = held("exp", "tanh", "sigmoid", "softmax", "transposed_copy")


def every(names):
    """Rows with the defaults, and by threads."""
    return [*names, *held(*names)]


RATIOS = {
    **dict.fromkeys(["add_1", "add_64"], 10),
    "chain_32_backward": 12,
    "parity_step": 4,
    **dict.fromkeys(["char_lstm_fused", "char_lstm_cell", "seq2seq_step"], 3),
    "ptb_small": 1.6,
    **dict.fromkeys(["ptb_medium", "mnist_cnn_step"], 1.25),
    **dict.fromkeys([*MAPS, *SUMS], 1.5),
    **dict.fromkeys(["layer_norm", "layer_norm_forward", "softmax_layer_forward"], 1.5),
    **dict.fromkeys(held("matmul_256", "matmul_1024"), 1),
    **dict.fromkeys(with_forward("conv3x3_64"), 1),
    # No table gives these a ratio: they are to be no slower.
    **dict.fromkeys(with_forward("conv5x5", "depthwise", "max_pool2d", "batch_norm", "attention", "attention_layer",
                                 "gru_256", "bilstm_256", "lstm_variable_length", "layer_norm_images",
                                 "batch_norm_images", "softmax_images"), 1),
    **dict.fromkeys(["softmax_layer", "adam_20m"], 1),
    **dict.fromkeys(["plan_lstm4", "plan_gru64"], 0.5),  # against LOOPS
}
NOTES = {"chain_32_backward": "then 24"}

# Rows of ours that are another row's peer.
LOOPS = {"plan_lstm4": "loops_lstm4", "plan_gru64": "loops_gru64"}
LOOPS_NAME = "plain loops, -O3 -march=native"


# --- what the machine gives --------------------------------------------------------------------------------------


class Yardstick(NamedTuple):
    """Rows NAME_t1 and NAME_t2 that say how fast something can be."""
    amounts: tuple  # bytes or operations of a call, on one thread and on two
    share: float    # a row that reaches so much of it holds, whatever its ratio
    what: str


YARDSTICKS = {
    "stream_copy": Yardstick((8 * MEBIBYTE, 8 * MEBIBYTE), 0.90, "memory"),
    "stream_read": Yardstick((4 * MEBIBYTE, 4 * MEBIBYTE), 0.90, "memory"),
    "peak_fma": Yardstick((2 * 2**26, 4 * 2**26), 0.95, "peak"),  # 2^26 multiply-adds on each thread
}

# What a row has to move or to compute, and the yardstick for it. All tensors are of 2^20 floats, but for a layer's few
# weights and the smaller product.
BOUNDS = {
    **dict.fromkeys([*MAPS, *every(["layer_norm_forward", "softmax_layer_forward"])], (8 * MEBIBYTE, "stream_copy")),
    # Forward moves 2 tensors; backward reads 2 and writes 1.
    **dict.fromkeys(every(["layer_norm"]), (20 * MEBIBYTE, "stream_copy")),
    **dict.fromkeys(SUMS, (4 * MEBIBYTE, "stream_read")),
    **dict.fromkeys(held("matmul_256"), (2 * 256**3, "peak_fma")),
    **dict.fromkeys(held("matmul_1024"), (2 * 1024**3, "peak_fma")),
}


def is_yardstick(name):
    return name.removesuffix("_t1").removesuffix("_t2") in YARDSTICKS


def yardsticks_of(name):
    return held(BOUNDS[name][1]) if name in BOUNDS else []


def needs(name):
    """Other rows of ours without which a row cannot be judged."""
    return [*yardsticks_of(name), LOOPS[name]] if name in LOOPS else yardsticks_of(name)


# --- all else ----------------------------------------------------------------------------------------------------

# Of rows that are no benchmark: at most so much of the row's own unit, and so many MB at the peak.
LIMITS = {
    "hello_start": {"ns": 6e6, "peak_mb": 12},
    "compile_user_file": {"ns": 1.2e9, "peak_mb": 250},
    "library_size": {"MB": 45},
    "steady_allocations": {"count": 0},
}

# Training steps, whose peak of memory is to be at most LibTorch's.
STEPS = ["parity_step", "char_lstm_fused", "char_lstm_cell", "seq2seq_step", "ptb_small", "ptb_medium",
         "mnist_cnn_step"]

# What checks and recomputing cost: shown behind all others.
LAST = re.compile(r"deep_step.*|.*_checked")


def without_row(rows):
    """The names that have a target, but are not among these rows."""
    names = {row.name for row in rows}
    return [name for name in [*RATIOS, *LIMITS] if name not in names]
