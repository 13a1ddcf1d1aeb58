"""Writes pairs of files beside it: what `jax.export` serialises, and the same module as text (JAX 0.10.2)."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.sharding import Mesh, PartitionSpec as P

jax.config.update("jax_enable_x64", True)

f32, i32 = jnp.float32, jnp.int32


def shape(*dims, dtype=f32):
    return jax.ShapeDtypeStruct(dims, dtype)


def network(x, w, b):
    hidden = jax.nn.gelu(x @ w + b)
    return jax.nn.softmax(hidden, axis=-1).sum(0)


def gradient(x, w):
    return jax.grad(lambda w: jnp.tanh(x @ w).sum())(w)


def loops(x):
    def body(carry, y):
        carry = lax.cond(y.sum() > 0, lambda c: c + y, lambda c: c * 2, carry)
        return carry, jnp.sin(carry)

    carry, all_of_them = lax.scan(body, x[0], x)
    return lax.while_loop(lambda c: c.sum() < 100, lambda c: c + 1.5, carry), all_of_them


def choose(i, x):
    return lax.switch(i, [jnp.sin, jnp.cos, lambda v: v * 2], x)


def random(key):
    return jax.random.normal(key, (5,)), jax.random.randint(key, (3,), 0, 10)


def grouped(x, w, sizes):
    """Operations that become composites."""
    y, back = jax.vjp(lambda x, w: lax.ragged_dot(x, w, sizes, precision="highest"), x, w)
    return lax.top_k(lax.erf(y), 3), back(y)


def convolution(x, k):
    y = lax.conv_general_dilated(
        x, k, (2, 1), [(1, 2), (0, 1)], lhs_dilation=(1, 2), rhs_dilation=(1, 1),
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2)
    return lax.reduce_window(y, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")


def indexing(x, i):
    y = x.at[i, 2].add(3.0)
    z = jnp.take_along_axis(y, i[:, None], axis=1)
    return y[1:, ::2], z, lax.dynamic_update_slice(x, z, (i[0], np.int32(1))), x[i]


def sorting(x):
    return jnp.sort(x), jnp.argsort(x), lax.top_k(x, 3)


def linear_algebra(a, b):
    a = a @ a.T + jnp.eye(4, dtype=f32)
    c = lax.linalg.cholesky(a)
    return c, lax.linalg.triangular_solve(c, b, left_side=True, lower=True), jnp.fft.rfft(b)


def constants(x):
    table = np.arange(40, dtype=np.float32).reshape(5, 8)
    flags = np.arange(40).reshape(5, 8) % 3 == 0
    small = jnp.array([1.5, -2.0, np.inf, np.nan, 0.1], f32)[:, None]
    return jnp.where(flags, x, table) + small + jnp.float32(1e-30), jnp.array([True, False]), np.int64(-5)


def types(x):
    half = x.astype(jnp.bfloat16) + jnp.bfloat16(0.1)
    f8 = x.astype(jnp.float8_e4m3fn).astype(f32)
    z = lax.complex(x, x) * (1 + 2j)
    bits = lax.bitcast_convert_type(x, jnp.uint32) >> jnp.uint32(3)
    nibbles = x.astype(jnp.int4).astype(i32)
    return half, f8, z, bits, nibbles, x.astype(jnp.float64) + 0.1, lax.reduce_precision(x, 5, 10)


def small_types(x):
    fours = x.astype(jnp.float4_e2m1fn) + jnp.array([0.5, -1.5, 3, 6], jnp.float4_e2m1fn)
    signed = x.astype(jnp.int2) + jnp.array([-2, -1, 0, 1], jnp.int2)
    unsigned = x.astype(jnp.uint2) + jnp.array([3, 2, 1, 0], jnp.uint2)
    eights = x.astype(jnp.float8_e3m4) + jnp.array([0.5, -1.5, 3, 15.5], jnp.float8_e3m4)
    return fours, signed, unsigned, eights, x.astype(jnp.float8_e8m0fnu).astype(f32)


def precision(x):
    return jnp.dot(x, x, precision=lax.Precision.HIGHEST), lax.dot(x, x, precision="BF16_BF16_F32_X3")


def empty(x):
    return jnp.zeros((0, 3), f32), x[:0], jnp.concatenate([x, x], 0)[::-1]


mesh = Mesh(np.array(jax.devices("cpu")).reshape(2, 2), ("x", "y"))


@jax.jit
def collectives(a):
    def body(a):
        gathered = lax.all_gather(a, "y")
        moved = lax.ppermute(a, "x", [(0, 1), (1, 0)])
        scattered = lax.psum_scatter(gathered, "y")
        return lax.psum(a, "x") + moved + scattered + lax.axis_index("x")

    return jax.shard_map(body, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))(a)


def eigenvalues(x):
    """Calls of LAPACK with Shardy's rules."""
    return jnp.linalg.eigvals(x), jax.scipy.linalg.schur(x[0])


@jax.jit
def constrained(x, y):
    """Types of the builtin dialect, which operations of Shardy have."""
    mesh = Mesh(np.array(jax.devices()[:4]), ("i",))
    rows = jax.sharding.NamedSharding(mesh, P("i"))
    x, y = lax.with_sharding_constraint(x, rows), lax.with_sharding_constraint(y, rows)
    z = lax.with_sharding_constraint((x.astype(f32) + y.astype(f32)).astype(jnp.bfloat16), rows)
    return z, x


def write(f, *args, platform="tpu"):
    checks = [export.DisabledSafetyCheck.custom_call(f"lapack_{name}_ffi") for name in ("sgeev", "sgees")]
    exported = export.export(f if hasattr(f, "lower") else jax.jit(f), platforms=[platform], disabled_checks=checks)(*args)
    name = exported.fun_name
    open(f"{name}.mlirbc", "wb").write(exported.mlir_module_serialized)
    open(f"{name}.mlir", "w").write(exported.mlir_module())


write(network, shape(4, 8), shape(8, 16), shape(16))
write(gradient, shape(4, 8), shape(8, 3))
write(loops, shape(3, 5))
write(choose, shape(dtype=i32), shape(4))
write(random, shape(2, dtype=jnp.uint32))
write(grouped, shape(12, 6), shape(3, 6, 5), shape(3, dtype=i32))
write(convolution, shape(2, 9, 8, 4), shape(3, 2, 2, 6))
write(indexing, shape(4, 6), shape(4, dtype=i32))
write(sorting, shape(10))
write(linear_algebra, shape(4, 4), shape(4, 6))
write(constants, shape(5, 8))
write(types, shape(3, 4))
write(small_types, shape(3, 4))
write(precision, shape(4, 4))
write(empty, shape(2, 3))
write(collectives, shape(4, 4))
write(eigenvalues, shape(2, 3, 3), platform="cpu")
write(constrained, shape(8, 4, dtype=jnp.float8_e4m3fn), shape(8, 4, dtype=jnp.float8_e5m2))
