"""Three Pallas kernels, from simple to flash attention, each in a slow and a fast form.

Nothing here knows of the simulator: they are kernels for a TPU. ``steps.py`` runs them.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

F32 = jnp.float32
S = jax.ShapeDtypeStruct


def scale(n, m, rows, columns):
    """``2 x + 1`` in blocks of ``rows`` by ``columns``."""

    def kernel(x, o):
        o[...] = x[...] * 2 + 1

    spec = pl.BlockSpec((rows, columns), lambda i, j: (i, j))
    return pl.pallas_call(kernel, out_shape=S((n, m), F32), grid=(n // rows, m // columns), in_specs=[spec], out_specs=spec)


def product(n, rows, columns, depth, dtype=jnp.bfloat16):
    """``x @ y`` of two square arrays: blocks of the result stay in vector memory while what is summed passes by."""

    def kernel(x, y, o, sums):
        @pl.when(pl.program_id(2) == 0)
        def _():
            sums[...] = jnp.zeros_like(sums)

        sums[...] += jnp.dot(x[...], y[...], preferred_element_type=F32)

        @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
        def _():
            o[...] = sums[...].astype(o.dtype)

    return pl.pallas_call(
        kernel, out_shape=S((n, n), dtype), grid=(n // rows, n // columns, n // depth),
        in_specs=[pl.BlockSpec((rows, depth), lambda i, j, k: (i, k)), pl.BlockSpec((depth, columns), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((rows, columns), lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((rows, columns), F32)])


def scores_then_values(heads, n, rows):
    """Attention in two kernels: the scores of all pairs go through HBM."""

    def scores(q, k, p):
        s = jax.lax.dot_general(q[0], k[0], (((1,), (1,)), ((), ())), preferred_element_type=F32) * 128**-0.5
        p[0] = jax.nn.softmax(s, axis=-1)

    def values(p, v, o):
        o[0] = jnp.dot(p[0].astype(v.dtype), v[0], preferred_element_type=F32).astype(o.dtype)

    some, whole = pl.BlockSpec((1, rows, 128), lambda h, i: (h, i, 0)), pl.BlockSpec((1, n, 128), lambda h, i: (h, 0, 0))
    pairs, grid = pl.BlockSpec((1, rows, n), lambda h, i: (h, i, 0)), (heads, n // rows)
    first = pl.pallas_call(scores, out_shape=S((heads, n, n), F32), grid=grid, in_specs=[some, whole], out_specs=pairs)
    second = pl.pallas_call(
        values, out_shape=S((heads, n, 128), jnp.bfloat16), grid=grid, in_specs=[pairs, whole], out_specs=some)
    return lambda q, k, v: second(first(q, k), v)


def flash(heads, n, rows, keys):
    """Flash attention: blocks of scores live in vector memory only; maxima and sums of rows are corrected as blocks pass by."""

    def kernel(q, k, v, o, most, total, sums):
        j = pl.program_id(2)

        @pl.when(j == 0)
        def _():
            most[...] = jnp.full_like(most, -jnp.inf)
            total[...] = jnp.zeros_like(total)
            sums[...] = jnp.zeros_like(sums)

        s = jax.lax.dot_general(q[0], k[0], (((1,), (1,)), ((), ())), preferred_element_type=F32) * 128**-0.5
        before = most[...]
        now = jnp.maximum(before, jnp.max(s, axis=1, keepdims=True))
        p = jnp.exp(s - now[:, :1])
        less = jnp.exp(before - now)
        total[...] = less * total[...] + jnp.sum(p, axis=1, keepdims=True)
        most[...] = now
        sums[...] = sums[...] * less + jnp.dot(p.astype(v.dtype), v[0], preferred_element_type=F32)

        @pl.when(j == pl.num_programs(2) - 1)
        def _():
            o[0] = (sums[...] / total[...]).astype(o.dtype)

    some = pl.BlockSpec((1, rows, 128), lambda h, i, j: (h, i, 0))
    other = pl.BlockSpec((1, keys, 128), lambda h, i, j: (h, j, 0))
    wide = pltpu.VMEM((rows, 128), F32)
    return pl.pallas_call(
        kernel, out_shape=S((heads, n, 128), jnp.bfloat16), grid=(heads, n // rows, n // keys),
        in_specs=[some, other, other], out_specs=some, scratch_shapes=[wide, wide, wide])
