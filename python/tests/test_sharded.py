"""Sharded programs as they are: ``jit`` with ``NamedSharding`` and ``shard_map`` on the simulated chips.

Run with ``JAX_PLATFORMS=systole,cpu SYSTOLE_TOPOLOGY=2x4``: eight devices are needed.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback, pallas as pl
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


@functools.cache
def automatic():
    return jax.make_mesh((2, 4), ("d", "m"), axis_types=(AxisType.Auto, AxisType.Auto))


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


def test_python_is_called_once_for_whole_arrays_and_by_every_device_for_its_own():
    x, seen = f32(8, 16), []
    see = lambda s: seen.append(float(s))
    twice = lambda a: (see(a.sum()), 2 * np.asarray(a))[1]

    @jax.jit
    def whole(x):
        jax.debug.callback(see, x.sum())
        y = jax.pure_callback(twice, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        turn = lambda i, s: io_callback(lambda s: np.float32(s + 1), jax.ShapeDtypeStruct((), x.dtype), s)
        return y, jax.lax.fori_loop(0, 3, turn, x.sum())

    y, s = whole(given(x, "d", "m"))
    jax.effects_barrier()
    np.testing.assert_allclose(y, 2 * x)
    np.testing.assert_allclose(s, x.sum() + 3, rtol=1e-5)
    np.testing.assert_allclose(seen, [x.sum()] * 2, rtol=1e-5)
    seen.clear()
    own = lambda b: (jax.debug.callback(see, b.sum()), b)[1]
    jax.block_until_ready(jax.jit(jax.shard_map(own, mesh=automatic(), in_specs=P("d", "m"), out_specs=P("d", "m")))(x))
    jax.effects_barrier()
    np.testing.assert_allclose(sorted(seen), np.sort(x.reshape(2, 4, 4, 4).sum((1, 3)).ravel()), rtol=1e-4, atol=1e-5)


def test_what_a_kernel_says_stays_in_the_text_of_the_program():
    def kernel(x, o):
        o[...] = x[...] * 2

    def call(x):
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(kernel, out_shape=out, metadata={"tiles": "128"})(x)

    x = put(f32(16, 128), "d", None)
    f = jax.shard_map(call, mesh=mesh(), in_specs=P("d", None), out_specs=P("d", None), check_vma=False)
    f = jax.jit(f)
    assert '\n"tiles":"128"' in f.lower(x).compile().as_text()
    np.testing.assert_allclose(f(x), x * 2)


def test_sums_that_are_still_to_be_taken():
    """Terms go through programs as they are, and are added up by whoever needs the sum."""
    x, w = put(f32(8, 16), "d", None), f32(16, 4)
    rows = np.asarray(x).reshape(2, 4, 16)
    with jax.set_mesh(mesh()):
        terms = jax.jit(jax.shard_map(lambda b: jax.lax.pcast(b.sum(0), "d", to="unreduced"), out_specs=P(None, unreduced={"d"})))(x)
        assert terms.sharding.spec == P(None, unreduced={"d"})
        for shard in terms.addressable_shards:
            np.testing.assert_allclose(shard.data, rows[0 if shard.device.id < 4 else 1].sum(0), rtol=2e-5, atol=2e-5)
        whole = jax.jit(lambda t: jax.reshard(t, P(None)) * 2)(terms)
        np.testing.assert_allclose(whole, rows.sum((0, 1)) * 2, rtol=2e-4, atol=1e-4)

        @jax.shard_map(in_specs=(P("d", None), P(None, None, reduced={"d"})), out_specs=P("d", None))
        def product(x, w):
            return jnp.dot(x, w)

        shared = jax.device_put(w, NamedSharding(mesh(), P(None, None, reduced={"d"})))
        grad = jax.jit(jax.grad(lambda w, x: product(x, w).sum()))(shared, x)
        assert grad.sharding.spec == P(None, None, unreduced={"d"})
        want = np.repeat(np.asarray(x).sum(0)[:, None], 4, 1)
        np.testing.assert_allclose(jax.reshard(grad, P(None, None)), want, rtol=2e-4, atol=1e-4)


def given(x, *spec):
    return jax.device_put(x, NamedSharding(automatic(), P(*spec)))


def test_automatic_axes():
    """Nobody says how results are divided; what comes out goes in again."""
    x, a, b = f32(8, 16), f32(16, 32), f32(32, 16)

    @jax.jit
    def f(x, a, b):
        h = jnp.tanh(x @ a)
        return h @ b, h, jnp.sum(h), {"rows": jnp.max(h, axis=1)}

    out, h, total, more = f(given(x, "d", None), given(a, None, "m"), given(b, "m", None))
    want = np.tanh(x @ a)
    np.testing.assert_allclose(out, want @ b, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(h, want, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(total, want.sum(), rtol=2e-4, atol=1e-4)
    np.testing.assert_allclose(more["rows"], want.max(1), rtol=2e-5, atol=2e-6)
    assert h.sharding.is_equivalent_to(NamedSharding(automatic(), P("d", "m")), 2), h.sharding
    again = jax.jit(lambda h: h * 2 + 1)(h)
    assert again.sharding.is_equivalent_to(h.sharding, 2)
    np.testing.assert_allclose(again, want * 2 + 1, rtol=2e-5, atol=2e-5)


def test_steps_of_training_on_automatic_axes():
    x, y, w = f32(16, 8), f32(16, 6), f32(8, 6)

    def loss(w, x, y):
        return jnp.mean((x @ w - y) ** 2)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(w, x, y):
        value, grad = jax.value_and_grad(loss)(w, x, y)
        return w - 0.1 * grad, value

    on = (given(w), given(x, "d", None), given(y, "d", None))
    mine, theirs = on[0], w
    for _ in range(3):
        mine, value = step(mine, *on[1:])
        error = x @ theirs - y
        np.testing.assert_allclose(value, np.mean(error**2), rtol=2e-4)
        theirs = theirs - 0.1 * 2 * x.T @ error / error.size
    np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)


def test_sizes_that_do_not_divide_on_automatic_axes():
    x = f32(8, 12)
    # Six columns over four devices would be uneven: they stay whole.
    got = jax.jit(lambda x: jnp.concatenate([x[:, :3], x[:, 9:]], axis=1) * 2)(given(x, "d", "m"))
    np.testing.assert_allclose(got, np.concatenate([x[:, :3], x[:, 9:]], axis=1) * 2, rtol=2e-5)
    assert len(got.addressable_shards) == 8


def test_results_constrained_to_more_devices_than_they_have_elements():
    mesh = jax.make_mesh((4, 2), ("d", "m"), axis_types=(AxisType.Auto, AxisType.Auto))
    both = NamedSharding(mesh, P(("d", "m")))

    @jax.jit
    def f(x):
        x = jax.lax.with_sharding_constraint(x, both)
        sums = jax.shard_map(lambda x: x.sum()[None], mesh=mesh, in_specs=P("d"), out_specs=P("d"), axis_names={"d"}, check_vma=False)(x)
        return jax.lax.with_sharding_constraint(sums, both)

    np.testing.assert_array_equal(f(jnp.arange(8.0)), [1, 5, 9, 13])
