"""Writes the kernels of this folder: what JAX lowers for a TPU, with inputs and the answers of JAX's interpreter.

    python tests/pallas/make.py        # from the repository's root; needs jax 0.10 and numpy
"""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax._src.pallas.mosaic import tpu_info
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

# Kernels that ask for the chip get one.
tpu_info.registry["cpu"] = lambda: tpu_info.get_tpu_info_for_chip(tpu_info.ChipVersion.TPU_V5E, 1)
# Places in the files begin at the repository's root.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/(?=tests/)")
rng = np.random.default_rng(17)
# Types that NumPy lacks, as the files name them.
TYPES = {"bfloat16": (":bf16", np.uint16), "float8_e4m3fn": (":f8e4m3fn", np.uint8), "int4": (":s4", np.int8)}
F = jnp.float32


def f32(*s):
    return rng.integers(-64, 64, s).astype(np.float32) / 16


def out(s, t=F):
    return jax.ShapeDtypeStruct(s, t)


def case(name, kernel, ins, outs, interpret=pltpu.InterpretParams(), **kw):
    write(name, lambda **how: jax.jit(pl.pallas_call(kernel, out_shape=outs, **kw, **how)), ins, interpret)


def write(name, call, ins, interpret=pltpu.InterpretParams()):
    text = call().trace(*ins).lower(lowering_platforms=("tpu",)).as_text()
    answers, arrays = jax.tree.leaves(call(interpret=interpret)(*ins)), {}
    with open(f"tests/pallas/{name}.mlir", "w") as f:
        f.write(text)
    for kind, all in (("arg", ins), ("out", answers)):
        for i, a in enumerate(all):
            a = np.asarray(a)
            suffix, bits = TYPES.get(a.dtype.name, ("", None))
            arrays[f"{kind}{i}{suffix}"] = a.view(bits) if bits else a
    np.savez_compressed(f"tests/pallas/{name}.npz", **arrays)


def rows(n, m, by):
    return pl.BlockSpec((n, m), by)


def ragged(x, o):
    o[...] = jnp.tanh(x[...]) * 2


case("ragged", ragged, [f32(40, 150)], out((40, 150)), grid=(3, 2),
     in_specs=[rows(16, 128, lambda i, j: (i, j))], out_specs=rows(16, 128, lambda i, j: (i, j)))


def softmax(x, o):
    o[...] = jax.nn.softmax(x[...], axis=-1)


case("softmax", softmax, [f32(48, 256)], out((48, 256)), grid=(3,),
     in_specs=[rows(16, 256, lambda i: (i, 0))], out_specs=rows(16, 256, lambda i: (i, 0)))


def running_sum(x, o):
    def body(i, c):
        c = c + x[pl.ds(i, 1), :]
        o[pl.ds(i, 1), :] = c
        return c

    jax.lax.fori_loop(0, 16, body, jnp.zeros((1, 128), F))


case("running_sum", running_sum, [f32(16, 128)], out((16, 128)))


def gathered(index, x, o):
    o[...] = x[...] + 1


case("gathered", gathered, [np.array([2, 0, 3, 1], np.int32), f32(32, 128)], out((32, 128)),
     grid_spec=pltpu.PrefetchScalarGridSpec(
         num_scalar_prefetch=1, grid=(4,), in_specs=[rows(8, 128, lambda i, p: (p[i], 0))],
         out_specs=rows(8, 128, lambda i, p: (i, 0))))


def copied(x, o):
    def inner(t, s):
        c = pltpu.make_async_copy(x.at[pl.ds(8, 16)], t, s)
        c.start()
        c.wait()
        o[...] = t[...] * 2

    pl.run_scoped(inner, pltpu.VMEM((16, 128), F), pltpu.SemaphoreType.DMA)


case("copied", copied, [f32(32, 128)], out((16, 128)), in_specs=[pl.BlockSpec(memory_space=pl.ANY)])


def turned(x, o):
    o[...] = x[...].T + pltpu.roll(x[...], 5, 0)


case("turned", turned, [f32(128, 128)], out((128, 128)))


def summed(x, o):
    o[...] = jnp.sum(x[...], axis=2)


case("summed", summed, [f32(8, 16, 128)], out((8, 16)))


