"""What is to be reached, row by row, as data. Ratios are against the best LibTorch at its best setting."""
import re

TWINS = r"(_t[12])?"
MEBIBYTE = 1 << 20
NOISE = 0.03          # products are the same library's on both sides: a ratio of 1 is held within this
BANDWIDTH = 0.90      # of what a plain copy or sum of as many bytes moves in the same run
TWO_THREADS = 1.05    # at most so many times what one thread takes

# The first pattern that fits the whole name counts. Rows without one have no ratio to reach.
RATIOS = {
    r"add_(1|64)": 10,
    r"chain_32_backward": 12,
    r"parity_step": 4,
    r"char_lstm_(fused|cell)": 3,
    r"seq2seq_step": 3,
    r"ptb_small": 1.6,
    r"ptb_medium": 1.25,
    r"mnist_cnn_step": 1.25,
    rf"(exp|tanh|sigmoid|softmax|sum_axis0|sum_axis1|sum_all|transposed_copy){TWINS}": 1.5,
    rf"layer_norm(_forward)?{TWINS}": 1.5,
    rf"matmul_(256|1024){TWINS}": 1,
    r"conv3x3_64(_forward)?": 1,
    # No table gives these a ratio: they are to be no slower.
    r"(conv5x5|depthwise|max_pool2d|batch_norm|attention|gru_256|bilstm_256|lstm_variable_length)(_forward)?": 1,
    r"(layer_norm_images|batch_norm_images|softmax_layer|softmax_images)(_forward)?": 1,
    r"adam_20m": 1,
}
NOISY = r"matmul_(256|1024)" + TWINS
NOTES = {r"chain_32_backward": "then 24"}

# Bytes that the work has to move, and the row that says how fast they can be. Instead of its ratio, such a row may
# reach BANDWIDTH. All are tensors of 2^20 floats, but for a layer's few weights.
BYTES = {
    rf"(exp|tanh|sigmoid|softmax|transposed_copy){TWINS}": (8 * MEBIBYTE, "stream_copy"),
    rf"layer_norm_forward{TWINS}": (8 * MEBIBYTE, "stream_copy"),
    rf"layer_norm{TWINS}": (20 * MEBIBYTE, "stream_copy"),  # forward 2 tensors; backward reads 2 and writes 1
    rf"(sum_axis0|sum_axis1|sum_all){TWINS}": (4 * MEBIBYTE, "stream_read"),
}
STREAM_BYTES = {"stream_copy": 8 * MEBIBYTE, "stream_read": 4 * MEBIBYTE}

# Of rows that are no benchmark: at most so much of the row's own unit, and so many MB at the peak.
LIMITS = {
    "hello_start": {"ns": 6e6, "peak_mb": 12},
    "compile_user_file": {"ns": 1.2e9, "peak_mb": 250},
    "library_size": {"MB": 45},
    "steady_allocations": {"count": 0},
}

# Training steps, whose peak of memory is to be at most LibTorch's.
STEPS = r"parity_step|char_lstm_(fused|cell)|seq2seq_step|ptb_(small|medium)|mnist_cnn_step"


def first_match(table, name):
    return next((value for pattern, value in table.items() if re.fullmatch(pattern, name)), None)


def is_step(name):
    return re.fullmatch(STEPS, name) is not None


def is_noisy(name):
    return re.fullmatch(NOISY, name) is not None
