"""Unmodified programs in JAX's idioms: what the simulated chip answers is what the CPU answers.

Run with ``JAX_PLATFORMS=systole,cpu``. Products are asked for in full precision, as their default on a TPU is bfloat16.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from jax.experimental import checkify

jax.config.update("jax_default_matmul_precision", "highest")
pytestmark = pytest.mark.skipif(jax.default_backend() != "systole", reason="needs JAX_PLATFORMS=systole,cpu")

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


X, Y, W = f32(8, 16), f32(8, 16), f32(16, 4)
KEY = np.array([0, 42], np.uint32)
PROGRAMS = {}


def program(*args, tol=2e-5):
    def add(f):
        PROGRAMS[f.__name__] = (f, args, tol)
        return f

    return add


@program(X, Y)
def add_and_scale(a, b):
    return 2 * a + b / 3


@program(X)
def selu(x):
    return 1.05 * jnp.where(x > 0, x, 1.67 * jnp.exp(x) - 1.67)


@program(X, W)
def linear(x, w):
    return jax.nn.relu(x @ w)


@program(X, W)
def gradient_of_a_loss(x, w):
    return jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)


@program(f32(5))
def hessian(x):
    return jax.hessian(lambda v: jnp.sum(v**3) * jnp.prod(jnp.cos(v)))(x)


@program(f32(4))
def jacobians(x):
    f = lambda v: jnp.array([v[0] * v[1], jnp.sin(v[2]), v[3] ** 2])
    return jax.jacfwd(f)(x), jax.jacrev(f)(x)


@program(f32(6, 3), f32(3))
def batched_product(m, v):
    return jax.vmap(lambda row: jnp.dot(row, v))(m), jax.vmap(jnp.outer, in_axes=(0, None))(m, v)


@program(f32(5, 5), f32(3))
def batched_convolution(xs, w):
    return jax.vmap(lambda x: jnp.convolve(x, w, mode="same"))(xs)


@program(f32(20, 3))
def running_sums(x):
    return lax.scan(lambda c, y: (c + y, c * y), jnp.zeros(3), x)


@program(f32(4, 4))
def power_iteration(a):
    def body(i, v):
        v = a @ v
        return v / jnp.linalg.norm(v)

    return lax.fori_loop(0, 10, body, jnp.ones(4))


@program(np.float32(2.0))
def newton_square_root(x):
    def step(s):
        y, _ = s
        return 0.5 * (y + x / y), jnp.abs(y * y - x)

    return lax.while_loop(lambda s: s[1] > 1e-6, step, (x, jnp.float32(1.0)))[0]


@program(np.int32(3), f32(4))
def conditional(n, x):
    return lax.cond(n > 2, lambda v: v * 2, lambda v: v - 1, x), lax.switch(n, [jnp.sin, jnp.cos, jnp.tan, jnp.exp], x)


@program(np.int32(10))
def fibonacci(n):
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[2], s[1] + s[2]), (0, 0, 1))[1]


@program(KEY)
def random_numbers(key):
    a, b, c = random.split(key, 3)
    return random.normal(a, (7,)), random.uniform(b, (3, 2)), random.randint(c, (5,), 0, 100)


@program(KEY, tol=1e-4)
def random_distributions(key):
    return random.gamma(key, 2.0, (3,)), random.categorical(key, jnp.zeros(5), shape=(4,)), random.bernoulli(key, 0.3, (6,))


@program(KEY)
def shuffled(key):
    return random.permutation(key, 10), random.choice(key, 8, (3,), replace=False)


@program(f32(6, 6), tol=1e-3)
def cholesky_and_solve(a):
    a = a @ a.T + 6 * jnp.eye(6)
    return jnp.linalg.cholesky(a), jnp.linalg.solve(a, jnp.ones(6)), jnp.linalg.inv(a)


@program(f32(5, 5), tol=1e-3)
def symmetric_eigenvalues(a):
    return jnp.linalg.eigvalsh(a + a.T)


@program(f32(7, 7), f32(7, 7), tol=1e-3)
def complex_matrices(x, y):
    a = lax.complex(x, y)
    a = a + a.conj().T
    w, v = jnp.linalg.eigh(jnp.stack([a, jnp.eye(7, dtype=a.dtype)]))
    lower, upper = (lax.linalg.tridiagonal(a, lower=lower) for lower in (True, False))
    return w, v @ (w[..., None] * v.conj().swapaxes(1, 2)), lower, upper, jnp.linalg.cond(a)


@program(f32(6, 4), tol=1e-3)
def singular_values_and_qr(a):
    q, r = jnp.linalg.qr(a)
    return jnp.linalg.svd(a, compute_uv=False), jnp.abs(jnp.diag(r)), q.T @ q


@program(f32(4, 4), tol=1e-3)
def determinant(a):
    return jnp.linalg.det(a), jnp.linalg.slogdet(a)[1]


@program(f32(16), tol=1e-4)
def fourier(x):
    return jnp.abs(jnp.fft.fft(x)), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.fft.fft2(x.reshape(4, 4)).real


@program(f32(10))
def sorted_things(x):
    return jnp.sort(x), jnp.argsort(x), lax.top_k(x, 3), jnp.median(x), jnp.searchsorted(jnp.sort(x), x)


@program(f32(6, 5), np.array([0, 2, 2, 5], np.int32))
def indexing(x, i):
    return x[i], x.at[i].add(1.0), x[:, ::2], jnp.take_along_axis(x[:4], i[:, None] % 5, axis=1)


@program(f32(12), np.array([0, 1, 0, 2, 1, 1, 0, 2, 2, 1, 0, 0], np.int32))
def segments(x, s):
    return jax.ops.segment_sum(x, s, 3), jnp.bincount(s, length=4)


@program(f32(2, 9, 9, 3), f32(3, 3, 3, 8), tol=1e-4)
def convolution_and_pooling(x, k):
    y = lax.conv_general_dilated(x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return lax.reduce_window(jax.nn.relu(y), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


@program(f32(2, 6, 16), f32(16, 48), tol=1e-4)
def attention(x, w):
    q, k, v = jnp.split(x @ w, 3, axis=-1)
    scores = jnp.einsum("bqd,bkd->bqk", q, k) / 4
    scores = jnp.where(jnp.tril(jnp.ones((6, 6), bool)), scores, -1e9)
    return jax.nn.softmax(scores) @ v


@program(f32(4, 16), tol=1e-4)
def normalisations(x):
    return jax.nn.standardize(x), jax.nn.softmax(x), jax.nn.log_softmax(x), jax.nn.logsumexp(x, axis=1)


@program(f32(20))
def activations(x):
    return [f(x) for f in (jax.nn.gelu, jax.nn.silu, jax.nn.elu, jax.nn.softplus, jax.nn.sigmoid, jax.nn.mish)]


@program(np.abs(f32(10)) + 0.5, tol=1e-4)
def special_functions(x):
    s = jax.scipy.special
    return s.gammaln(x), s.erf(x), s.digamma(x), s.i0(x), s.betaln(x, x), s.ndtr(x)


@program(f32(5, 4))
def reductions(x):
    return x.sum(0), x.mean(1), x.max(), x.argmin(1), jnp.any(x > 1), x.std(), jnp.cumsum(x, 1), jnp.prod(x, 0)


@program(np.arange(12, dtype=np.int32), np.array([3], np.int32))
def integers(a, b):
    return a // b, a % b, a << 2, a ^ 5, jnp.bitwise_count(a), lax.population_count(a), jnp.gcd(a, b)


@program(f32(3, 4), tol=1e-2)
def bfloat16(x):
    y = x.astype(jnp.bfloat16)
    return (y * y + 1).astype(jnp.float32), y.sum().astype(jnp.float32)


@program(f32(6))
def complex_numbers(x):
    z = lax.complex(x, x[::-1])
    return jnp.abs(z), (z * z.conj()).real, jnp.exp(z).imag, jnp.angle(z)


@program(f32(4, 3))
def shapes(x):
    return jnp.pad(x, ((1, 2), (0, 1))), jnp.tile(x, (2, 1)), jnp.roll(x, 1, 0), x.T.reshape(2, 6), jnp.concatenate([x, x])


@program(f32(4, 8))
def checkpointed(x):
    f = jax.checkpoint(lambda v: jnp.sin(jnp.sin(v)))
    return jax.grad(lambda v: f(v).sum())(x)


@jax.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -0.1, 0.1),))


@program(f32(5))
def custom_gradient(x):
    return jax.grad(lambda v: (clipped(v) ** 2).sum())(x)


@program(f32(3, 3))
def associative_scan(x):
    return lax.associative_scan(jnp.add, x), lax.cummax(x), lax.cumlogsumexp(x)


@program({"a": f32(3), "b": [f32(2), f32(2)]})
def trees(t):
    return jax.tree.map(lambda v: v * 2, t), jax.tree.reduce(lambda s, v: s + v.sum(), t, 0.0)


@program(f32(8, 3), f32(5, 3))
def distances(a, b):
    return jnp.sqrt(jnp.sum((a[:, None] - b[None]) ** 2, -1)).argmin(1)


@program(f32(10), tol=1e-4)
def interpolation_and_polynomials(x):
    return jnp.interp(x, jnp.linspace(-2, 2, 5), jnp.arange(5.0)), jnp.polyval(jnp.array([1.0, -2, 3]), x), jnp.trapezoid(x)


@program(f32(3, 5), tol=1e-4)
def ode_step(y):
    def rk4(y, _):
        f = lambda v: -v + jnp.sin(v)
        k1 = f(y)
        k2 = f(y + 0.05 * k1)
        k3 = f(y + 0.05 * k2)
        return y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + f(y + 0.1 * k3)), None

    return lax.scan(rk4, y, None, length=10)[0]


def same(a, b, tol):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    if a.dtype.kind in "fc" or a.dtype == jnp.bfloat16:
        np.testing.assert_allclose(a.astype(np.complex64), b.astype(np.complex64), rtol=tol, atol=tol)
    else:
        np.testing.assert_array_equal(a, b)


@program(f32(300, 40), f32(10, 40), tol=1e-3)
def k_means(x, centres):
    def step(c, _):
        nearest = jnp.argmin(((x[:, None] - c[None]) ** 2).sum(-1), 1)
        member = jax.nn.one_hot(nearest, 10)
        return member.T @ x / (member.sum(0)[:, None] + 1e-6), nearest.sum()

    return lax.scan(step, centres, None, length=3)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_program(name):
    f, args, tol = PROGRAMS[name]
    found = jax.jit(f)(*args)
    with jax.default_device(jax.devices("cpu")[0]):
        due = jax.jit(f)(*args)
    jax.tree.map(functools.partial(same, tol=tol), found, due)


def train(steps):
    """A small network learns to add."""
    key = random.key(0)
    k1, k2, k3 = random.split(key, 3)
    params = {"w1": random.normal(k1, (4, 16)) * 0.5, "b1": jnp.zeros(16), "w2": random.normal(k2, (16, 1)) * 0.25}
    x = random.normal(k3, (32, 4))
    y = x.sum(1, keepdims=True)

    def loss(p):
        return jnp.mean((jnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] - y) ** 2)

    @jax.jit
    def step(p):
        value, grads = jax.value_and_grad(loss)(p)
        return jax.tree.map(lambda a, g: a - 0.05 * g, p, grads), value

    for _ in range(steps):
        params, value = step(params)
    return float(value)


def test_training_ends_where_it_does_on_the_cpu():
    found = train(200)
    with jax.default_device(jax.devices("cpu")[0]):
        due = train(200)
    assert found == pytest.approx(due, rel=1e-2)


@pytest.mark.parametrize("which", ["user", "index", "float", "all"])
def test_checks_say_what_they_say_on_the_cpu(which):
    def checked(x, i):
        checkify.check(i >= 0, "the number must not be negative: {i}", i=i)
        return jnp.sin(x[i]) / x[0]

    errors = getattr(checkify, f"{which}_checks")
    errors = errors if which == "user" else errors | checkify.user_checks
    call = checkify.checkify(jax.jit(checked), errors=errors)
    many = jax.vmap(checkify.checkify(checked, errors=errors), in_axes=(0, None))
    for first, i in ((1.0, 1), (0.0, 1), (1.0, 7), (1.0, -5)):
        x = np.array([first, 2, 3], np.float32)

        def said():
            return [str(f(v, jnp.int32(i))[0].get()).split("\n")[0] for f, v in ((call, x), (many, np.stack([x, x + 1])))]

        found = said()
        with jax.default_device(jax.devices("cpu")[0]):
            assert found == said()
