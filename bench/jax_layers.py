"""Layers in JAX, for jax_bench.py. Images are NHWC, sequences [steps, batch, features]."""
import jax
import jax.numpy as jnp

import peer_rows
from peer_rows import HEADS, HEAD_SIZE

UNROLLED = {"scan": 1, "unrolled": 8}    # steps of a sequence in a turn of the loop


def convolution(x, w, b, groups=1):
    return b + jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                            feature_group_count=groups)


def depthwise(x, w, b):
    channels = x.shape[-1]
    return convolution(x, w.reshape(3, 3, 1, channels), b, channels)


def max_pool_by_window(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def max_pool_by_blocks(x):
    """The gradient is shared by equal maxima; that of the window goes to the first."""
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))


def normalized(x, axes, scale, offset):
    mean = jnp.mean(x, axes, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axes, keepdims=True)
    return (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * scale) + offset


def layer_norm(x, scale, offset):
    return normalized(x, -1, scale, offset)


def batch_norm(x, scale, offset):
    return normalized(x, tuple(range(x.ndim - 1)), scale, offset)


def attention(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q * HEAD_SIZE**-0.5, k)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


def attention_layer(x, w, out):
    batch, positions, _ = x.shape

    def heads_of(part):
        return part.reshape(batch, positions, HEADS, HEAD_SIZE).transpose(0, 2, 1, 3)

    mixed = attention(*map(heads_of, jnp.split(x @ w, 3, -1)))
    return mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ out


POOLS = {"window": max_pool_by_window, "blocks": max_pool_by_blocks}
LAYERS = {
    "conv3x3_64": convolution,
    "conv5x5": convolution,
    "depthwise": depthwise,
    "layer_norm": layer_norm,
    "layer_norm_images": layer_norm,
    "batch_norm": batch_norm,
    "batch_norm_images": batch_norm,
    "softmax_layer": jax.nn.softmax,
    "softmax_images": jax.nn.softmax,
    "attention": attention,
    "attention_layer": attention_layer,
}

# --- recurrent layers --------------------------------------------------------------------------------------------


def zero_state(x, wh):
    return jnp.zeros((x.shape[1], wh.shape[0]))


def recur(unroll, step, state, inputs):
    """The last state and all outputs of step(state, input) -> (state, output)."""
    return jax.lax.scan(step, state, inputs, unroll=min(unroll, inputs.shape[0]))


def lstm_step(state, gates):
    """From all gates of a step, summed."""
    i, f, g, o = jnp.split(gates, 4, 1)
    c = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def lstm(unroll, x, wx, wh, b, state=None):
    """Outputs, and (h, c) after the last step. The inputs' product for all steps at once, and one product a step."""
    def step(state, gates):
        state = lstm_step(state, gates + state[0] @ wh)
        return state, state[0]

    last, outputs = recur(unroll, step, state or (zero_state(x, wh), zero_state(x, wh)), x @ wx + b)
    return outputs, last


def gru(unroll, x, wx, wh, b, bn):
    """The reset gate multiplies h @ wh + bn."""
    def step(h, gates):
        product = h @ wh
        r, z = jnp.split(jax.nn.sigmoid(gates[:, :2 * width] + product[:, :2 * width]), 2, 1)
        n = jnp.tanh(gates[:, 2 * width:] + r * (product[:, 2 * width:] + bn))
        h = n + z * (h - n)
        return h, h

    width = wh.shape[0]
    return recur(unroll, step, zero_state(x, wh), x @ wx + b)[1]


def bilstm(unroll, x, *weights):
    ahead, _ = lstm(unroll, x, *weights[:3])
    back, _ = lstm(unroll, x[::-1], *weights[3:])
    return jnp.concatenate([ahead, back[::-1]], -1)


def lstm_of_lengths(unroll, x, *weights):
    """Zeros after the end of a sequence. What comes later changes nothing before it, hence all steps are computed."""
    outputs, _ = lstm(unroll, x, *weights)
    return outputs * peer_rows.mask(x.shape[1], x.shape[0])
