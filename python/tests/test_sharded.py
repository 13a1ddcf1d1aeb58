"""Sharded programs as they are: ``jit`` with ``NamedSharding`` and ``shard_map`` on the simulated chips.

Run with ``JAX_PLATFORMS=systole,cpu SYSTOLE_TOPOLOGY=2x4``: eight devices are needed.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

jax.config.update("jax_default_matmul_precision", "highest")
pytestmark = pytest.mark.skipif(
    jax.default_backend() != "systole" or jax.device_count() < 8,
    reason="needs JAX_PLATFORMS=systole,cpu and eight devices",
)

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


@functools.cache
def mesh():
    return jax.make_mesh((2, 4), ("d", "m"), axis_types=(AxisType.Explicit, AxisType.Explicit))


def put(x, *spec):
    return jax.device_put(x, NamedSharding(mesh(), P(*spec)))


def test_two_layers_divided_both_ways():
    x, a, b = f32(8, 16), f32(16, 32), f32(32, 16)
    out = NamedSharding(mesh(), P("d", None))
    f = jax.jit(lambda x, a, b: jnp.matmul(jnp.tanh(x @ a), b, out_sharding=out))
    got = f(put(x, "d", None), put(a, None, "m"), put(b, "m", None))
    assert got.sharding.spec == P("d", None)
    np.testing.assert_allclose(got, np.tanh(x @ a) @ b, rtol=2e-4, atol=2e-4)


def test_results_of_unsaid_shardings():
    x, w = f32(16, 8), f32(8, 4)
    loss, grad = jax.jit(jax.value_and_grad(lambda w, x: jnp.mean((x @ w) ** 2)))(put(w), put(x, ("d", "m"), None))
    np.testing.assert_allclose(loss, np.mean((x @ w) ** 2), rtol=2e-5)
    np.testing.assert_allclose(grad, 2 * x.T @ (x @ w) / (16 * 4), rtol=2e-4, atol=2e-5)


def test_constraints_inside():
    x = f32(8, 12)

    @jax.jit
    def f(x):
        y = jax.sharding.reshard(jnp.sin(x).T, NamedSharding(mesh(), P("m", "d")))
        return y * 2, jnp.sort(x, axis=1)

    y, s = f(put(x, "d", None))
    np.testing.assert_allclose(y, 2 * np.sin(x).T, rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(s, np.sort(x, axis=1))


def test_shard_map():
    x = f32(8, 16)
    f = jax.shard_map(lambda b: jax.lax.psum(b, "m"), mesh=mesh(), in_specs=P("d", "m"), out_specs=P("d", None))
    got = jax.jit(f)(put(x, "d", "m"))
    np.testing.assert_allclose(got, x.reshape(8, 4, 4).sum(1), rtol=2e-5, atol=2e-6)
