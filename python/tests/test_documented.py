"""Programs in the words of JAX's documentation, of kinds that the other files have none of: gradients through loops and decompositions, many
random distributions, optimisers and modules of the usual libraries, exports with open sizes, compilation ahead of time, collectives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

jax.config.update("jax_default_matmul_precision", "highest")
pytestmark = pytest.mark.skipif(jax.default_backend() != "systole", reason="needs JAX_PLATFORMS=systole,cpu")

rng = np.random.default_rng(11)
PROGRAMS = {}
KEY = np.array([3, 17], np.uint32)


def f32(*shape):
    return rng.standard_normal(shape, dtype=np.float32)


def program(*args, tol=2e-4):
    def add(f):
        PROGRAMS[f.__name__] = (f, args, tol)
        return f

    return add


@program(f32(10, 4), f32(4, 4) * 0.4)
def gradient_of_a_scan_with_the_remainder_of_a_stack(xs, w):
    def loss(w, xs):
        def body(c, x):
            h = jnp.tanh(c[0] @ w + x)
            return (h, c[1] + h.sum()), {"h": h, "n": jnp.linalg.norm(h)}

        (h, total), ys = lax.scan(body, (jnp.zeros(4), 0.0), xs, reverse=True)
        return total + (ys["h"] ** 2).mean() + ys["n"].sum() + h[0]

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(w, xs)


@program(f32(6), f32(6))
def forward_and_reverse_of_each_other(x, v):
    f = lambda x: jnp.log1p(jnp.exp(x)) * jnp.roll(x, 1) ** 2
    hvp = lambda v: jax.jvp(jax.grad(lambda x: f(x).sum()), (x,), (v,))[1]
    y, pull = jax.vjp(f, x)
    lin, push = jax.linearize(f, x)
    return jax.jit(hvp)(v), pull(v)[0], lin, push(v), jax.linear_transpose(push, x)(v)[0]


@program(f32(5, 3))
def functions_with_derivatives_of_their_own(x):
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def scaled(k, x):
        return k * jnp.abs(x)

    scaled.defvjp(lambda k, x: (scaled(k, x), jnp.sign(x)), lambda k, s, g: (jnp.clip(k * s * g, -1, 1),))

    @jax.custom_jvp
    def safe(x):
        return jnp.where(x > 0, jnp.sqrt(jnp.maximum(x, 0)), 0)

    @safe.defjvp
    def _(p, t):
        return safe(p[0]), jnp.where(p[0] > 0.01, 0.5 / safe(jnp.maximum(p[0], 0.01)), 5.0) * t[0]

    both = lambda x: scaled(3.0, x).sum() + safe(x).sum()
    return jax.jit(jax.vmap(jax.grad(both)))(x), jax.jvp(safe, (x,), (jnp.ones_like(x),))


@program(f32(7) ** 2, np.arange(7, dtype=np.int32))
def loops_in_batches(x, n):
    def f(x, n):
        collatz = lax.while_loop(lambda s: (s[1] < 20) & (s[0] < 50), lambda s: (s[0] * 1.5 + n, s[1] + 1), (x, 0))
        inner = lax.fori_loop(0, n, lambda i, a: a + jnp.sin(a + i), x)
        chosen = lax.switch(n % 3, [jnp.exp, jnp.square, lambda y: y - 7], x)
        return collatz, inner, chosen, lax.cond(x > 1, lambda: -x, lambda: x)

    return jax.jit(jax.vmap(f))(x, n)


@program(KEY, tol=3e-4)
def many_distributions(key):
    k = iter(random.split(key, 20))
    return (random.beta(next(k), 2.0, 3.0, (9,)), random.dirichlet(next(k), jnp.array([1.0, 2, 3]), (2,)), random.exponential(next(k), (5,)),
            random.laplace(next(k), (5,)), random.poisson(next(k), 4.0, (9,)), random.t(next(k), 5.0, (4,)), random.cauchy(next(k), (4,)),
            random.gumbel(next(k), (4,)), random.truncated_normal(next(k), -1.0, 2.0, (8,)), random.rademacher(next(k), (6,)),
            random.multivariate_normal(next(k), jnp.zeros(3), jnp.eye(3) * 2, (4,)), random.binomial(next(k), 10, 0.4, (6,)),
            random.orthogonal(next(k), 3), random.ball(next(k), 3, shape=(2,)), random.weibull_min(next(k), 1.0, 2.0, (3,)),
            random.geometric(next(k), 0.3, (5,)), random.triangular(next(k), 0.0, 0.3, 1.0, (4,)), random.lognormal(next(k), 0.5, (3,)))


@program(KEY)
def generators_of_other_kinds(key):
    del key
    out = []
    for kind in ("threefry2x32", "rbg", "unsafe_rbg"):
        k = random.fold_in(random.key(5, impl=kind), 9)
        out.append((random.key_data(k), random.bits(k, (3, 5), jnp.uint32) if kind == "threefry2x32" else random.key_data(random.split(k, 2))))
    return out


@program(f32(6, 6), f32(6, 2), tol=2e-3)
def gradients_of_decompositions(a, b):
    spd = a @ a.T + 3 * jnp.eye(6)
    chol = lambda s: jnp.linalg.cholesky(s).sum()
    vals = lambda s: (jnp.linalg.eigvalsh(s) ** 2 * jnp.arange(1.0, 7)).sum()
    svd = lambda m: jnp.linalg.svd(m, compute_uv=False) @ jnp.arange(1.0, 7)
    solve = lambda m: jax.scipy.linalg.solve(m, b, assume_a="pos").sum()
    qr = lambda m: jnp.abs(jnp.linalg.qr(m)[1]).sum()
    logdet = lambda m: jnp.linalg.slogdet(m)[1]
    tri = lambda m: jax.scipy.linalg.solve_triangular(m, b, lower=True).sum()
    return [jax.jit(jax.grad(f))(spd) for f in (chol, vals, svd, solve, qr, logdet, tri)]


@program(f32(5, 5), f32(4, 3), tol=2e-3)
def functions_of_matrices(a, m):
    s = a @ a.T + jnp.eye(5)
    return (jax.scipy.linalg.expm(a * 0.3), jnp.linalg.pinv(m), jnp.linalg.matrix_power(a * 0.5, 3), jnp.linalg.lstsq(m, jnp.ones(4))[0],
            jax.scipy.linalg.sqrtm(s).real, jnp.sort(jnp.abs(jnp.linalg.eigvals(a))), jnp.linalg.matrix_rank(m), jax.scipy.linalg.block_diag(a, m), jax.scipy.linalg.toeplitz(a[0]),
            jnp.linalg.multi_dot([m.T, m, m.T]), jax.scipy.linalg.polar(s)[1], jnp.kron(m, a[:2, :2]), jax.scipy.linalg.qr(m, pivoting=True, mode="economic"),
            jnp.abs(jax.scipy.linalg.hessenberg(a)), jnp.linalg.eigvals(jax.scipy.linalg.schur(a, output="complex")[0]).sum())


@program(f32(8, 12), f32(64), tol=1e-3)
def transforms_of_fourier(x, t):
    z = jnp.fft.fft2(x)
    conv = jax.scipy.signal.fftconvolve(t, t[:9], mode="same")
    return (z, jnp.fft.ifft2(z).real, jnp.fft.irfft(jnp.fft.rfft(t) * 0.5), jnp.fft.fftshift(jnp.fft.fftfreq(9)), conv,
            jax.grad(lambda t: jnp.abs(jnp.fft.fft(t)).sum())(t), jnp.fft.hfft(t[:9]), jnp.fft.rfftn(x[:4, :6]), jax.scipy.fft.dct(t))


@program(f32(32, 6), f32(32, 1), tol=1e-3)
def optimisers(x, y):
    optax = pytest.importorskip("optax")
    out = []
    for make in (optax.adam(0.05), optax.lion(0.01), optax.rmsprop(0.02), optax.adafactor(0.05),
                 optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(optax.cosine_decay_schedule(0.1, 20), momentum=0.9, nesterov=True))):
        params = {"w": jnp.zeros((6, 1)), "b": jnp.zeros(1)}
        state = make.init(params)

        @jax.jit
        def step(params, state):
            loss = lambda p: optax.huber_loss(x @ p["w"] + p["b"], y).mean()
            value, grads = jax.value_and_grad(loss)(params)
            updates, state = make.update(grads, state, params)
            return optax.apply_updates(params, updates), state, value

        for _ in range(12):
            params, state, value = step(params, state)
        out.append((params, value))
    return out


@program(f32(4, 12, 12, 3), tol=2e-3)
def modules_of_linen(x):
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, train):
            x = nn.Conv(8, (3, 3), strides=2, padding="SAME")(x)
            x = nn.BatchNorm(use_running_average=not train, momentum=0.8)(x)
            x = nn.max_pool(nn.gelu(x), (2, 2), strides=(2, 2))
            x = nn.GroupNorm(num_groups=4)(x).reshape(x.shape[0], -1, 8)
            x = x + nn.MultiHeadDotProductAttention(num_heads=2)(x)
            x = nn.RNN(nn.LSTMCell(6))(x)
            return nn.Dense(5)(nn.LayerNorm()(x[:, -1]))

    net = Net()
    v = net.init(random.key(0), x, train=False)

    def loss(p):
        y, s = net.apply({"params": p, "batch_stats": v["batch_stats"]}, x, train=True, mutable=["batch_stats"])
        return (y**2).sum(), s

    (value, stats), grads = jax.jit(jax.value_and_grad(loss, has_aux=True))(v["params"])
    return value, stats, grads, net.tabulate(random.key(0), x, train=False).count("Dense") > 0


@program(f32(8, 10), tol=1e-3)
def modules_of_nnx(x):
    optax, nnx = pytest.importorskip("optax"), pytest.importorskip("flax.nnx")

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.embed = nnx.Linear(10, 16, rngs=rngs)
            self.norm = nnx.RMSNorm(16, rngs=rngs)
            self.drop = nnx.Dropout(0.3, rngs=rngs)
            self.out = nnx.Linear(16, 3, rngs=rngs)

        def __call__(self, x):
            return self.out(self.drop(self.norm(nnx.silu(self.embed(x)))))

    net = Net(nnx.Rngs(0))
    opt = nnx.Optimizer(net, optax.adamw(1e-2), wrt=nnx.Param)

    @nnx.jit
    def step(net, opt, x):
        value, grads = nnx.value_and_grad(lambda n: (n(x) ** 2).mean())(net)
        opt.update(net, grads)
        return value

    losses = [step(net, opt, x) for _ in range(6)]
    return jnp.stack(losses), jax.tree.leaves(nnx.state(net, nnx.Param))


@program(f32(6, 4), f32(4, 2))
def exported_and_called_again(x, w):
    from jax import export

    platform = next(iter(x.devices())).platform
    n, = export.symbolic_shape("n")
    f = jax.jit(lambda x, w: jnp.tanh(x @ w).sum(0) + x.shape[0])
    spec = jax.ShapeDtypeStruct((n, 4), jnp.float32), jax.ShapeDtypeStruct((4, 2), jnp.float32)
    data = export.export(f, platforms=[platform])(*spec).serialize(vjp_order=1)
    g = export.deserialize(bytearray(data))
    loss = lambda w: (g.call(x, w) ** 2).sum()
    return g.call(x, w), g.call(x[:3], w), jax.grad(loss)(w)


@program(f32(4, 4))
def compiled_ahead_of_time(x):
    f = jax.jit(lambda x, n: (jnp.sin(x) * n, x.T @ x), static_argnums=1)
    traced = f.trace(x, 3)
    lowered = traced.lower()
    compiled = lowered.compile()
    assert "main" in lowered.as_text() and compiled.memory_analysis().output_size_in_bytes >= 128
    assert jax.eval_shape(lambda x: f(x, 3), x)[1].shape == (4, 4) and "sin" in str(jax.make_jaxpr(lambda x: f(x, 3))(x))
    return compiled(x), jax.tree.map(lambda s: np.array(s.shape), compiled.out_info)


@program(f32(5))
def errors_that_are_checked(x):
    from jax.experimental import checkify

    def f(x, i):
        checkify.check(x[0] < 100, "large: {x}", x=x[0])
        return jnp.log(x)[i]

    errs = checkify.index_checks | checkify.user_checks | checkify.nan_checks | checkify.div_checks
    checked = jax.jit(checkify.checkify(f, errors=errs))
    out = []
    for y, i in ((jnp.abs(x), 2), (jnp.abs(x), 11), (x.at[0].set(1000.0), 1), (-jnp.abs(x), 0)):
        err, value = checked(y, i)
        said = (err.get() or "").splitlines()[:1]
        out.append((np.frombuffer(repr([s.split(" (")[0] for s in said]).encode(), np.uint8), jnp.nan_to_num(value) if said == [] else 0))
    return out


@program(f32(3, 6))
def calls_of_python(x):
    from jax.experimental import io_callback

    seen = []
    square = lambda a: (np.asarray(a) ** 2).astype(np.float32)

    @jax.custom_jvp
    def f(x):
        return jax.pure_callback(square, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="broadcast_all")

    f.defjvp(lambda p, t: (f(p[0]), 2 * p[0] * t[0]))

    def loop(x):
        def body(c, i):
            io_callback(lambda i: seen.append(int(i)), None, i, ordered=True)
            return c + f(c * 0.1), i * 2

        return lax.scan(body, x, jnp.arange(5))

    y = jax.jit(loop)(x)
    jax.effects_barrier()
    return y, jax.grad(lambda x: f(x).sum())(x), jax.vmap(f)(x), np.array(seen)


@program(f32(4, 6))
def arrays_handed_to_others(x):
    x = jax.device_put(x, jax.devices("cpu")[0])
    y = np.from_dlpack(x).copy()
    return jnp.from_dlpack(y) * 2, jnp.asarray(y).T.copy(), np.asarray(jax.device_get(jnp.array(memoryview(y))))


@program(f32(64))
def states_given_away_in_loops(x):
    @functools.partial(jax.jit, donate_argnames=("cache",))
    def write(cache, i, v):
        return lax.dynamic_update_slice(cache, v[None], (i, 0)), cache.sum()

    cache = jnp.zeros((8, 64))
    sums = []
    for i in range(8):
        cache, s = write(cache, i, jnp.array(x) * i)
        sums.append(s)
    return cache, jnp.stack(sums)


@program(f32(9), f32(9))
def complex_functions(a, b):
    z = lax.complex(a, b)
    f = lambda z: jnp.exp(z) * jnp.conj(z) + jnp.sqrt(z) / (1 + z)
    holo = jax.grad(lambda z: jnp.sum(z**3 + jnp.sin(z)), holomorphic=True)
    return (jax.jit(f)(z), holo(z), jnp.angle(z), jnp.abs(z), jnp.log(z), jnp.tanh(z), z**2.5, jnp.cumprod(z), jnp.sort_complex(z),
            jnp.sort_complex(jnp.roots(jnp.array([1.0, -3, 2, 0.5]))), jax.vjp(lambda z: jnp.real(z * z), z)[1](a)[0])


@program(rng.integers(-8, 8, (8, 16)).astype(np.int8), f32(16, 8))
def narrow_types(q, w):
    q4 = q.astype(jnp.int4)
    f8 = w.astype(jnp.float8_e4m3fn)
    scale = jnp.abs(w).max(0) / 127
    w8 = jnp.round(w / scale).astype(jnp.int8)
    acc = lax.dot_general(q, w8, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
    return (q4.astype(jnp.float32) @ w, f8.astype(jnp.float32), acc, acc * scale, w.astype(jnp.float8_e5m2).astype(jnp.bfloat16),
            (q4 + jnp.int4(3)).astype(jnp.int32), jnp.where(q4 > 0, q4, -q4).astype(jnp.int8), q.astype(jnp.uint4).astype(jnp.uint8),
            lax.dot(f8.astype(jnp.bfloat16).T, w.astype(jnp.bfloat16), preferred_element_type=jnp.float32), w.astype(jnp.float16) / 4)


@program(np.linspace(0.1, 3, 11))
def doubles(x):
    with jax.enable_x64(True):
        x = jnp.asarray(np.asarray(x), jnp.float64)
        n = jnp.arange(11, dtype=jnp.int64) * (1 << 40)
        f = jax.jit(lambda x: (jnp.sin(x), jnp.exp(-x), x / 3, jnp.cumsum(x), jnp.log(x), jnp.sum(x**2), jax.scipy.special.gammaln(x)))
        out = f(x), n // 3, n % 12345, jnp.outer(x, x) @ x, jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 3))(x), lax.erf_inv(x / 4)
        return jax.tree.map(lambda a: np.asarray(a), out)


@program(f32(16, 8), f32(8, 12))
def collectives_on_a_mesh(x, w):
    devices = np.array(jax.devices(next(iter(x.devices())).platform))
    n = len(devices)
    shape = (2, n // 2) if n % 2 == 0 and n <= 8 else (1, 1)
    mesh = Mesh(devices[: shape[0] * shape[1]].reshape(shape), ("a", "b"))
    on = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)

    def f(x, w):
        y = lax.psum(x @ w, "b")
        g = lax.all_gather(y, "a", tiled=True)
        return (y, lax.psum_scatter(g, "a", tiled=True), lax.pmax(y, "a"), lax.pmean(x, ("a", "b")),
                lax.ppermute(y, "a", [(i, (i + 1) % shape[0]) for i in range(shape[0])]),
                jnp.zeros(()) + lax.axis_index("a") + 10 * lax.axis_size("b"))

    put = lambda v, *spec: jax.device_put(v, NamedSharding(mesh, P(*spec)))
    specs = (P("a"), P("a"), P(), P(), P("a"), P())
    g = jax.jit(on(f, in_specs=(P("a", "b"), P("b")), out_specs=specs))
    total = lambda w: (on(lambda x, w: lax.psum((x @ w).sum(), ("a", "b")), in_specs=(P("a", "b"), P("b")), out_specs=P())(x, w)) ** 2
    out = g(put(x, "a", "b"), put(w, "b"))
    # The parts are as many as there are devices: what does not depend on that.
    return out[0], jax.jit(jax.grad(total))(put(w, "b"))


@program(f32(40, 5), f32(5))
def solvers(x, y):
    from jax.scipy.optimize import minimize
    from jax.scipy.sparse.linalg import bicgstab, cg, gmres

    a = x.T @ x + jnp.eye(5)
    rosen = lambda p: jnp.sum(100 * (p[1:] - p[:-1] ** 2) ** 2 + (1 - p[:-1]) ** 2)
    root = lax.custom_root(lambda z: z**3 - 2 * z - 5, 2.0, lambda f, z: lax.fori_loop(0, 12, lambda _, z: z - f(z) / jax.grad(f)(z), z),
                           lambda g, y: y / g(1.0))
    return cg(a, y)[0], gmres(a, y)[0], bicgstab(a, y)[0], jnp.round(minimize(rosen, jnp.zeros(3), method="BFGS").x, 2), root


@program(f32(3, 20), f32(50), tol=1e-3)
def numpy_in_full(m, t):
    return (jnp.percentile(t, jnp.array([10.0, 50, 95])), jnp.histogram(t, bins=7)[0], jnp.unique(jnp.round(t), size=8, fill_value=-9), jnp.median(m, 1),
            jnp.gradient(t), jnp.interp(jnp.linspace(-1, 1, 9), jnp.sort(t), t), jnp.convolve(t, t[:5]), jnp.cov(m), jnp.corrcoef(m),
            jnp.digitize(t, jnp.array([-1.0, 0, 1])), jnp.nanmean(jnp.where(m > 1, jnp.nan, m)), jnp.trapezoid(t), jnp.polyfit(jnp.arange(50.0) / 50, t, 2),
            jnp.einsum("ij,kj,j->ik", m, m, t[:20]), jnp.lexsort((jnp.round(t), -t)), jnp.searchsorted(jnp.sort(t), m), jnp.argpartition(t, 5)[5],
            jnp.select([t > 1, t < -1], [t, -t], 0.5), jnp.piecewise(t, [t < 0], [lambda v: v * v, jnp.exp]), jnp.apply_along_axis(jnp.cumsum, 0, m))


@program(f32(2, 10, 8), np.array([[3, 1, 4, 1, 5, 0], [2, 7, 1, 0, 0, 0]], np.int32), tol=1e-3)
def layers_of_jax_nn(x, ids):
    mask = jnp.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0]])
    q = x.reshape(2, 10, 2, 4)
    logits = jnp.log(jax.nn.softmax(x[:, :, :6]))
    return (jax.nn.dot_product_attention(q, q, q, is_causal=True), jax.nn.one_hot(ids, 8) @ x[0, :8], jax.nn.logsumexp(x, 2, b=2.0), jax.nn.glu(x),
            jax.nn.swish(x), jax.nn.hard_tanh(x), jax.nn.log_softmax(x), jnp.take(x[0], ids, axis=0, mode="clip"), jax.nn.sparse_plus(x), jax.nn.mish(x),
            jax.grad(lambda x: (jax.nn.standardize(x) * mask.sum()).sum() + jax.nn.celu(x).sum())(x), logits)


@program(f32(24), np.sort(rng.integers(0, 6, 24)).astype(np.int32))
def scattered_sums(x, s):
    z = jnp.zeros((6, 4))
    return (jax.ops.segment_max(x, s, 6), jax.ops.segment_prod(x, s, 6), z.at[s, s % 4].add(x), z.at[s].min(x[:, None]), z.at[::2, 1].mul(3.0),
            z.at[s, 0].set(7.0, mode="drop"), x.at[jnp.array([50, -1])].get(mode="fill", fill_value=9), jnp.zeros(6).at[s].apply(jnp.cos),
            jnp.bincount(s, length=6), jax.grad(lambda x: (jax.ops.segment_sum(jnp.exp(x), s, 6) ** 2).sum())(x))


def same(a, b, tol):
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
    if jnp.issubdtype(a.dtype, jnp.inexact):
        wide = np.complex128 if jnp.issubdtype(a.dtype, jnp.complexfloating) else np.float64
        a, b = np.asarray(a, wide), np.asarray(b, wide)
        finite = np.abs(b)[np.isfinite(b)]
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol * max(0.2, finite.max(initial=0)))
    else:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_documented(name):
    f, args, tol = PROGRAMS[name]
    answers = []
    for platform in ["systole", "cpu"]:
        device = jax.devices(platform)[0]
        with jax.default_device(device):
            answers.append(jax.tree.map(np.asarray, f(*[jax.device_put(a, device) for a in args])))
    jax.tree.map(lambda a, b: same(a, b, tol), *answers)
