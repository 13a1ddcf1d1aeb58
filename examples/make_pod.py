#!/usr/bin/env python3
"""Writes gpt_adam_pod.hlo with JAX (pip install jax): python examples/make_pod.py

One training step of a small GPT with Adam, data parallel over 256 devices: every device has a batch of its own, and the
gradients are summed over all. The program is XLA's dump after SPMD partitioning, as `--partitions 256` takes it.
"""
import glob
import os
import re
import tempfile

DEVICES = 256
HERE = os.path.dirname(os.path.abspath(__file__))
DUMP = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = (
    f"--xla_force_host_platform_device_count={DEVICES} --xla_dump_to={DUMP} --xla_dump_hlo_as_text "
    "--xla_dump_hlo_pass_re=spmd-partitioning|shardy"
)

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import Mesh, PartitionSpec as P  # noqa: E402

D, HEADS, FF, VOCAB, SEQ = 64, 4, 256, 64, 16


def layer_norm(x, p):
    m = jnp.mean(x, -1, keepdims=True)
    v = jnp.mean((x - m) ** 2, -1, keepdims=True)
    return (x - m) * jax.lax.rsqrt(v + 1e-5) * p["g"] + p["b"]


def block(x, p):
    b, s, d = x.shape
    split = lambda w: (x_n @ w).reshape(b, s, HEADS, d // HEADS).transpose(0, 2, 1, 3)
    x_n = layer_norm(x, p["ln1"])
    q, k, v = split(p["q"]), split(p["k"]), split(p["v"])
    scores = q @ k.transpose(0, 1, 3, 2) / jnp.sqrt(d / HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((s, s), bool)), scores, -1e9)
    a = (jax.nn.softmax(scores, -1) @ v).transpose(0, 2, 1, 3).reshape(b, s, d)
    x = x + a @ p["o"]
    return x + jax.nn.gelu(layer_norm(x, p["ln2"]) @ p["up"]) @ p["down"]


def loss(p, tokens):
    x = p["wte"][tokens[:, :-1]] + p["wpe"]
    for layer in p["layers"]:
        x = block(x, layer)
    logp = jax.nn.log_softmax(layer_norm(x, p["ln"]) @ p["wte"].T, -1)
    return -jnp.mean(jnp.take_along_axis(logp, tokens[:, 1:, None], -1))


def step(p, m, v, tokens, t):
    value, grads = jax.value_and_grad(loss)(p, tokens)
    grads = jax.lax.pmean(grads, "d")
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
    new = lambda p, m, v: p - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return jax.tree.map(new, p, m, v), m, v, jax.lax.pmean(value, "d")


def shapes():
    f = lambda *s: jax.ShapeDtypeStruct(s, jnp.float32)
    norm = {"g": f(D), "b": f(D)}
    layer = {"q": f(D, D), "k": f(D, D), "v": f(D, D), "o": f(D, D), "up": f(D, FF), "down": f(FF, D)}
    layer |= {"ln1": norm, "ln2": norm}
    return {"wte": f(VOCAB, D), "wpe": f(SEQ, D), "ln": norm, "layers": [layer, layer]}


mesh = Mesh(jax.devices(), ("d",))
params = shapes()
tokens = jax.ShapeDtypeStruct((2 * DEVICES, SEQ + 1), jnp.int32)
sharded = jax.shard_map(
    step, mesh=mesh, in_specs=(P(), P(), P(), P("d"), P()), out_specs=(P(), P(), P(), P()), check_vma=False
)
jax.jit(sharded).lower(params, params, params, tokens, jax.ShapeDtypeStruct((), jnp.float32)).compile()
dumps = sorted(glob.glob(os.path.join(DUMP, "*step*after_spmd-partitioning*.txt")))
with open(dumps[-1]) as text, open(os.path.join(HERE, "gpt_adam_pod.hlo"), "w") as out:
    # Names of files and lines say nothing to a reader of the example.
    text = re.sub(r", metadata=\{[^}]*\}", "", text.read())
    out.write(re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(\d.*\n)*", "\n", text))