def product(x, y, o, acc):
    @pl.when(pl.program_id(2) == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(x[...], y[...], preferred_element_type=F)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o[...] = jax.nn.relu(acc[...]).astype(o.dtype)


B = jnp.bfloat16
case("product", product, [f32(32, 256).astype(B), f32(256, 128).astype(B)], out((32, 128), B), grid=(2, 1, 2),
     in_specs=[rows(16, 128, lambda i, j, k: (i, k)), rows(128, 128, lambda i, j, k: (k, j))],
     out_specs=rows(16, 128, lambda i, j, k: (i, j)), scratch_shapes=[pltpu.VMEM((16, 128), F)])


def halved(n, x, o):
    o[...] = jax.lax.while_loop(lambda s: s[0] < n[0], lambda s: (s[0] + 1, s[1] * 0.5), (0, x[...]))[1]


case("halved", halved, [np.array([3], np.int32), f32(8, 128)], out((8, 128)),
     in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()])


def chosen(x, i, j, a, b):
    a[...] = jnp.take_along_axis(x[...], i[...], axis=1)
    b[...] = jnp.take_along_axis(x[...], j[...], axis=0)


case("chosen", chosen, [f32(8, 128), rng.integers(0, 128, (8, 128)).astype(np.int32),
                        rng.integers(0, 8, (8, 128)).astype(np.int32)], (out((8, 128)), out((8, 128))))


def eights(x, a, b):
    a[...] = x[...].astype(F) * 2
    b[...] = (x[...].astype(F) + 1).astype(jnp.float8_e4m3fn)


case("eights", eights, [f32(32, 128).astype(ml_dtypes.float8_e4m3fn)],
     (out((32, 128)), out((32, 128), jnp.float8_e4m3fn)))


def no_numbers(x, o):
    v = x[...]
    o[...] = jnp.where(jnp.isnan(v), 1.0, jnp.where(jnp.isfinite(v), jax.nn.softplus(v), 2.0))


odd = f32(16, 128)
odd[0, :3] = [np.nan, np.inf, -np.inf]
case("no_numbers", no_numbers, [odd], out((16, 128)))

SCALARS = pl.BlockSpec(memory_space=pltpu.SMEM)


def narrow_scalars(s, t, x, o):
    o[...] = x[...] * s[1].astype(F) + t[3].astype(F)


case("narrow_scalars", narrow_scalars,
     [rng.integers(-50, 50, 6).astype(np.int8), f32(4).astype(ml_dtypes.bfloat16), f32(8, 128)], out((8, 128)),
     in_specs=[SCALARS, SCALARS, pl.BlockSpec()])


def signalled(x, o, sem):
    pl.semaphore_signal(sem, 2)
    pl.semaphore_wait(sem, 1)
    o[...] = x[...] * 2
    pl.semaphore_wait(sem, 1)


case("signalled", signalled, [f32(8, 128)], out((8, 128)), scratch_shapes=[pltpu.SemaphoreType.REGULAR])


def pipelined(x, o):
    def body(a, b):
        b[...] = a[...] * 3

    pltpu.emit_pipeline(body, grid=(4,), in_specs=[rows(8, 128, lambda i: (3 - i, 0))],
                        out_specs=[rows(8, 128, lambda i: (i, 0))])(x, o)


ANYWHERE = pl.BlockSpec(memory_space=pl.ANY)
case("pipelined", pipelined, [f32(32, 128)], out((32, 128)), in_specs=[ANYWHERE], out_specs=ANYWHERE)


def masked(x, o):
    o[...] = jnp.full(o.shape, 7, F)
    pltpu.store(o, x[...], mask=jax.lax.broadcasted_iota(jnp.int32, (24, 256), 0) % 3 == 0)


case("masked", masked, [f32(24, 256)], out((24, 256)))


def bad(name, kernel, ins, outs, folder="bad", **kw):
    """A kernel that is at fault, or one whose answers are its own."""
    text = jax.jit(pl.pallas_call(kernel, out_shape=outs, **kw)).trace(*ins).lower(lowering_platforms=("tpu",)).as_text()
    with open(f"tests/pallas/{folder}/{name}.mlir", "w") as f:
        f.write(text)


def never_signalled(x, o, sem):
    o[...] = x[...]
    pl.semaphore_wait(sem, 1)


bad("never_signalled", never_signalled, [f32(8, 128)], out((8, 128)), scratch_shapes=[pltpu.SemaphoreType.REGULAR])


def too_early(x, o, t, sem):
    copy = pltpu.make_async_copy(x, t, sem)
    copy.start()
    o[...] = t[...] * 2
    copy.wait()


bad("too_early", too_early, [f32(8, 128)], out((8, 128)), in_specs=[ANYWHERE],
    scratch_shapes=[pltpu.VMEM((8, 128), F), pltpu.SemaphoreType.DMA])


def too_large(x, o, t):
    t[0:8] = x[...]
    o[...] = t[0:8]


