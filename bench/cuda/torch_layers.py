"""The rows of bench/capstan_cuda_layers.cpp in PyTorch."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from torch_rows import DEVICE, allow_tf32, each_size, values


def inputs_of(shapes, recorded):
    return [values(shape, seed + 1).requires_grad_(recorded) for seed, shape in enumerate(shapes)]


def forward_of(shapes, function):
    inputs = inputs_of(shapes, False)
    return lambda: function(*inputs)


def both_of(shapes, function):
    """The function and the gradients for all inputs."""
    inputs = inputs_of(shapes, True)
    grad = values(function(*inputs).shape, 9)
    return lambda: torch.autograd.grad(function(*inputs), inputs, grad)


def layer_rows_of(bench, name, base, shapes_of, function, **axes):
    """The row name_forward, not recorded, and the rows of the name with the gradients for all inputs."""
    bench.unrecorded(name + "_forward", lambda: forward_of(shapes_of(**base), function))
    for row, sizes in each_size(name, base, **axes):
        bench.row(row, lambda: both_of(shapes_of(**sizes), function))


def softmax(x):
    return F.softmax(x, -1)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias)


def batch_norm(x, weight, bias):
    return F.batch_norm(x, None, None, weight, bias, training=True)


def normalizing_rows(bench):
    def plain(batch, width):
        return [[batch, width]]

    def weighted(batch, width):
        return [[batch, width], [width], [width]]

    matrix = {"batch": 8192, "width": 4096}
    layer_rows_of(bench, "softmax", matrix, plain, softmax, width=[128, 16384])
    layer_rows_of(bench, "layer_norm", matrix, weighted, layer_norm, width=[128, 16384])
    layer_rows_of(bench, "batch_norm", matrix, weighted, batch_norm, batch=[128, 32768])
    bench.compiled("softmax", lambda: both_of(plain(**matrix), torch.compile(softmax)))
    bench.compiled("layer_norm", lambda: both_of(weighted(**matrix), torch.compile(layer_norm)))

    def image_rows(name, weights, function):
        layer_rows_of(bench, name, {"batch": 32}, lambda batch: [[batch, 64, 56, 56], *weights], function,
                      batch=[4, 256])

    image_rows("softmax_images", [], softmax)
    image_rows("layer_norm_images", [[56], [56]], layer_norm)
    image_rows("batch_norm_images", [[64], [64]], batch_norm)


def convolution_rows(bench):
    def shapes3(batch, width):
        return [[batch, width, 56, 56], [width, width, 3, 3], [width]]

    def shapes5(batch):
        return [[batch, 32, 28, 28], [64, 32, 5, 5], [64]]

    def conv3x3(x, weight, bias):
        return F.conv2d(x, weight, bias, padding=1)

    def conv5x5(x, weight, bias):
        return F.conv2d(x, weight, bias, padding=2)

    base3, base5 = {"batch": 32, "width": 64}, {"batch": 50}
    layer_rows_of(bench, "conv3x3", base3, shapes3, conv3x3, batch=[4, 256], width=[16, 256])
    layer_rows_of(bench, "conv5x5", base5, shapes5, conv5x5, batch=[5, 400])
    allow_tf32(True)
    layer_rows_of(bench, "conv3x3_tf32", base3, shapes3, conv3x3)
    layer_rows_of(bench, "conv5x5_tf32", base5, shapes5, conv5x5)
    allow_tf32(False)


def window_rows(bench):
    layer_rows_of(bench, "depthwise", {"batch": 16}, lambda batch: [[batch, 128, 56, 56], [128, 1, 3, 3], [128]],
                  lambda x, weight, bias: F.conv2d(x, weight, bias, padding=1, groups=128), batch=[2, 128])
    layer_rows_of(bench, "max_pool2d", {"batch": 50}, lambda batch: [[batch, 64, 28, 28]],
                  lambda x: F.max_pool2d(x, 2), batch=[5, 400])


def attention_rows(bench):
    layer_rows_of(bench, "attention", {"batch": 8, "positions": 128},
                  lambda batch, positions: [[batch, 8, positions, 64]] * 3, F.scaled_dot_product_attention,
                  positions=[32, 1024], batch=[1, 64])


def adam_rows(bench):
    """One step over 20 parameters, with each implementation of the optimizer."""
    for row, sizes in each_size("adam_20m", {"size": 20000000}, size=[1000000, 100000000]):
        for variant in ("foreach", "fused"):
            def prepare():
                parameters = [values([sizes["size"] // 20], 1 + i).requires_grad_() for i in range(20)]
                for i, parameter in enumerate(parameters):
                    parameter.grad = values(parameter.shape, 1 + i)
                return torch.optim.Adam(parameters, **{variant: True}).step
            bench.row(f"{row}/{variant}", prepare)


# --- recurrent layers ------------------------------------------------------------------------------------------


def sequence(layer, batch, steps, width):
    """A layer over [steps, batch, width]; a function of x, and x."""
    return lambda x: layer(x)[0], values([steps, batch, width])


def packed_sequence(layer, batch, steps, width):
    """The same over padded rows with lengths uniform in 5..50, packed and padded again."""
    lengths = torch.tensor([5 + i * 29 % 46 for i in range(batch)])

    def run(x):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(layer(packed)[0], batch_first=True, total_length=steps)[0]

    return run, values([batch, steps, width])


def sequence_rows(bench, name, make, over, axes, forward_axes):
    base = {"batch": 32, "steps": 50, "width": 256}
    for row, sizes in each_size(name + "_forward", base, **forward_axes):
        def forward():
            run, x = over(make(sizes["width"]).to(DEVICE), **sizes)
            return lambda: run(x)
        bench.unrecorded(row, forward)
    for row, sizes in each_size(name, base, **axes):
        def both():
            layer = make(sizes["width"]).to(DEVICE)
            run, x = over(layer, **sizes)
            sources = [*layer.parameters(), x.requires_grad_()]
            grad = values(run(x).shape, 9)
            return lambda: torch.autograd.grad(run(x), sources, grad)
        bench.row(row, both)


def recurrent_rows(bench):
    batches = {"batch": [1, 128]}
    sequence_rows(bench, "gru_256", lambda width: nn.GRU(width, width), sequence,
                  batches | {"steps": [10, 200], "width": [64, 512]}, batches)
    sequence_rows(bench, "bilstm_256", lambda width: nn.LSTM(width, width, bidirectional=True), sequence, batches, {})
    sequence_rows(bench, "lstm_variable_length", lambda width: nn.LSTM(width, width), packed_sequence,
                  {"batch": [4, 128]}, {})


def layer_rows(bench):
    normalizing_rows(bench)
    convolution_rows(bench)
    window_rows(bench)
    attention_rows(bench)
    adam_rows(bench)
    recurrent_rows(bench)
