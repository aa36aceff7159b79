#!/usr/bin/env python3
"""The rows of capstan_bench in JAX, on the CPU, all of them compiled by jit. Takes options of Google Benchmark and
prints its JSON.

Where a user can choose between ways to do the same, there is a row for each: NAME/scan and NAME/unrolled are loops over
time by lax.scan, of one and of eight steps a turn; NAME/window and NAME/blocks take maxima by lax.reduce_window, and by
a reshape and a maximum. The figure of the row is that of the fastest. Every call is waited for. Training steps donate
their state, so that parameters are updated in place.
"""
import os
from functools import partial

import peer_rows


def hold_threads(count):
    """JAX makes its pool as large as the processor, or NPROC, lets it, once it is imported."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    os.environ["NPROC"] = str(count)
    if count == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"


if peer_rows.threads():
    hold_threads(peer_rows.threads())
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import jax
import jax.numpy as jnp
import numpy as np

from jax_layers import (LAYERS, POOLS, UNROLLED, bilstm, convolution, gru, lstm, lstm_of_lengths, lstm_step, recur,
                        zero_state)
from peer_rows import BETA1, BETA2, EPSILON, RATE, WORKLOADS

KEY = np.array([0, 1], np.uint32)    # of random numbers


def inputs_of(name, sizes):
    return [jnp.asarray(array) for array in WORKLOADS[name].inputs(**sizes)]


def awaited(function, inputs):
    """The work that runs the compiled function and waits for its results."""
    run = jax.jit(function)
    return lambda: jax.block_until_ready(run(*inputs))


# --- operations, layers ------------------------------------------------------------------------------------------


def forward(name, function, **sizes):
    return awaited(function, inputs_of(name, sizes))


def with_gradients(name, function, **sizes):
    """The outputs are returned, too: the compiler would leave out what the gradients do not need of them."""
    def both(grad, *inputs):
        outputs, backward = jax.vjp(function, *inputs)
        return outputs, backward(grad)

    inputs = inputs_of(name, sizes)
    grad = jnp.asarray(peer_rows.values(jax.eval_shape(function, *inputs).shape, 9))
    return awaited(both, [grad, *inputs])


def chain(length):
    def total(x, w):
        y = x
        for _ in range(length):
            y = y * w
        return jnp.sum(y)

    return awaited(jax.value_and_grad(total), inputs_of("chain_32_backward", {"length": length}))


OPERATIONS = {
    "add_1": jnp.add,
    "add_64": jnp.add,
    "matmul_256": jnp.matmul,
    "matmul_1024": jnp.matmul,
    "exp": jnp.exp,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "softmax": jax.nn.softmax,
    "sum_axis0": lambda x: jnp.sum(x, 0),
    "sum_axis1": lambda x: jnp.sum(x, 1),
    "sum_all": jnp.sum,
    "transposed_copy": jnp.transpose,
}


def one_sample(width):
    """A step on the state that the step before left."""
    x, wx, wh, b = inputs_of("lstm4_one_sample", {"width": width})
    w = jnp.concatenate([wx, wh])
    run = jax.jit(lambda x, state: lstm_step(state, jnp.concatenate([x, state[0]], 1) @ w + b))
    state = jnp.zeros((1, width)), jnp.zeros((1, width))

    def work():
        nonlocal state
        state = jax.block_until_ready(run(x, state))
    return work


# --- training steps ----------------------------------------------------------------------------------------------


class Adam:
    def __init__(self, rate=1e-3):
        self.rate = rate

    def begin(self, parameters):
        first, second = ({name: jnp.zeros_like(p) for name, p in parameters.items()} for _ in "mv")
        return jnp.zeros(()), first, second

    def __call__(self, parameters, gradients, state):
        """Parameters and state after the step."""
        step, first, second = state[0] + 1, {}, {}
        rate, correction = self.rate / (1 - BETA1**step), 1 / (1 - BETA2**step)
        updated = {}
        for name, gradient in gradients.items():
            first[name] = BETA1 * state[1][name] + (1 - BETA1) * gradient
            second[name] = BETA2 * state[2][name] + (1 - BETA2) * gradient * gradient
            updated[name] = parameters[name] - rate * first[name] / (jnp.sqrt(second[name] * correction) + EPSILON)
        return updated, (step, first, second)


class ClippedDescent:
    """Gradient descent, the gradients clipped by their common norm."""

    def __init__(self, limit):
        self.limit = limit

    def begin(self, _):
        return ()

    def __call__(self, parameters, gradients, state):
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients.values()))
        rate = RATE * jnp.minimum(1, self.limit / norm)
        return {name: parameters[name] - rate * gradient for name, gradient in gradients.items()}, state


def stateful(step, state, inputs):
    """The work that runs a compiled step(state, *inputs) -> (state, result) on the state that the one before left."""
    run = jax.jit(step, donate_argnums=0)

    def work():
        nonlocal state
        state, result = run(state, *inputs)
        jax.block_until_ready((state, result))
    return work


def initial_state(name, optimizer, sizes):
    parameters = {key: jnp.array(array) for key, array in peer_rows.initial_parameters(name, sizes).items()}
    return parameters, optimizer.begin(parameters)


def training_step(name, loss_of, optimizer, *more_inputs, **sizes):
    def step(state, *batch):
        loss, gradients = jax.value_and_grad(loss_of)(state[0], *batch)
        return optimizer(state[0], gradients, state[1]), loss

    return stateful(step, initial_state(name, optimizer, sizes), [*inputs_of(name, sizes), *more_inputs])


def adam_alone(**sizes):
    adam = Adam()

    def step(state, *gradients):
        return adam(state[0], dict(zip(state[0], gradients)), state[1]), ()

    return stateful(step, initial_state("adam_20m", adam, sizes), inputs_of("adam_20m", sizes))


def dense(p, name, x):
    return x @ p[f"{name}_w"] + p[f"{name}_b"]


def lstm_weights(p, name):
    return p[f"{name}_wx"], p[f"{name}_wh"], p[f"{name}_b"]


def cross_entropy(logits, labels):
    picked = jnp.take_along_axis(logits, labels[:, None], -1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)


def loss_of_outputs(p, outputs, labels):
    """Of the answers to all steps: outputs [steps, batch, units], labels [steps * batch]."""
    return cross_entropy(dense(p, "out", outputs.reshape(-1, outputs.shape[-1])), labels)


def parity_loss(unroll, p, bits, counts):
    """How many ones are among the bits. A feature of one number is multiplied, which is its product with wx."""
    def step(h, projected):
        return jax.nn.relu(projected + h @ p["wh"]), None

    last, _ = recur(unroll, step, zero_state(bits, p["wh"]), bits * p["wx"] + p["b"])
    return cross_entropy(dense(p, "out", last), counts)


def letter_loss(unroll, p, letters, labels):
    outputs, _ = lstm(unroll, letters, *lstm_weights(p, "lstm"))
    return loss_of_outputs(p, outputs, labels)


def cell_loss(unroll, p, letters, labels):
    """The cell written by hand: eight products a step."""
    def gate(name, x, h):
        return x @ p[f"{name}_wx"] + h @ p[f"{name}_wh"] + p[f"{name}_b"]

    def step(state, x):
        h, c = state
        i, f = jax.nn.sigmoid(gate("input", x, h)), jax.nn.sigmoid(gate("forget", x, h))
        c = f * c + i * jnp.tanh(gate("update", x, h))
        h = jax.nn.sigmoid(gate("output", x, h)) * jnp.tanh(c)
        return (h, c), h

    zeros = zero_state(letters, p["input_wh"])
    return loss_of_outputs(p, recur(unroll, step, (zeros, zeros), letters)[1], labels)


def word_loss(unroll, p, text, labels):
    outputs, _ = lstm(unroll, p["words"][text], *lstm_weights(p, "lstm1"))
    outputs, _ = lstm(unroll, outputs, *lstm_weights(p, "lstm2"))
    return loss_of_outputs(p, outputs, labels)


def translator_loss(unroll, p, source, target, labels):
    read, state1 = lstm(unroll, p["source"][source], *lstm_weights(p, "encoder1"))
    _, state2 = lstm(unroll, read, *lstm_weights(p, "encoder2"))
    written, _ = lstm(unroll, p["target"][target], *lstm_weights(p, "decoder1"), state1)
    written, _ = lstm(unroll, written, *lstm_weights(p, "decoder2"), state2)
    return loss_of_outputs(p, written, labels)


def cnn_loss(pool, p, images, labels, key):
    """The key is an input of the step: which units are dropped is drawn in every step, if always the same."""
    h = pool(jax.nn.relu(convolution(images, p["conv1_w"], p["conv1_b"])))
    h = pool(jax.nn.relu(convolution(h, p["conv2_w"], p["conv2_b"])))
    h = jax.nn.relu(dense(p, "fc1", h.reshape(h.shape[0], -1)))
    kept = jax.random.bernoulli(key, 0.5, h.shape)
    return cross_entropy(dense(p, "fc2", jnp.where(kept, 2 * h, 0)), labels)


# --- rows --------------------------------------------------------------------------------------------------------


def add_layer(rows, name, function, variant=""):
    rows.add(f"{name}_forward", partial(forward, f"{name}_forward", function), variant)
    rows.add(name, partial(with_gradients, name, function), variant)


def add_recurrent(rows, variant, unroll):
    for name, function in {"gru_256": gru, "bilstm_256": bilstm, "lstm_variable_length": lstm_of_lengths}.items():
        add_layer(rows, name, partial(function, unroll), variant)
    letters, words = ClippedDescent(1.25), ClippedDescent(5.0)
    for name, loss, optimizer in (
            ("parity_step", parity_loss, Adam()), ("char_lstm_fused", letter_loss, letters),
            ("char_lstm_cell", cell_loss, letters), ("ptb_small", word_loss, words), ("ptb_medium", word_loss, words),
            ("seq2seq_step", translator_loss, Adam())):
        rows.add(name, partial(training_step, name, partial(loss, unroll), optimizer), variant)


def all_rows():
    rows = peer_rows.Rows()
    for name, function in OPERATIONS.items():
        rows.add(name, partial(forward, name, function))
    for name, function in LAYERS.items():
        add_layer(rows, name, function)
    for variant, pool in POOLS.items():
        add_layer(rows, "max_pool2d", pool, variant)
        rows.add("mnist_cnn_step",
                 partial(training_step, "mnist_cnn_step", partial(cnn_loss, pool), Adam(1e-4), KEY), variant)
    rows.add("lstm4_one_sample", one_sample)
    rows.add("chain_32_backward", chain)
    rows.add("adam_20m", adam_alone)
    for variant, unroll in UNROLLED.items():
        add_recurrent(rows, variant, unroll)
    return rows


if __name__ == "__main__":
    peer_rows.main(all_rows(), __doc__)