bad("too_large", too_large, [f32(8, 128)], out((8, 128)), scratch_shapes=[pltpu.VMEM((1 << 20, 128), F)])


def beyond(x, o):
    o[...] = x[...]


bad("beyond", beyond, [f32(32, 128)], out((32, 128)), grid=(4,), in_specs=[rows(8, 128, lambda i: (i + 2, 0))],
    out_specs=rows(8, 128, lambda i: (i, 0)))


def rolled(x, a, b):
    a[...] = pltpu.roll(x[...], 3, 1, stride=2, stride_axis=0)
    b[...] = pltpu.roll(x[...], 5, 0)


case("rolled", rolled, [f32(16, 256)], (out((16, 256)), out((16, 256))))


def drawn(seed, a, b):
    pltpu.prng_seed(seed[0])
    a[...] = pltpu.prng_random_bits((8, 128)).astype(jnp.int32)
    b[...] = pltpu.prng_random_bits((8, 128)).astype(jnp.int32)


bad("drawn", drawn, [np.array([5], np.int32)], (out((8, 128), jnp.int32),) * 2, folder="free", in_specs=[SCALARS])


def streamed(q, k, v, o, m, l):
    s = jax.lax.dot_general(q[...], k[...], (((1,), (1,)), ((), ())), preferred_element_type=F) * 0.125
    before = m[...]
    most = jnp.maximum(before, jnp.max(s, axis=1, keepdims=True))
    p = jnp.exp(s - most[:, :1])
    total = jnp.exp(before - most) * l[...] + jnp.sum(p, axis=1, keepdims=True)
    l[...] = total
    m[...] = most
    o[...] = jnp.dot(p.astype(v.dtype), v[...], preferred_element_type=F) / total[:, :1]


def streaming(n, kv):
    def kernel(q, k, v, o, m, l):
        m[...] = jnp.full_like(m, -1e30)
        l[...] = jnp.zeros_like(l)
        streamed(q, k, v, o, m, l)

    bf16 = [(f32(*s) / 4).astype(ml_dtypes.bfloat16) for s in ((n, 128), (kv, 128), (kv, 128))]
    case(f"streamed_{n}_{kv}", kernel, bf16, out((n, 128)),
         scratch_shapes=[pltpu.VMEM((n, 128), F), pltpu.VMEM((n, 128), F)])


# Rows fewer and more than are on their way through the arrays; units all in use, or one left over.
streaming(256, 512)
streaming(512, 384)


def printed(x, o):
    i = pl.program_id(0)
    pl.debug_print("step {} of {}", i, pl.num_programs(0))
    pl.debug_print("largest", jnp.max(x[...]))
    pl.debug_print("row {}", x[0:1, 0:128])
    o[...] = x[...] * 2


bad("printed", printed, [f32(16, 128)], out((16, 128)), folder="free", grid=(2,),
    in_specs=[rows(8, 128, lambda i: (i, 0))], out_specs=rows(8, 128, lambda i: (i, 0)))


def unchecked(x, o):
    pl.debug_check(jnp.max(x[...]) > 1e6, "numbers are too small")
    o[...] = x[...]


with pl.enable_debug_checks():
    bad("unchecked", unchecked, [f32(8, 128)], out((8, 128)))


def unaligned(n, x, o, t, sem):
    copy = pltpu.make_async_copy(x.at[:, pl.ds(n[0], 128)], t, sem)
    copy.start()
    copy.wait()
    o[...] = t[...]


bad("unaligned", unaligned, [np.array([5], np.int32), f32(8, 256)], out((8, 128)), in_specs=[SCALARS, ANYWHERE],
    scratch_shapes=[pltpu.VMEM((8, 128), F), pltpu.SemaphoreType.DMA])


def narrow_stores(x, o, s):
    for i in range(4):
        s[i] = x[0, i].astype(jnp.float16)
    s[1] = s[0] + s[3]
    for i in range(4):
        o[i] = s[i].astype(F)


case("narrow_stores", narrow_stores, [f32(8, 128)], out((4,)), out_specs=SCALARS,
     scratch_shapes=[pltpu.SMEM((4,), jnp.float16)])


def read(x, o, sem):
    pl.semaphore_signal(sem, 3)
    o[0] = pl.semaphore_read(sem)
    pl.semaphore_wait(sem, 2)
    o[1] = pl.semaphore_read(sem)
    pl.semaphore_wait(sem, 1)
    o[2] = x[0]


