#!/usr/bin/env python3
"""Writes the corpus again: small programs of every kind of operation, in the forms that are read, and array files.

Needs `pip install jax==0.10.2`. Files that were added by hand (inputs that once failed) stay.
"""
import os
from functools import partial

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

jax.config.update("jax_enable_x64", True)
HERE = os.path.dirname(os.path.abspath(__file__))
f32 = lambda *dims: jax.ShapeDtypeStruct(dims, jnp.float32)
mesh = Mesh(np.array(jax.devices()[:4]), ("d",))


def summed(x):
    return lax.psum(x, "d")


FUNCTIONS = {
    "elementwise": (lambda x, y: jnp.where(x > 0, jnp.tanh(x) * y, jnp.exp(-x) / (1 + y)), f32(3, 4), f32(3, 4)),
    "softmax": (lambda x: jax.nn.softmax(x.astype(jnp.bfloat16), axis=-1), f32(4, 9)),
    "dot": (lambda a, b: jnp.einsum("bij,bjk->bik", a, b, precision="highest"), f32(2, 3, 4), f32(2, 4, 5)),
    "conv": (lambda x, k: lax.conv_general_dilated(x, k, (2, 1), "SAME", rhs_dilation=(1, 2)), f32(1, 2, 6, 5), f32(3, 2, 2, 2)),
    "pool": (lambda x: jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 2), "SAME").sum())(x), f32(5, 6)),
    "loop": (lambda x: lax.fori_loop(0, 5, lambda i, s: s + i * x, x), f32(4)),
    "scan": (lambda x: lax.scan(lambda c, y: (c * y, c + y), x[0], x), f32(5, 3)),
    "branch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, lambda x: x + 1], x), jax.ShapeDtypeStruct((), jnp.int32), f32(3)),
    "gather": (lambda x, i: x[i, ::-1], f32(6, 3), jax.ShapeDtypeStruct((4,), jnp.int32)),
    "scatter": (lambda x, i, u: x.at[i].add(u, mode="drop"), f32(6, 3), jax.ShapeDtypeStruct((2,), jnp.int64), f32(2, 3)),
    "sort": (lambda x: (jnp.sort(x, axis=0), lax.top_k(x, 2), jnp.argmax(x)), f32(4, 5)),
    "fft": (lambda x: jnp.fft.rfft(x), f32(3, 10)),
    "linear": (lambda a: (jnp.linalg.cholesky(a), jnp.linalg.svd(a)[1], jnp.linalg.qr(a)), f32(3, 3)),
    "random": (lambda k: lax.rng_bit_generator(k, (5,), jnp.uint32), jax.ShapeDtypeStruct((4,), jnp.uint32)),
    "types": (lambda x: (x.astype(jnp.int4), x.astype(jnp.float8_e4m3fn), x.astype(jnp.complex128), x != 0), f32(4)),
    "moves": (lambda x: jnp.concatenate([jnp.pad(x, ((1, 0), (0, 2))), jnp.tile(x, (2, 2))[:, ::-1][:, 1:6]]), f32(2, 3)),
    "several": (jax.shard_map(summed, mesh=mesh, in_specs=P("d"), out_specs=P()), f32(4, 2)),
    "dynamic": (lambda x, i: lax.dynamic_update_slice(x, x[:2] * 2, (i, jnp.int32(0))), f32(4, 3), jax.ShapeDtypeStruct((), jnp.int32)),
}


def put(folder, name, data):
    path = os.path.join(HERE, folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


for name, (f, *args) in FUNCTIONS.items():
    lowered = jax.jit(f).lower(*args)
    put("stablehlo_text", f"{name}.mlir", lowered.as_text())
    module = lowered.compiler_ir("hlo")
    put("hlo_text", f"{name}.hlo", module.as_hlo_text())
    if name in ("elementwise", "conv", "gather", "loop", "linear", "several", "types"):
        put("hlo_proto", f"{name}.pb", module.as_serialized_hlo_module_proto())

arrays = {"arg0": np.arange(6, dtype=np.float32).reshape(2, 3), "arg1:bf16": np.zeros(3, np.uint16)}
os.makedirs(os.path.join(HERE, "npz"), exist_ok=True)
np.savez(os.path.join(HERE, "npz", "plain.npz"), **arrays)
np.savez_compressed(os.path.join(HERE, "npz", "packed.npz"), a=np.asfortranarray(np.ones((2, 3), np.int16)), b=np.array(1 + 2j))
np.savez(os.path.join(HERE, "npz", "empty.npz"), x=np.zeros((0, 4)), y=np.array(True))
