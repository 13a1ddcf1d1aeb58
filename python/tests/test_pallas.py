"""Kernels of Pallas in unmodified programs: they run on the simulated chip among other operations.

Run with ``JAX_PLATFORMS=systole,cpu``.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import systole

jax.config.update("jax_default_matmul_precision", "highest")
pytestmark = pytest.mark.skipif(jax.default_backend() != "systole", reason="needs JAX_PLATFORMS=systole,cpu")

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def product(x, y, o):
    o[...] = jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)


def test_a_product_among_other_operations():
    x, y = f32(64, 128), f32(128, 256)
    kernel = pl.pallas_call(
        product, out_shape=jax.ShapeDtypeStruct((64, 256), jnp.float32), grid=(4,),
        in_specs=[pl.BlockSpec((16, 128), lambda i: (i, 0)), pl.BlockSpec((128, 256), lambda i: (0, 0))],
        out_specs=pl.BlockSpec((16, 256), lambda i: (i, 0)))
    got = jax.jit(lambda x, y: jnp.tanh(kernel(x, y)) + 1)(x, y)
    np.testing.assert_allclose(got, np.tanh(x @ y) + 1, rtol=1e-4, atol=1e-4)


def test_attention_that_ships_with_jax():
    from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention, mha_reference

    q, k, v = (f32(1, 2, 256, 128) * 0.1 for _ in range(3))
    got = flash_attention(q, k, v, causal=True)
    with jax.default_device(jax.devices("cpu")[0]):
        want = mha_reference(q, k, v, ab=None, causal=True)
    np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3)


def test_kernels_that_ask_for_the_chip():
    def kernel(x, o):
        def body(a, b):
            b[...] = a[...] * 3

        rows = [pl.BlockSpec((8, 128), lambda i: (i, 0))]
        pltpu.emit_pipeline(body, grid=(4,), in_specs=rows, out_specs=rows)(x, o)

    x = f32(32, 128)
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[anywhere],
                          out_specs=anywhere)
    np.testing.assert_allclose(call(x), x * 3, rtol=1e-6)
    assert pltpu.is_tpu_device() and pltpu.get_tpu_info().num_lanes == 128


def test_an_error_names_the_line_of_the_kernel():
    def kernel(x, o, sem):
        o[...] = x[...]
        pl.semaphore_wait(sem, 1)

    x = f32(8, 128)
    call = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                          scratch_shapes=[pltpu.SemaphoreType.REGULAR])
    with pytest.raises(Exception, match=r"test_pallas\.py:\d+ \(.*kernel.*deadlock"):
        jax.block_until_ready(call(x))
    np.testing.assert_allclose(jnp.asarray(x) + 1, x + 1)


def test_a_report_without_a_device_has_the_kernels_lines():
    x, y = f32(16, 128), f32(128, 128)
    kernel = pl.pallas_call(product, out_shape=jax.ShapeDtypeStruct((16, 128), jnp.float32))
    report = systole.run(kernel, x, y, chip="tpu-v5e")
    assert any(line["file"].endswith("test_pallas.py") and line["cycles"] > 0 for line in report.table("lines"))
    assert sum(room["bytes"] for room in report.table("rooms")) > 0 and report.table("regions") == []