bad("read", read, [np.array([7], np.int32)], out((3,), jnp.int32), folder="free", in_specs=[SCALARS], out_specs=SCALARS,
    scratch_shapes=[pltpu.SemaphoreType.REGULAR])


def cut(x, a, b, c):
    a[...] = x[...].reshape(10, 120)
    b[...] = x[...].reshape(2, 5, 4, 30)
    c[...] = x[...].astype(jnp.bfloat16).reshape(3, 400)


case("cut", cut, [f32(8, 150)], (out((10, 120)), out((2, 5, 4, 30)), out((3, 400), jnp.bfloat16)))


def halo(x, o):
    v = x[...]
    row = pl.program_id(0) * 64 - 8 + jax.lax.broadcasted_iota(jnp.int32, v.shape, 0)
    v = jnp.where((row >= 0) & (row < 256), v, 0.0)
    o[...] = v[7:71] + v[9:73] - 2 * v[8:72]


# What lies in the padding is nobody's: the interpreter that knows of it has it as NaN, and the kernel does not look.
case("halo", halo, [f32(256, 128)], out((256, 128)), grid=(4,), interpret=True,
     in_specs=[pl.BlockSpec((pl.Element(80, (8, 8)), pl.Element(128)), lambda i: (i * 64, 0))],
     out_specs=rows(64, 128, lambda i: (i, 0)))


def scalar_blocks(x, s, o, t):
    o[...] = x[...] * s[0, 0, 1]
    t[0, 0, 0] = jnp.sum(x[...])
    t[0, 0, 1] = jnp.max(x[...]) + s[0, 0, 0]


in_scalars = pl.BlockSpec((1, 1, 2), lambda i: (i, 0, 0), memory_space=pltpu.SMEM)
case("scalar_blocks", scalar_blocks, [f32(64, 128), f32(4, 1, 2)], (out((64, 128)), out((4, 1, 2))), grid=(4,),
     in_specs=[rows(16, 128, lambda i: (i, 0)), in_scalars],
     out_specs=(rows(16, 128, lambda i: (i, 0)), in_scalars))


def packed(x, y, z, p, q, r, s):
    both = pltpu.pack_elementwise([x[...], y[...]], packed_dtype=jnp.bfloat16)
    p[...] = both
    q[...] = pltpu.unpack_elementwise(both, index=1, packed_dtype=jnp.bfloat16, unpacked_dtype=F)
    r[...] = pltpu.unpack_elementwise(z[...], index=2, packed_dtype=jnp.int8, unpacked_dtype=jnp.int32)
    s[...] = pltpu.pack_elementwise([z[...] + i for i in range(4)], packed_dtype=jnp.int8)


def packing(interpret=None):
    """The kernel, or what it means: the interpreter has no such operations."""
    words = (out((8, 128), jnp.uint32), out((8, 128)), out((8, 128), jnp.int32), out((8, 128), jnp.uint32))
    if interpret is None:
        return jax.jit(pl.pallas_call(packed, out_shape=words))

    def meaning(x, y, z):
        x, y = (a.astype(ml_dtypes.bfloat16) for a in (x, y))
        low, high = (a.view(np.uint16).astype(np.uint32) for a in (x, y))
        bytes_of = [(z + np.int32(i)).view(np.uint32) & 0xFF for i in range(4)]
        return (low | high << 16, y.astype(np.float32), (z >> 16).astype(np.int8).astype(np.int32),
                sum(b << 8 * i for i, b in enumerate(bytes_of)).astype(np.uint32))

    return meaning


write("packed", packing,
      [f32(8, 128), f32(8, 128), rng.integers(-(1 << 31), 1 << 31, (8, 128)).astype(np.int32)])


def gathered_rows(numbers, x, o, sem):
    def one(i, _):
        copy = pltpu.make_async_copy(x.at[pl.ds(numbers[i], 1)], o.at[pl.ds(i, 1)], sem)
        copy.start()
        copy.wait()
        return 0

    jax.lax.fori_loop(0, 16, one, 0)


case("gathered_rows", gathered_rows, [rng.integers(0, 64, 16).astype(np.int32), f32(64, 256)], out((16, 256)),
     grid_spec=pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(1,), in_specs=[ANYWHERE], out_specs=ANYWHERE,
                                            scratch_shapes=[pltpu.SemaphoreType.DMA]))


def open_grid(x, o):
    o[...] = x[...] * 2 + pl.program_id(0).astype(F)


def some_steps(**how):
    def call(n, x):
        return pl.pallas_call(open_grid, out_shape=out((64, 128)), grid=(n[0], 2), input_output_aliases={0: 0},
                              in_specs=[rows(16, 64 * 2, lambda i, j: (i, 0))],
                              out_specs=rows(16, 64 * 2, lambda i, j: (i, 0)), **how)(x)

    return jax.jit(call)


