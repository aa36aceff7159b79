"""Layers in TensorFlow, for tensorflow_bench.py. Images are NHWC, sequences [steps, batch, features]."""
from functools import partial

import tensorflow as tf

import peer_rows
from peer_rows import HEADS, HEAD_SIZE

# Sequences of more steps become loops of the graph: unrolled ones take long to trace, and longer to compile.
LONGEST_UNROLLED = {"eager": None, "function": 100, "xla": 25}


def convolution(x, w, b):
    return tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), b)


def depthwise(x, w, b):
    return tf.nn.bias_add(tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"), b)


def max_pool(x):
    return tf.nn.max_pool2d(x, 2, 2, "VALID")


def layer_norm(x, scale, offset):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-5)


def batch_norm(x, scale, offset):
    images = tf.reshape(x, [-1, 1, 1, x.shape[-1]]) if len(x.shape) == 2 else x    # the fused kernel takes images alone
    outputs, _, _ = tf.compat.v1.nn.fused_batch_norm(images, scale, offset, epsilon=1e-5, is_training=True)
    return tf.reshape(outputs, x.shape)


def attention(q, k, v):
    return tf.matmul(tf.nn.softmax(tf.matmul(q * HEAD_SIZE**-0.5, k, transpose_b=True)), v)


def attention_layer(x, w, out):
    batch, positions, width = x.shape

    def heads_of(part):
        return tf.transpose(tf.reshape(part, [batch, positions, HEADS, HEAD_SIZE]), [0, 2, 1, 3])

    parts = tf.split(tf.matmul(tf.reshape(x, [-1, width]), w), 3, -1)
    mixed = tf.transpose(attention(*map(heads_of, parts)), [0, 2, 1, 3])
    return tf.reshape(tf.matmul(tf.reshape(mixed, [-1, width]), out), x.shape)


LAYERS = {
    "conv3x3_64": convolution,
    "conv5x5": convolution,
    "depthwise": depthwise,
    "max_pool2d": max_pool,
    "layer_norm": layer_norm,
    "layer_norm_images": layer_norm,
    "batch_norm": batch_norm,
    "batch_norm_images": batch_norm,
    "softmax_layer": tf.nn.softmax,
    "softmax_images": tf.nn.softmax,
    "attention": attention,
    "attention_layer": attention_layer,
}

# --- recurrent layers --------------------------------------------------------------------------------------------


def products(x, w, b):
    """[steps, batch, outputs]: the products of the inputs of all steps at once."""
    steps, batch, features = x.shape
    return tf.reshape(tf.nn.bias_add(tf.matmul(tf.reshape(x, [-1, features]), w), b), [steps, batch, w.shape[-1]])


def zero_state(x, wh):
    return tf.zeros([x.shape[1], wh.shape[0]])


def recur(step, inputs, state, longest, stacked=True):
    """step(state, input) -> state over all steps: the first parts of all states as one tensor, and the last state.
    Who wants the last state alone has nothing stacked.
    """
    if longest is not None and inputs.shape[0] > longest:
        states = tf.scan(step, inputs, state)
        return states[0], tuple(part[-1] for part in states)
    outputs = []
    for step_input in tf.unstack(inputs):
        state = step(state, step_input)
        outputs.append(state[0])
    return tf.stack(outputs) if stacked else None, state


def lstm(longest, x, wx, wh, b, state=None):
    """Outputs, and (h, c) after the last step. One product a step."""
    wh = tf.convert_to_tensor(wh)    # a variable is read once

    def step(state, gates):
        h, c = state
        i, f, g, o = tf.split(gates + tf.matmul(h, wh), 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    return recur(step, products(x, wx, b), state or (zero_state(x, wh), zero_state(x, wh)), longest)


def block_lstm(x, wx, wh, b, state=None):
    """The same in TensorFlow's operation for whole sequences."""
    h, c = state or (zero_state(x, wh), zero_state(x, wh))
    no_peephole = tf.zeros([wh.shape[0]])
    parts = tf.raw_ops.BlockLSTM(
        seq_len_max=tf.constant(x.shape[0], tf.int64), x=x, cs_prev=c, h_prev=h, w=tf.concat([wx, wh], 0),
        wci=no_peephole, wcf=no_peephole, wco=no_peephole, b=b, forget_bias=0.0, cell_clip=-1.0, use_peephole=False)
    return parts.h, (parts.h[-1], parts.cs[-1])


LSTMS = {
    "eager": block_lstm,
    "function": partial(lstm, LONGEST_UNROLLED["function"]),
    "function_block": block_lstm,
    "xla": partial(lstm, LONGEST_UNROLLED["xla"]),
}


def gru(longest, x, wx, wh, b, bn):
    """The reset gate multiplies h @ wh + bn."""
    def step(state, gates):
        h, = state
        rz, n = tf.split(gates, [2 * width, width], 1)
        rz_h, n_h = tf.split(tf.matmul(h, wh), [2 * width, width], 1)
        r, z = tf.split(tf.sigmoid(rz + rz_h), 2, 1)
        n = tf.tanh(n + r * (n_h + bn))
        return n + z * (h - n),

    width = wh.shape[0]
    return recur(step, products(x, wx, b), (zero_state(x, wh),), longest)[0]


def bilstm(lstm_of, x, *weights):
    ahead, _ = lstm_of(x, *weights[:3])
    back, _ = lstm_of(tf.reverse(x, [0]), *weights[3:])
    return tf.concat([ahead, tf.reverse(back, [0])], -1)


def lstm_of_lengths(lstm_of, x, *weights):
    """Zeros after the end of a sequence. What comes later changes nothing before it, hence all steps are computed."""
    outputs, _ = lstm_of(x, *weights)
    return outputs * peer_rows.mask(x.shape[1], x.shape[0])
