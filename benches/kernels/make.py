"""Writes the Pallas kernels whose times are published: the product of docs/pallas/tpu/matmul of JAX, in blocks of [bm, bk] and [bk, bn].

    python benches/kernels/make.py        # needs JAX
"""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

# Places in the files begin at the repository's root.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/(?=benches/)")


def kernel(steps, x, y, z, sums):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        sums[...] = jnp.zeros_like(sums)

    sums[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    @pl.when(step == steps - 1)
    def _():
        z[...] = sums[...].astype(z.dtype)


def product(bm, bk, bn, x, y):
    (m, k), (_, n) = x.shape, y.shape
    return pl.pallas_call(
        functools.partial(kernel, k // bk),
        grid=(m // bm, n // bn, k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, s: (i, s)), pl.BlockSpec((bk, bn), lambda i, j, s: (s, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, s: (i, j)),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        out_shape=jax.ShapeDtypeStruct((m, n), x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(x, y)


for size in (1024, 8192):
    for blocks in ((128, 128, 128), (512, 1024, 1024)):
        side = jax.ShapeDtypeStruct((size, size), jnp.bfloat16)
        lowered = jax.jit(functools.partial(product, *blocks)).trace(side, side).lower(lowering_platforms=("tpu",))
        name = f"product_{size}_in_{'x'.join(map(str, blocks))}.mlir"
        (Path(__file__).parent / name).write_text(lowered.as_text())