write("open_grid", some_steps, [np.array([3], np.int32), f32(64, 128)])


def copied_out(x, o):
    pltpu.sync_copy(x, o)


case("copied_out", copied_out, [f32(8, 128)], out((8, 128)),
     in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)], out_specs=ANYWHERE)


def shared_out(x, y, old, o, sums):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        sums[...] = jnp.zeros_like(sums)

    sums[...] += jnp.dot(x[...], y[...], preferred_element_type=F)

    @pl.when(step == 1)
    def _():
        o[...] = sums[...] + old[...] + pl.program_id(0) * 10


case("shared_out", shared_out, [f32(64, 256), f32(256, 384), f32(64, 384)], out((64, 384)), grid=(1, 3, 2),
     in_specs=[rows(64, 128, lambda i, j, k: (0, k)), rows(128, 128, lambda i, j, k: (k, j)), rows(64, 128, lambda i, j, k: (0, j))],
     out_specs=rows(64, 128, lambda i, j, k: (0, j)), scratch_shapes=[pltpu.VMEM((64, 128), F)], input_output_aliases={2: 0},
     compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary")))


def begun(x, same, o, sem, counted):
    pltpu.make_async_copy(x.at[pl.ds(0, 8)], o.at[pl.ds(8, 8)], sem).start()
    pltpu.make_async_copy(x.at[pl.ds(8, 8)], o.at[pl.ds(0, 8)], sem).start()
    pl.semaphore_signal(counted, 3)
    pl.semaphore_wait(counted, 1)


def ended(x, o, sem, counted, same, left):
    pltpu.make_async_copy(x, o, sem).wait()
    left[0] = pl.semaphore_read(counted)
    pl.semaphore_wait(counted, 2)


def handed_on(interpret=None):
    """What one kernel begins ends in the next turn of a loop; the interpreter has no semaphores between kernels."""
    if interpret is not None:
        return lambda x: (np.roll(x, 8, 0) * 8, np.full(1, 2, np.int32))
    semaphores, semaphore = (pltpu.SemaphoreType.DMA(()), pltpu.SemaphoreType.REGULAR(())), pl.BlockSpec(memory_space=pltpu.SEMAPHORE)

    def begin(x):
        return pl.pallas_call(begun, out_shape=(out((16, 128)), out((16, 128)), *semaphores), in_specs=[ANYWHERE],
                              out_specs=(ANYWHERE, ANYWHERE, semaphore, semaphore), input_output_aliases={0: 0})(x)

    def end(x, o, sem, counted):
        return pl.pallas_call(ended, out_shape=(out((16, 128)), out((1,), jnp.int32)),
                              in_specs=[ANYWHERE, ANYWHERE, semaphore, semaphore],
                              out_specs=(ANYWHERE, pl.BlockSpec(memory_space=pltpu.SMEM)), input_output_aliases={1: 0})(x, o, sem, counted)

    def run(x):
        return end(*jax.lax.fori_loop(0, 2, lambda i, c: begin(end(*c)[0] * 2), begin(x * 2)))

    return jax.jit(run)


write("handed_on", handed_on, [f32(16, 128)])


def revisited(x, o):
    @pl.when(pl.program_id(0) == 0)
    def _():
        o[...] = jnp.zeros_like(o)

    o[...] += x[...]


case("revisited", revisited, [f32(32, 200)], out((8, 200)), interpret=True, grid=(4, 2), in_specs=[rows(8, 128, lambda i, j: (i, j))],
     out_specs=pl.BlockSpec((8, 128), lambda i, j: (0, j), pipeline_mode=pl.Buffered(1, revisit=pl.RevisitMode.ANY)))


def narrow_rows(a, c, d, x, o, p, q):
    # Elements behind the first registers of lanes; types of half a byte.
    o[0, 0] = a[257].astype(jnp.int32)
    o[0, 1] = a[640 + a[1010].astype(jnp.int32)].astype(jnp.int32)
    o[0, 2] = c[597].astype(jnp.int32)
    o[0, 3] = c[1025].astype(jnp.int32)
    q[...] = jnp.broadcast_to(d[131], q.shape)
    small = x[...].astype(jnp.int4)
    p[...] = small.astype(jnp.int32)


case("narrow_rows", narrow_rows, [np.arange(-1000, 1048, dtype=np.int16) * 3, np.arange(2048, dtype=np.int16).astype(np.int8),
                                  np.arange(512).astype(ml_dtypes.bfloat16), rng.integers(-100, 100, (16, 128)).astype(np.int8)],
     (out((1, 4), jnp.int32), out((16, 128), jnp.int32), out((16, 128), jnp.bfloat16)),
     in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)] * 3 + [pl.BlockSpec(memory_space=pltpu.VMEM)],
     out_specs=(pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM), pl.BlockSpec(memory_space=pltpu.VMEM)))


