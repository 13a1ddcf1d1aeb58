"""More programs in JAX's idioms, run as they stand on both: scans that are computed again, batched loops, ragged products, callbacks with
order, donated states, references, types of few bits, devices in a mesh."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_default_matmul_precision", "highest")
pytestmark = pytest.mark.skipif(jax.default_backend() != "systole", reason="needs JAX_PLATFORMS=systole,cpu")

rng = np.random.default_rng(3)
PROGRAMS = {}


def f32(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def program(*args):
    def add(f):
        PROGRAMS[f.__name__] = (f, args)
        return f

    return add


@program(f32(6, 32))
def own_gradient_computed_again(x):
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x) * x

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * jnp.clip(jnp.cos(x), -0.5, 0.5),))
    return jax.jit(jax.grad(lambda x: jax.checkpoint(lambda x: f(jnp.tanh(f(x))).sum())(x)))(x)


@program(f32(128, 8), f32(128, 8))
def recurrence_backwards(a, b):
    def both(later, earlier):
        return later[0] * earlier[0], later[1] * earlier[0] + earlier[1]

    return jax.jit(lambda d, a: lax.associative_scan(both, (d, a), axis=0, reverse=True)[1])(jax.nn.sigmoid(b), a)


@program(f32(12, 8), f32(8, 8) * 0.3)
def second_gradient_of_a_scan(x, w):
    def loss(w):
        def body(h, x):
            return jnp.tanh(h @ w + x), h.sum()

        h, ys = lax.scan(jax.checkpoint(body, policy=jax.checkpoint_policies.dots_saveable), jnp.zeros(8), x, unroll=3)
        return h.sum() + ys.sum()

    return jax.jit(jax.hessian(lambda s: loss(w * s)))(1.1), jax.grad(loss)(w)


@program(np.arange(1, 9, dtype=np.int32))
def loops_of_many_lengths(n):
    def steps(n):
        half = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1)
        return lax.while_loop(lambda s: s[0] != 1, half, (n, 0))[1]

    return jax.jit(jax.vmap(steps))(n)


@program(f32(30, 16), f32(3, 16, 8), np.array([5, 17, 8], np.int32))
def ragged_products(x, w, sizes):
    return jax.jit(lax.ragged_dot)(x, w, sizes), jax.grad(lambda w: lax.ragged_dot(x, w, sizes).sum())(w)


@program(f32(4, 8))
def callbacks_with_order_and_in_batches(x):
    largest = lambda a: np.float32(a.max())
    row = lambda r: jax.pure_callback(lambda v: np.sort(v, axis=-1), jax.ShapeDtypeStruct((8,), jnp.float32), r, vmap_method="expand_dims")
    number = jax.ShapeDtypeStruct((), jnp.float32)
    return jax.jit(lambda x: (io_callback(largest, number, x, ordered=True) + x, jax.vmap(row)(x)))(x)


@program(f32(4))
def callbacks_in_loops_for_their_effect_alone(x):
    seen = []
    see = lambda i, s: seen.append((int(i), float(s)))

    def turn(i, x):
        io_callback(see, None, i, x.sum(), ordered=True)
        return x + 1

    y = jax.jit(lambda x: lax.fori_loop(0, 5, turn, x))(x)
    jax.block_until_ready(y)
    jax.effects_barrier()
    return y, np.array(seen, np.float32)


@program(f32(256), f32(256))
def a_state_given_away(x, g):
    f = jax.jit(lambda s, g: {"p": s["p"] - 0.1 * g, "m": s["m"] * 0.9 + g}, donate_argnums=0)
    s = {"p": jnp.array(x), "m": jnp.zeros_like(x)}
    for i in range(5):
        s = f(s, g * i)
    return s


@program(f32(6, 10))
def references(x):
    def f(x):
        r = jax.new_ref(jnp.zeros(10))

        def body(i, _):
            r[...] = r[...] * 0.5 + x[i]
            r[i] = r[i] + 1
            return 0

        lax.fori_loop(0, 6, body, 0)
        return r[...]

    return jax.jit(f)(x)


@program(rng.integers(0, 120, (3, 20), dtype=np.uint8))
def types_of_few_bits(x):
    y = lax.bitcast_convert_type(x.reshape(3, 5, 4), jnp.float32)
    narrow = (x.astype(jnp.int4) + jnp.int4(1)).astype(jnp.int8)
    return (lax.bitcast_convert_type(y, jnp.uint8), x.astype(jnp.float8_e4m3fn).astype(jnp.float32), lax.population_count(x), lax.clz(x),
            jnp.packbits(x > 100), narrow, jnp.bitwise_xor.reduce(x, axis=1), x.astype(jnp.bfloat16) * jnp.bfloat16(1.5))


@program(f32(16, 64), f32(64, 32))
def as_many_devices_as_there_are(x, w):
    devices = np.array([d for d in jax.devices(next(iter(x.devices())).platform)])
    mesh = Mesh(devices.reshape(-1, 2) if len(devices) % 2 == 0 else devices[:1].reshape(1, 1), ("d", "m"))
    on = lambda *spec: NamedSharding(mesh, P(*spec))
    f = jax.jit(lambda x, w: (jnp.tanh(x @ w).sum(0), (x @ w)[::2]), out_shardings=(on("m"), on()))
    return f(jax.device_put(x, on("d", None)), jax.device_put(w, on(None, "m")))


def same(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    if jnp.issubdtype(a.dtype, jnp.inexact):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=3e-5 * max(1, np.abs(b).max()))
    else:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_idiom(name):
    f, args = PROGRAMS[name]
    answers = []
    for platform in ["systole", "cpu"]:
        device = jax.devices(platform)[0]
        with jax.default_device(device):
            answers.append(jax.tree.map(np.asarray, f(*[jax.device_put(a, device) for a in args])))
    jax.tree.map(same, *answers)
