#!/usr/bin/env python3
"""The rows of capstan_bench in TensorFlow, on the CPU. Takes options of Google Benchmark and prints its JSON.

Where a user can choose between ways to do the same, there is a row for each: NAME/eager, NAME/function (tf.function),
NAME/xla (tf.function with jit_compile), and for LSTMs NAME/function_block, with the operation BlockLSTM that runs all
steps in one kernel; it is what NAME/eager takes, too. The figure of the row is that of the fastest.

Convolutions are NHWC, which is the only order TensorFlow has on CPUs. On a CPU TensorFlow returns from an operation or
a function once its results are there, so there is nothing to wait for.
"""
import os
from functools import partial

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"    # read while tensorflow is imported

import tensorflow as tf

import peer_rows
from peer_rows import BETA1, BETA2, EPSILON, RATE, WORKLOADS
from tensorflow_layers import (LAYERS, LONGEST_UNROLLED, LSTMS, bilstm, block_lstm, convolution, gru, lstm_of_lengths,
                               max_pool, recur, zero_state)


def compiled(variant, function):
    if variant == "eager":
        return function
    return tf.function(function, jit_compile=variant == "xla", autograph=False)


def inputs_of(name, sizes):
    return [tf.constant(array) for array in WORKLOADS[name].inputs(**sizes)]


# --- operations, layers ------------------------------------------------------------------------------------------


def forward(name, variant, function, **sizes):
    inputs = inputs_of(name, sizes)
    run = compiled(variant, function)
    return lambda: run(*inputs)


def with_gradients(name, variant, function, **sizes):
    """The outputs are returned, too: a compiler would leave out what the gradients do not need of them."""
    def both(grad, *inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = function(*inputs)
        return outputs, tape.gradient(outputs, inputs, output_gradients=grad)

    inputs = inputs_of(name, sizes)
    grad = tf.constant(peer_rows.values(tuple(function(*inputs).shape), 9))
    run = compiled(variant, both)
    return lambda: run(grad, *inputs)


def chain(variant, length):
    def both(x, w):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(length):
                y = y * w
            total = tf.reduce_sum(y)
        return total, tape.gradient(total, x)

    inputs = inputs_of("chain_32_backward", {"length": length})
    run = compiled(variant, both)
    return lambda: run(*inputs)


OPERATIONS = {
    "add_1": tf.add,
    "add_64": tf.add,
    "matmul_256": tf.matmul,
    "matmul_1024": tf.matmul,
    "exp": tf.exp,
    "tanh": tf.tanh,
    "sigmoid": tf.sigmoid,
    "softmax": tf.nn.softmax,
    "sum_axis0": lambda x: tf.reduce_sum(x, 0),
    "sum_axis1": lambda x: tf.reduce_sum(x, 1),
    "sum_all": tf.reduce_sum,
    "transposed_copy": tf.transpose,
}


def one_sample(variant, width):
    """A step on the state that the step before left."""
    x, wx, wh, b = inputs_of("lstm4_one_sample", {"width": width})
    w, no_peephole = tf.concat([wx, wh], 0), tf.zeros([width])

    def cell(x, h, c):
        i, f, g, o = tf.split(tf.matmul(tf.concat([x, h], 1), w) + b, 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    def block_cell(x, h, c):
        parts = tf.raw_ops.LSTMBlockCell(x=x, cs_prev=c, h_prev=h, w=w, wci=no_peephole, wcf=no_peephole,
                                         wco=no_peephole, b=b, forget_bias=0.0, cell_clip=-1.0, use_peephole=False)
        return parts.h, parts.cs

    run = compiled(variant, block_cell if LSTMS[variant] is block_lstm else cell)
    h, c = tf.zeros([1, width]), tf.zeros([1, width])

    def work():
        nonlocal h, c
        h, c = run(x, h, c)
    return work


# --- training steps ----------------------------------------------------------------------------------------------


class Adam:
    """TensorFlow's fused kernel, as its older optimizers use it: epsilon is added before the correction of v."""

    def __init__(self, variables, rate=1e-3):
        self.variables, self.rate = variables, rate
        self.first, self.second = ([tf.Variable(tf.zeros_like(v), trainable=False) for v in variables] for _ in "mv")
        self.powers = tf.Variable([BETA1, BETA2], trainable=False)

    def __call__(self, gradients):
        power1, power2 = tf.unstack(self.powers.read_value())
        for variable, first, second, gradient in zip(self.variables, self.first, self.second, gradients):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle, m=first.handle, v=second.handle, beta1_power=power1, beta2_power=power2,
                lr=self.rate, beta1=BETA1, beta2=BETA2, epsilon=EPSILON, grad=tf.convert_to_tensor(gradient))
        self.powers.assign(self.powers * [BETA1, BETA2])


class ClippedDescent:
    """Gradient descent, the gradients clipped by their common norm."""

    def __init__(self, variables, limit):
        self.variables, self.limit = variables, limit

    def __call__(self, gradients):
        gradients, _ = tf.clip_by_global_norm(gradients, self.limit)
        for variable, gradient in zip(self.variables, gradients):
            if isinstance(gradient, tf.IndexedSlices):    # of a table of words: only the rows that were read
                variable.scatter_sub(tf.IndexedSlices(RATE * gradient.values, gradient.indices))
            else:
                tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=RATE, delta=gradient)