def few_rows(x, y, bias, o):
    """Windows of fewer rows than a register has, and of one dimension: their places lie beside each other."""

    def body(x, y, bias, o):
        o[...] = (x[...] + y[...] + bias[...][None, :]).astype(o.dtype)

    two = pl.BlockSpec((2, 256), lambda i, j: (i, j))
    pltpu.emit_pipeline(body, grid=(12, 2), in_specs=(two, two, pl.BlockSpec((256,), lambda i, j: (j,))), out_specs=two)(x, y, bias, o)


case("few_rows", few_rows, [f32(24, 512), f32(24, 512), f32(512)], out((24, 512)), in_specs=[ANYWHERE] * 3, out_specs=ANYWHERE)


def in_parts(x, o, t, sem):
    """Rows arrive in parts while those before them are read."""
    parts = ((0, 3), (3, 10), (13, 5), (18, 6))

    def copy(i):
        first, count = parts[i]
        return pltpu.make_async_copy(x.at[pl.ds(first, count)], t.at[pl.ds(first, count)], sem.at[i % 2])

    copy(0).start()
    for i, (first, count) in enumerate(parts):
        if i + 1 < len(parts):
            copy(i + 1).start()
        copy(i).wait()
        o[pl.ds(first, count)] = t[pl.ds(first, count)] * 2


case("in_parts", in_parts, [f32(24, 300)], out((24, 300)), in_specs=[ANYWHERE],
     scratch_shapes=[pltpu.VMEM((24, 300), F), pltpu.SemaphoreType.DMA((2,))])


def rolled_unevenly(by, x, o, p):
    o[...] = pltpu.roll(x[...], 40, 1)
    p[...] = pltpu.roll(x[...], by[0], 1)


case("rolled_unevenly", rolled_unevenly, [np.array([333], np.int32), f32(16, 400)], (out((16, 400)), out((16, 400))),
     in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)])


def halves(x, y, o, p, q):
    o[...] = pltpu.bitcast(x[...], jnp.int4).astype(jnp.int32)
    p[...] = pltpu.bitcast(x[...].astype(jnp.int4), jnp.int32)
    q[...] = pltpu.bitcast(y[...], jnp.int4).astype(jnp.int32)


case("halves", halves, [rng.integers(-128, 128, (32, 256)).astype(np.int8), rng.integers(-2**31, 2**31, (8, 256)).astype(np.int32)],
     (out((64, 256), jnp.int32), out((4, 256), jnp.int32), out((64, 256), jnp.int32)))


def open_copies(sizes, x, y, o, p, t, sem):
    def move(a, b):
        copy = pltpu.make_async_copy(a, b, sem)
        copy.start()
        copy.wait()

    t[...] = jnp.zeros_like(t)
    move(x.at[pl.ds(sizes[0], sizes[1])], t.at[pl.ds(0, sizes[1])])
    o[...] = t[...] + 1
    move(t.at[pl.ds(0, sizes[1])], p.at[pl.ds(sizes[2], sizes[1])])


case("open_copies", open_copies, [np.array([5, 21, 8], np.int32), f32(64, 200), f32(40, 200)], (out((32, 200)), out((40, 200))),
     in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), ANYWHERE, ANYWHERE], out_specs=(pl.BlockSpec(memory_space=pltpu.VMEM), ANYWHERE),
     scratch_shapes=[pltpu.VMEM((32, 200), F), pltpu.SemaphoreType.DMA], input_output_aliases={2: 1})


def several(x, y, v, o, p, q):
    o[...] = jnp.einsum("amk,kn->amn", x[...], y[0], preferred_element_type=F)
    p[...] = jnp.einsum("amk,akn->amn", x[...], y[...], preferred_element_type=F)
    q[...] = jnp.dot(x[0], v[...], preferred_element_type=F)


case("several", several, [f32(2, 16, 128), f32(2, 128, 128), f32(128)], (out((2, 16, 128)), out((2, 16, 128)), out((16,))))


