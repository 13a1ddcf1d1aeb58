#!/usr/bin/env python3
"""Writes the HLO examples of this folder with JAX (pip install jax): python examples/make.py"""
import os

import jax
import jax.numpy as jnp

HERE = os.path.dirname(os.path.abspath(__file__))


def mlp(x, w1, b1, w2, b2):
    """Two dense layers with a ReLU between them."""
    return jax.nn.relu(x @ w1 + b1) @ w2 + b2


def layer_norm(x, g):
    m = jnp.mean(x, -1, keepdims=True)
    v = jnp.mean((x - m) ** 2, -1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(v + 1e-5) * g


def transformer_block(x, g1, wqkv, wo, g2, w1, w2):
    """Causal self-attention with 4 heads and a GELU feed-forward layer, both with residuals."""
    s, d = x.shape
    heads = 4
    q, k, v = jnp.split(layer_norm(x, g1) @ wqkv, 3, -1)
    q, k, v = (t.reshape(s, heads, d // heads).transpose(1, 0, 2) for t in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / jnp.sqrt(d // heads)
    scores = jnp.where(jnp.tril(jnp.ones((s, s), bool)), scores, -1e9)
    a = (jax.nn.softmax(scores, -1) @ v).transpose(1, 0, 2).reshape(s, d)
    x = x + a @ wo
    return x + jax.nn.gelu(layer_norm(x, g2) @ w1) @ w2


def conv(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def resnet(x, w0, wa, wb, wc, wd, ws, wf):
    """A stem, a plain residual block, a strided residual block, mean over the image and a classifier."""
    x = jax.nn.relu(conv(x, w0))
    x = jax.nn.relu(x + conv(jax.nn.relu(conv(x, wa)), wb))
    x = jax.nn.relu(conv(x, ws, 2) + conv(jax.nn.relu(conv(x, wc, 2)), wd))
    return jnp.mean(x, (1, 2)) @ wf


def write(name, f, *shapes):
    args = [jax.ShapeDtypeStruct(s, jnp.float32) for s in shapes]
    text = jax.jit(f).lower(*args).as_text(dialect="hlo")
    with open(os.path.join(HERE, name), "w") as out:
        out.write(text)


write("mlp.hlo", mlp, (32, 64), (64, 128), (128,), (128, 16), (16,))
write("transformer_block.hlo", transformer_block, (64, 128), (128,), (128, 384), (128, 128), (128,), (128, 512), (512, 128))
write("resnet.hlo", resnet, (2, 16, 16, 3), (3, 3, 3, 16), (3, 3, 16, 16), (3, 3, 16, 16), (3, 3, 16, 32), (3, 3, 32, 32), (1, 1, 16, 32), (32, 10))
