"""Writes the files beside it: see README.md."""

import base64
import json
import re

import jax
import jax.numpy as jnp
from jax import export


def add(a, b):
    return a + b


def loop(a):
    return jax.lax.fori_loop(0, 10, lambda i, c: jnp.sin(c) * i, a)


def random(key):
    return jax.random.normal(key, (5,))


def matmul(x, y):
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import tpu as pltpu

    def kernel(x_ref, y_ref, o_ref, sums):
        @pl.when(pl.program_id(2) == 0)
        def _():
            sums[...] = jnp.zeros_like(sums)

        sums[...] += jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o_ref[...] = sums[...]

    block = (128, 128)
    return pl.pallas_call(
        kernel,
        grid=(2, 2, 2),
        in_specs=[pl.BlockSpec(block, lambda i, j, k: (i, k)), pl.BlockSpec(block, lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec(block, lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((256, 256), jnp.float32),
        scratch_shapes=[pltpu.VMEM(block, jnp.float32)],
    )(x, y)


def main():
    x = jax.ShapeDtypeStruct((4, 8), jnp.float32)
    key = jax.ShapeDtypeStruct((2,), jnp.uint32)
    for f, args in [(add, (x, x)), (loop, (x,)), (random, (key,))]:
        exported = export.export(jax.jit(f), platforms=["tpu"])(*args)
        open(f"{f.__name__}.mlirbc", "wb").write(exported.mlir_module_serialized)
    m = jax.ShapeDtypeStruct((256, 256), jnp.float32)
    text = jax.jit(matmul).trace(m, m).lower(lowering_platforms=("tpu",)).as_text()
    config = re.search(r'backend_config = "(.*?)", ', text).group(1).replace('\\22', '"').replace('\\"', '"')
    body = json.loads(config)["custom_call_config"]["body"]
    open("pallas_matmul.mlirbc", "wb").write(base64.b64decode(body))


main()
