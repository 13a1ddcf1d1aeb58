"""Writes the kernels of ``tests/data/pallas``: each has one thing that holds it back, which the report has to say.

    python tests/pallas/lint.py        # from the repository's root; needs jax 0.10 and numpy
    BLESS=1 FILE=data/pallas cargo test --test filetests
"""

import functools

import jax
import jax.numpy as jnp
from jax._src.pallas.mosaic import tpu_info
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

tpu_info.registry["cpu"] = lambda: tpu_info.get_tpu_info_for_chip(tpu_info.ChipVersion.TPU_V5E, 1)
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/(?=tests/)")
F, B = jnp.float32, jnp.bfloat16


def case(name, kernel, ins, outs, run="run --chip tpu-v5e --report kernels %s", **kw):
    shapes = [jax.ShapeDtypeStruct(s, t) for s, t in ins]
    call = jax.jit(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(*outs), name=name, **kw))
    text = call.trace(*shapes).lower(lowering_platforms=("tpu",)).as_text()
    with open(f"tests/data/pallas/{name}.mlir", "w") as f:
        f.write(f"// run: {run}\n{text}")


def copied_again(x, y, o, acc):
    """Small blocks: every block of x is read for every column of blocks of the result."""
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=F)
    o[...] = acc[...]


case("copied_again", copied_again, [((256, 512), B), ((512, 1024), B)], ((256, 1024), F), grid=(2, 8, 4),
     in_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
     out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((128, 128), F)])


def turned(x, o):
    """Rows and columns change places, and rows are cut anew."""
    t = x[...].T
    o[...] = t.reshape(64, 512) + 1


case("turned", turned, [((1024, 128), F)], ((256, 512), F), grid=(4,),
     in_specs=[pl.BlockSpec((256, 128), lambda i: (i, 0))], out_specs=pl.BlockSpec((64, 512), lambda i: (i, 0)))


def spilled(x, o):
    """More small vectors than there are registers."""
    parts = [x[pl.ds(8 * i, 8), :] * (i + 1) for i in range(192)]
    total = functools.reduce(jnp.maximum, parts)
    o[...] = sum(jnp.tanh(p - total) for p in parts)


case("spilled", spilled, [((1536, 128), F)], ((8, 128), F))


def padded(x, o):
    """Blocks that fill little of their registers, the last of which lies mostly beyond the array."""
    o[...] = jnp.exp(x[...])


case("padded", padded, [((72, 40), F)], ((72, 40), F), grid=(2,),
     in_specs=[pl.BlockSpec((64, 40), lambda i: (i, 0))], out_specs=pl.BlockSpec((64, 40), lambda i: (i, 0)))


def waiting(x, y, o):
    """One small product among much that matrix units have no part in."""
    with jax.named_scope("normalise"):
        a = x[...]
        with jax.named_scope("power"):
            a = a / jnp.sqrt(jnp.mean(a * a, axis=1, keepdims=True))
    with jax.named_scope("product"):
        o[...] = jnp.dot(jnp.tanh(jnp.sin(a)).astype(B), y[...], preferred_element_type=F)


case("waiting", waiting, [((512, 256), F), ((256, 128), B)], ((512, 128), F), grid=(4,),
     in_specs=[pl.BlockSpec((128, 256), lambda i: (i, 0)), pl.BlockSpec((256, 128), lambda i: (0, 0))],
     out_specs=pl.BlockSpec((128, 128), lambda i: (i, 0)))