def training_step(name, variant, loss_of, optimizer, **sizes):
    parameters = {key: tf.Variable(array) for key, array in peer_rows.initial_parameters(name, sizes).items()}
    variables, batch = list(parameters.values()), inputs_of(name, sizes)
    update = optimizer(variables)

    def step(*batch):
        with tf.GradientTape() as tape:
            loss = loss_of(parameters, *batch)
        update(tape.gradient(loss, variables))
        return loss

    run = compiled(variant, step)
    return lambda: run(*batch)


def adam_alone(variant, **sizes):
    variables = [tf.Variable(array) for array in peer_rows.initial_parameters("adam_20m", sizes).values()]
    gradients, update = inputs_of("adam_20m", sizes), Adam(variables)
    run = compiled(variant, lambda *gradients: update(gradients))
    return lambda: run(*gradients)


def dense(p, name, x):
    return tf.nn.bias_add(tf.matmul(x, p[f"{name}_w"]), p[f"{name}_b"])


def lstm_weights(p, name):
    return p[f"{name}_wx"], p[f"{name}_wh"], p[f"{name}_b"]


def loss_of_outputs(p, outputs, labels):
    """Of the answers to all steps: outputs [steps, batch, units], labels [steps * batch]."""
    logits = dense(p, "out", tf.reshape(outputs, [-1, outputs.shape[-1]]))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def parity_loss(longest, p, bits, counts):
    """How many ones are among the bits. A feature of one number is multiplied, which is its product with wx."""
    wh = tf.convert_to_tensor(p["wh"])

    def step(state, projected):
        return tf.nn.relu(projected + tf.matmul(state[0], wh)),

    _, (last,) = recur(step, bits * p["wx"] + p["b"], (zero_state(bits, wh),), longest, stacked=False)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(counts, dense(p, "out", last)))


def letter_loss(lstm_of, p, letters, labels):
    outputs, _ = lstm_of(letters, *lstm_weights(p, "lstm"))
    return loss_of_outputs(p, outputs, labels)


def cell_loss(p, letters, labels):
    """The cell written by hand: eight products a step."""
    def gate(name, x, h):
        return tf.matmul(x, p[f"{name}_wx"]) + tf.matmul(h, p[f"{name}_wh"]) + p[f"{name}_b"]

    h = c = zero_state(letters, p["input_wh"])
    outputs = []
    for x in tf.unstack(letters):
        i, f = tf.sigmoid(gate("input", x, h)), tf.sigmoid(gate("forget", x, h))
        c = f * c + i * tf.tanh(gate("update", x, h))
        h = tf.sigmoid(gate("output", x, h)) * tf.tanh(c)
        outputs.append(h)
    return loss_of_outputs(p, tf.stack(outputs), labels)