def at_random(interpret=None):
    """Without random bits floats are rounded towards zero, with all of them away from it."""

    def kernel(x, bits, *outs):
        for o in outs:
            o[...] = pltpu.stochastic_round(x[...], bits[...], target_dtype=o.dtype)

    types = (jnp.bfloat16, jnp.float8_e4m3fn)
    if interpret is None:
        return jax.jit(pl.pallas_call(kernel, out_shape=[out((16, 128), t) for t in types]))

    def answer(x, bits):
        x = np.asarray(x, np.float64)
        all = []
        for t, fraction, least in ((types[0], 7, -126), (types[1], 3, -6)):
            step = 2.0 ** (np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 1e-30))), least) - fraction)
            up = np.asarray(bits) != 0
            size = np.where(up, np.ceil(np.abs(x) / step - 2.0**-16), np.floor(np.abs(x) / step)) * step
            all.append((np.sign(x) * size).astype(t))
        return all

    return answer


write("at_random", at_random, [(rng.standard_normal((16, 128)) * 2.0 ** rng.integers(-12, 4, (16, 128))).astype(np.float32),
                               np.repeat(np.array([0, 0xFFFFFFFF], np.uint32), 8)[:, None] + np.zeros((1, 128), np.uint32)])


def rolled_lanes(by, x, y, o, p, q):
    o[...] = pltpu.roll(x[...], 3, 1) + x[...]
    p[...] = pltpu.roll(x[...], by[0], 1)
    q[...] = jnp.where(pltpu.roll(y[...], 127, 2) > y[...], 1, 0)


case("rolled_lanes", rolled_lanes, [np.array([77], np.int32), f32(80, 128), rng.integers(-9, 9, (2, 40, 128)).astype(np.int32)],
     (out((80, 128)), out((80, 128)), out((2, 40, 128), jnp.int32)),
     in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM)] + [pl.BlockSpec(memory_space=pltpu.VMEM)] * 2)


def single_rows(ids, x, y, z, o, p, q, r, buf, sem):
    """Windows and copies of single rows of narrow elements, of which several share a word."""
    i = pl.program_id(0)
    o[...] = (y[...].astype(F) * 2 + x[...].astype(F)).astype(o.dtype)
    p[...] = jnp.max(y[...].astype(F), axis=1, keepdims=True).astype(p.dtype)
    q[...] = x[...] + x[...]
    copy = pltpu.make_async_copy(z.at[ids[i]], buf.at[i % 2], sem)
    copy.start()
    copy.wait()
    copy = pltpu.make_async_copy(buf.at[i % 2], r.at[i], sem)
    copy.start()
    copy.wait()


def single(*size):
    return pl.BlockSpec((1, *size), lambda i, ids: (ids[i], *[0] * len(size)))


B, S, everything = jnp.bfloat16, jnp.int8, pl.BlockSpec(memory_space=pl.ANY)
case("single_rows", single_rows,
     [np.array([4, 1, 1, 5, 0, 2], np.int32), f32(6, 1, 256).astype(B), f32(6, 8, 256).astype(S), f32(6, 1, 100).astype(B)],
     [out((6, 8, 256), S), out((6, 1, 256), S), out((6, 1, 256), B), out((6, 1, 100), B)],
     grid_spec=pltpu.PrefetchScalarGridSpec(
         num_scalar_prefetch=1, grid=(6,), in_specs=[single(1, 256), pl.BlockSpec((1, 8, 256), lambda i, ids: (i, 0, 0)), everything],
         out_specs=[pl.BlockSpec((1, 8, 256), lambda i, ids: (i, 0, 0)), pl.BlockSpec((1, 1, 256), lambda i, ids: (i, 0, 0)),
                    pl.BlockSpec((1, 1, 256), lambda i, ids: (i, 0, 0)), everything],
         scratch_shapes=[pltpu.VMEM((2, 1, 100), B), pltpu.SemaphoreType.DMA]))