def word_loss(lstm_of, p, text, labels):
    outputs, _ = lstm_of(tf.gather(p["words"], text), *lstm_weights(p, "lstm1"))
    outputs, _ = lstm_of(outputs, *lstm_weights(p, "lstm2"))
    return loss_of_outputs(p, outputs, labels)


def translator_loss(lstm_of, p, source, target, labels):
    read, state1 = lstm_of(tf.gather(p["source"], source), *lstm_weights(p, "encoder1"))
    _, state2 = lstm_of(read, *lstm_weights(p, "encoder2"))
    written, _ = lstm_of(tf.gather(p["target"], target), *lstm_weights(p, "decoder1"), state1)
    written, _ = lstm_of(written, *lstm_weights(p, "decoder2"), state2)
    return loss_of_outputs(p, written, labels)


def cnn_loss(p, images, labels):
    h = max_pool(tf.nn.relu(convolution(images, p["conv1_w"], p["conv1_b"])))
    h = max_pool(tf.nn.relu(convolution(h, p["conv2_w"], p["conv2_b"])))
    h = tf.nn.relu(dense(p, "fc1", tf.reshape(h, [h.shape[0], -1])))
    logits = dense(p, "fc2", tf.nn.dropout(h, 0.5))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


# --- rows --------------------------------------------------------------------------------------------------------


def add_layer(rows, name, functions):
    """`functions` has one for each variant."""
    for variant, function in functions.items():
        rows.add(f"{name}_forward", partial(forward, f"{name}_forward", variant, function), variant)
        rows.add(name, partial(with_gradients, name, variant, function), variant)


def add_training(rows, name, losses, optimizer):
    for variant, loss in losses.items():
        rows.add(name, partial(training_step, name, variant, loss, optimizer), variant)


def all_rows():
    rows = peer_rows.Rows()
    for name, function in OPERATIONS.items():
        for variant in ("eager", "function"):
            rows.add(name, partial(forward, name, variant, function), variant)
    for name, function in LAYERS.items():
        add_layer(rows, name, {variant: function for variant in LONGEST_UNROLLED})
    add_layer(rows, "gru_256", {variant: partial(gru, longest) for variant, longest in LONGEST_UNROLLED.items()})
    for name, function in {"bilstm_256": bilstm, "lstm_variable_length": lstm_of_lengths}.items():
        add_layer(rows, name, {variant: partial(function, lstm_of) for variant, lstm_of in LSTMS.items()})
    for variant in LSTMS:
        rows.add("lstm4_one_sample", partial(one_sample, variant), variant)
    for variant in LONGEST_UNROLLED:
        rows.add("chain_32_backward", partial(chain, variant), variant)
        rows.add("adam_20m", partial(adam_alone, variant), variant)

    def with_lstms(loss):
        return {variant: partial(loss, lstm_of) for variant, lstm_of in LSTMS.items()}

    letters, words = partial(ClippedDescent, limit=1.25), partial(ClippedDescent, limit=5.0)
    parity = {variant: partial(parity_loss, longest) for variant, longest in LONGEST_UNROLLED.items()}
    add_training(rows, "parity_step", parity, Adam)
    add_training(rows, "char_lstm_fused", with_lstms(letter_loss), letters)
    add_training(rows, "char_lstm_cell", {variant: cell_loss for variant in LONGEST_UNROLLED}, letters)
    add_training(rows, "ptb_small", with_lstms(word_loss), words)
    add_training(rows, "ptb_medium", with_lstms(word_loss), words)
    add_training(rows, "seq2seq_step", with_lstms(translator_loss), Adam)
    add_training(rows, "mnist_cnn_step", {variant: cnn_loss for variant in LONGEST_UNROLLED}, partial(Adam, rate=1e-4))
    return rows


def main():
    if peer_rows.threads():
        tf.config.threading.set_intra_op_parallelism_threads(peer_rows.threads())
        tf.config.threading.set_inter_op_parallelism_threads(1)
    peer_rows.main(all_rows(), __doc__)


if __name__ == "__main__":
    main()