def unsigned(x, y, o, p, q):
    """Arrays without signs, of words and of bytes, beside the same bits with one."""
    o[...] = jnp.where(x[...] > y[...], x[...] // y[...], x[...] % y[...] ^ (x[...] >> 3))
    p[...] = pltpu.bitcast(x[...], jnp.int32) // 3
    narrow = (x[...] & 255).astype(jnp.uint8)
    q[...] = jnp.maximum(narrow * narrow, narrow)


words = rng.integers(0, 2**32, (32, 128)).astype(np.uint32)
case("unsigned", unsigned, [words, words[::-1] >> 20 | 1],
     [out((32, 128), jnp.uint32), out((32, 128), jnp.int32), out((32, 128), jnp.uint8)])


def with_vector(x, y, o):
    o[...] = jnp.dot(x[...], y[...])


case("with_vector", with_vector, [rng.standard_normal((40, 200), np.float32), rng.standard_normal(200, np.float32)], out((40,)))


def wide_products(x, y, z, o, p):
    """Products of integers wider than matrix units take; they wrap."""
    o[...] = jnp.dot(x[...], y[...], preferred_element_type=jnp.int32)
    dims = (((1,), (1,)), ((), ()))
    p[...] = jax.lax.dot_general(z[...], x[...].astype(jnp.int16), dims, preferred_element_type=jnp.int32) + 1


integers = lambda s, t: rng.integers(np.iinfo(t).min, np.iinfo(t).max, s, endpoint=True).astype(t)
case("wide_products", wide_products, [integers((40, 200), np.int32), integers((200, 72), np.int32), integers((16, 200), np.int16)],
     [out((40, 72), jnp.int32), out((16, 40), jnp.int32)])


bad("beyond_limit", too_large, [f32(8, 128)], out((8, 128)), scratch_shapes=[pltpu.VMEM((64, 128), F)],
    compiler_params=pltpu.CompilerParams(vmem_limit_bytes=1 << 15))


def seen_as_halves(at, x, y, o, p, q, t, u):
    """Arrays seen with elements of half a byte, and such arrays with wider ones: parts of them, at any row."""
    o[...] = x.bitcast(jnp.int4)[...].astype(jnp.int32)
    p[...] = jnp.full_like(p, 17)
    p.bitcast(jnp.int4)[3:10, :] = y[0:7, :]
    p.bitcast(jnp.int4)[pl.ds(at[0], 8), 128:256] = y[8:16, 128:256]
    q[...] = x.bitcast(jnp.int4)[pl.ds(at[0], 8), :].astype(jnp.int32) + x.bitcast(jnp.int4)[5:13, :].astype(jnp.int32)
    t[...] = y[...]
    u[0] = t.bitcast(jnp.int32)[...]
    u[1] = jnp.zeros((2, 256), jnp.int32)
    u.bitcast(jnp.int8)[1, 2:6] = x[0:4]
    o[8:12, :] = u.at[1].bitcast(jnp.int4)[11:15, :].astype(jnp.int32)


def seen_as_halves_in_numpy(at, x, y):
    """JAX's interpreter does not write through such arrays."""
    apart = lambda b: np.stack([(b << 4) >> 4, b >> 4], 1).reshape(-1, b.shape[1])
    joined = lambda n: (n[0::2] & 15 | n[1::2] << 4).astype(np.int8)
    bytes_of = lambda w: w.view(np.int8).reshape(-1, w.shape[1], 4).swapaxes(1, 2).reshape(-1, w.shape[1])
    y = np.asarray(y).astype(np.int8)
    o, p = apart(x).astype(np.int32), apart(np.full((16, 256), 17, np.int8))
    p[3:10] = y[:7]
    p[at[0] : at[0] + 8, 128:] = y[8:16, 128:]
    q = o[at[0] : at[0] + 8] + o[5:13]
    u = np.zeros((8, 256), np.int8)
    u[2:6] = x[:4]
    o[8:12] = apart(u)[11:15]
    return o, joined(p), q


kernel = pl.pallas_call(
    seen_as_halves, out_shape=(out((32, 256), jnp.int32), out((16, 256), jnp.int8), out((8, 256), jnp.int32)),
    in_specs=[SCALARS, pl.BlockSpec(memory_space=pltpu.VMEM), pl.BlockSpec(memory_space=pltpu.VMEM)],
    scratch_shapes=[pltpu.VMEM((16, 256), jnp.int4), pltpu.VMEM((2, 2, 256), jnp.int32)])
write("seen_as_halves", lambda interpret=None: seen_as_halves_in_numpy if interpret else jax.jit(kernel),
      [np.array([21], np.int32), rng.integers(-128, 128, (16, 256)).astype(np.int8), jnp.array(rng.integers(-8, 8, (16, 256)), jnp.int4)])


def block_beyond(blocks, x, o):
    o[...] = x[...]


table = np.array([0, 1, 9], np.int32)
bad("block_beyond", block_beyond, [table, f32(32, 128)], out((24, 128)), grid_spec=pltpu.PrefetchScalarGridSpec(
    num_scalar_prefetch=1, grid=(3,), in_specs=[rows(8, 128, lambda i, blocks: (blocks[i], 0))], out_specs=rows(8, 128, lambda i, blocks: (i, 0))))
np.savez_compressed("tests/pallas/bad/block_beyond.npz", arg0=table, arg1=f32(32, 128))
