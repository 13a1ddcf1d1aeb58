"""Random Pallas kernels: what the simulated chip computes against JAX's interpreter.

    python tests/pallas/random_kernels.py --systole target/quick/systole --seeds 0:300 [--chip tpu-v5e] [--keep FOLDER]

Every seed is a kernel: shapes, element types, block sizes, grids, loops, reductions, products and copies are drawn from it. Seeds
that differ are printed with what they are; the last line counts. Needs jax 0.10 and numpy.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax._src.pallas.mosaic import tpu_info
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

tpu_info.registry["cpu"] = lambda: tpu_info.get_tpu_info_for_chip(tpu_info.ChipVersion.TPU_V5E, 1)
F, I, B, U = jnp.float32, jnp.int32, jnp.bfloat16, jnp.uint32
TYPES = {"bfloat16": (":bf16", np.uint16)}
S = jax.ShapeDtypeStruct


class Draw:
    """What a seed decides."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.said = []

    def one(self, name, values):
        v = values[int(self.rng.integers(len(values)))]
        self.said.append(f"{name}={getattr(v, '__name__', v)}")
        return v

    def array(self, shape, dtype):
        dtype = np.dtype(dtype)
        if dtype.kind in "iu":
            return self.rng.integers(-40 if dtype.kind == "i" else 0, 40, shape).astype(dtype)
        return (self.rng.integers(-64, 64, shape) / 32).astype(dtype)


UNARY = [jnp.tanh, jnp.exp, jnp.abs, jnp.square, jax.nn.sigmoid, jnp.negative, jnp.floor, lambda x: jnp.sqrt(jnp.abs(x)),
         lambda x: jnp.where(x > 0.5, x, 0.25), lambda x: jnp.clip(x, -1, 1), lambda x: jnp.log1p(jnp.abs(x))]
WHOLE = [jnp.abs, jnp.negative, lambda x: x << 2, lambda x: x >> 1, lambda x: x & 13, lambda x: jnp.where(x % 3 == 0, x, -x),
         lambda x: jnp.maximum(x, 5), lambda x: x * x - 7]
# Numbers of which the highest bit is one of many: as signed ones they would be negative.
COUNTS = [lambda x: x // 3, lambda x: x >> 3, lambda x: x % 7, lambda x: ~x, lambda x: x << 1, lambda x: jnp.maximum(x, 9),
          lambda x: jnp.where(x > 20, x - 20, x), lambda x: x * 5 + 1, lambda x: x ^ 85]
BINARY = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum]


def chain(d, t, depth):
    """A function of element operations."""
    ops = [d.one("op", range(len(WHOLE if t == I else UNARY))) for _ in range(depth)]
    table = WHOLE if t == I else UNARY

    def f(x):
        y = x.astype(F) if t == B else x
        for k in ops:
            y = table[k](y)
        return y.astype(x.dtype)

    return f


def put(o, value, sums):
    """Stores what `value` gives; with `sums`, steps of a grid add it to what the ones before left."""
    if not sums:
        o[...] = value()
        return

    @pl.when(pl.program_id(0) == 0)
    def _():
        o[...] = jnp.zeros_like(o)

    o[...] += value()


def elementwise(d):
    """Blocks of one or two arrays, whole or ragged at the edges."""
    t = d.one("type", [F, I, B])
    by = (d.one("rows", [16, 32, 64]), d.one("columns", [128, 256]))
    grid = (d.one("down", [1, 2, 3]), d.one("across", [1, 2]))
    less = (d.one("fewer rows", [0, 0, 8, 5]), d.one("fewer columns", [0, 0, 28]))
    shape = tuple(g * n - k for g, n, k in zip(grid, by, less))
    f, two = chain(d, t, d.one("depth", [1, 2, 4])), d.one("arrays", [1, 2])
    combine = d.one("binary", BINARY)
    turned = d.one("order", [False, True]) and not any(less)

    def kernel(*refs):
        y = f(refs[0][...])
        refs[-1][...] = combine(y, refs[1][...]) if two == 2 else y

    spec = pl.BlockSpec(by, lambda i, j: (i, j))
    out = pl.BlockSpec(by, (lambda i, j: (grid[0] - 1 - i, j)) if turned else (lambda i, j: (i, j)))
    return kernel, [d.array(shape, t) for _ in range(two)], S(shape, t), dict(grid=grid, in_specs=[spec] * two, out_specs=out)


def reduction(d):
    """Along rows or columns, of something computed; the result spread again or not."""
    t = d.one("type", [F, F, I])
    shape = (d.one("rows", [8, 24, 96, 256]), d.one("columns", [128, 384, 200, 1152]))
    axis, f = d.one("axis", [0, 1]), chain(d, t, d.one("depth", [0, 1, 2]))
    how = d.one("how", [jnp.sum, jnp.max, jnp.min])
    use = d.one("use", ["alone", "spread", "normal"])

    def kernel(x, o):
        y = f(x[...])
        r = how(y, axis=axis, keepdims=True)
        if use == "alone":
            o[...] = r
        elif use == "spread":
            o[...] = y - r
        else:
            z = y - jnp.max(y, axis=axis, keepdims=True)
            o[...] = z + jnp.sum(z * z, axis=axis, keepdims=True) * r

    kept = tuple(1 if k == axis else n for k, n in enumerate(shape))
    return kernel, [d.array(shape, t)], S(kept if use == "alone" else shape, t), {}


def product(d):
    """A grid over rows, columns and what is summed, with sums in scratch memory or in the result."""
    t = d.one("type", [F, B])
    m, n, k = (d.one("rows", [16, 64, 128]), d.one("columns", [128, 256]), d.one("depth", [128, 256]))
    grid = (d.one("down", [1, 2]), d.one("across", [1, 2]), d.one("steps", [1, 2, 3]))
    turned, end = d.one("turned", [False, True]), d.one("end", [lambda x: x, jax.nn.relu, jnp.tanh])

    def kernel(x, y, o, sums):
        step = pl.program_id(2)

        @pl.when(step == 0)
        def _():
            sums[...] = jnp.zeros_like(sums)

        dims = (((1,), (1 if turned else 0,)), ((), ()))
        sums[...] += jax.lax.dot_general(x[...], y[...], dims, preferred_element_type=F)

        @pl.when(step == grid[2] - 1)
        def _():
            o[...] = end(sums[...]).astype(o.dtype)

    right = pl.BlockSpec((n, k), lambda i, j, s: (j, s)) if turned else pl.BlockSpec((k, n), lambda i, j, s: (s, j))
    deep, wide = k * grid[2], n * grid[1]
    arrays = [d.array((m * grid[0], deep), t), d.array((wide, deep) if turned else (deep, wide), t)]
    return kernel, arrays, S((m * grid[0], wide), t), dict(
        grid=grid, in_specs=[pl.BlockSpec((m, k), lambda i, j, s: (i, s)), right],
        out_specs=pl.BlockSpec((m, n), lambda i, j, s: (i, j)), scratch_shapes=[pltpu.VMEM((m, n), F)])


def attention(d):
    """Two products with row maxima and sums in between, whose rows may stream through the units."""
    t = d.one("type", [F, B])
    n, kv = d.one("rows", [64, 128, 320, 512]), d.one("keys", [128, 256, 384, 512])
    between, stored = d.one("between", ["softmax", "exp", "relu", "two"]), d.one("stored", [False, True])

    def kernel(q, k, v, o, m):
        s = jax.lax.dot_general(q[...], k[...], (((1,), (1,)), ((), ())), preferred_element_type=F) * 0.05
        if between == "relu":
            p, total = jax.nn.relu(s), 1.0
        else:
            most = jnp.max(s, axis=1, keepdims=True)
            p = jnp.exp(s - most) if between != "exp" else jnp.exp(s * 0.1)
            total = jnp.sum(p, axis=1, keepdims=True) if between != "two" else most + 3.0
            if stored:
                m[...] = jnp.broadcast_to(most, m.shape)
                total = total + jnp.exp(m[:, :1] - most)
        o[...] = jnp.dot(p.astype(t), v[...], preferred_element_type=F) / total

    arrays = [d.array((n, 128), t), d.array((kv, 128), t), d.array((kv, 128), t)]
    return kernel, arrays, S((n, 128), F), dict(scratch_shapes=[pltpu.VMEM((n, 128), F)])


def loop(d):
    """A loop that carries a small or a large vector, over slices at places that it counts."""
    t = d.one("type", [F, I])
    by, turns, columns = d.one("rows", [1, 8, 16]), d.one("turns", [3, 4, 7]), d.one("columns", [128, 256])
    f, back, kind = chain(d, t, 1), d.one("backwards", [False, True]), d.one("kind", ["sum", "store", "while"])

    def kernel(x, o):
        def at(i):
            return pl.ds((turns - 1 - i if back else i) * by, by)

        if kind == "sum":
            o[...] = jax.lax.fori_loop(0, turns, lambda i, c: c * 2 + f(x[at(i), :]), jnp.zeros((by, columns), t))
        elif kind == "store":
            def body(i, c):
                c = c + x[at(i), :]
                o[pl.ds(i * by, by), :] = f(c)
                return c

            jax.lax.fori_loop(0, turns, body, jnp.zeros((by, columns), t))
        else:
            def step(c):
                return c[0] + 1, c[1] + x[at(c[0]), :]

            o[...] = jax.lax.while_loop(lambda c: c[0] < turns - 1, step, (0, jnp.zeros((by, columns), t)))[1]

    rows = by * turns if kind == "store" else by
    return kernel, [d.array((by * turns, columns), t)], S((rows, columns), t), {}


def copies(d):
    """Copies by hand: one after the other, or the next while the last is used; slices at places that are counted."""
    t = d.one("type", [F, I, B])
    by, turns, columns = d.one("rows", [16, 32]), d.one("turns", [2, 3, 5]), d.one("columns", [128, 256])
    ahead, f, out = d.one("ahead", [False, True]), chain(d, t, 1), d.one("out", ["window", "copied"])

    def kernel(x, o, buf, res, sems, done):
        def start(i, slot):
            return pltpu.make_async_copy(x.at[pl.ds(i * by, by)], buf.at[slot], sems.at[slot])

        if ahead:
            start(0, 0).start()
        for i in range(turns):
            if ahead and i + 1 < turns:
                start(i + 1, (i + 1) % 2).start()
            elif not ahead:
                start(i, i % 2).start()
            start(i, i % 2).wait()
            y = f(buf[i % 2])
            if out == "window":
                o[pl.ds(i * by, by), :] = y
            else:
                res[...] = y
                c = pltpu.make_async_copy(res, o.at[pl.ds(i * by, by)], done)
                c.start()
                c.wait()

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    shape = (by * turns, columns)
    scratch = [pltpu.VMEM((2, by, columns), t), pltpu.VMEM((by, columns), t), pltpu.SemaphoreType.DMA((2,)), pltpu.SemaphoreType.DMA]
    return kernel, [d.array(shape, t)], S(shape, t), dict(
        in_specs=[anywhere], out_specs=anywhere if out == "copied" else pl.BlockSpec(), scratch_shapes=scratch)


def prefetched(d):
    """Blocks in an order that an operand in scalar memory says."""
    t = d.one("type", [F, I, B])
    by, count, steps = d.one("rows", [16, 32]), d.one("blocks", [3, 4, 6]), d.one("steps", [2, 4, 5])
    f, sums = chain(d, t, 1), d.one("sums", [False, True])

    def kernel(order, x, o):
        put(o, lambda: f(x[...]), sums)

    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(steps,), in_specs=[pl.BlockSpec((by, 128), lambda i, order: (order[i], 0))],
        out_specs=pl.BlockSpec((by, 128), lambda i, order: (0 if sums else i, 0)))
    order = d.rng.integers(0, count, steps).astype(np.int32)
    return kernel, [order, d.array((by * count, 128), t)], S((by if sums else by * steps, 128), t), dict(grid_spec=spec)


def shapes(d):
    """Transposes, concatenations, slices, broadcasts, rolls, numbers along dimensions."""
    t = d.one("type", [F, I])
    n, m = d.one("rows", [8, 16, 40]), d.one("columns", [128, 256])
    what = d.one("what", ["turn", "beside", "below", "slice", "row", "column", "roll", "iota", "fold"])

    def f(x):
        if what == "turn":
            return x.T
        if what in ("beside", "below"):
            return jnp.concatenate([x, x * 2], 1 if what == "beside" else 0)
        if what == "slice":
            return x[3:8, 128 - 64 :] * 3
        if what == "row":
            return x + x[2:3, :]
        if what == "column":
            return x * x[:, 5:6]
        if what == "roll":
            return pltpu.roll(x, 3, 0) + pltpu.roll(x, 17, 1)
        if what == "iota":
            return jnp.where(jax.lax.broadcasted_iota(I, x.shape, 1) <= jax.lax.broadcasted_iota(I, x.shape, 0) * 9, x, 0)
        return x.reshape(n // 8, 8, m).sum(0)

    def kernel(x, o):
        o[...] = f(x[...])

    x = d.array((n, m), t)
    numpy = {"turn": (m, n), "beside": (n, 2 * m), "below": (2 * n, m), "slice": (5, m - 64), "fold": (8, m)}
    return kernel, [x], S(numpy.get(what, (n, m)), t), {}


NARROW = [jnp.int8, jnp.uint8, jnp.int16, jnp.uint16, jnp.float16, B, F, I]


def types(d):
    """Elements of a narrow type, taken into another one, worked on, and written in a third."""
    t, to, wide = d.one("type", NARROW), d.one("to", NARROW), d.one("work", [F, I])
    by, columns, steps = d.one("rows", [32, 64]), d.one("columns", [128, 256, 100]), d.one("steps", [1, 2, 3])
    f = chain(d, wide, d.one("depth", [1, 2]) if wide == I else 1)

    def kernel(x, o):
        y = jnp.clip(f(x[...].astype(wide)), 0, 30)
        # Between two integers, a little error does not matter.
        y = jnp.round(y * 3 + 0.3) if wide == F else y
        o[...] = y.astype(to)

    spec = pl.BlockSpec((by, columns), lambda i: (i, 0))
    shape = (by * steps, columns)
    return kernel, [d.array(shape, t)], S(shape, to), dict(grid=(steps,), in_specs=[spec], out_specs=spec)


def quantised(d):
    """Products of integers, or of weights that are made floats before: scales by row or by column."""
    m, n, k = d.one("rows", [32, 64, 128]), d.one("columns", [128, 256]), d.one("depth", [128, 256, 384])
    how, steps = d.one("how", ["int8", "weights", "rows"]), d.one("steps", [1, 2])

    def kernel(x, w, scale, o):
        if how == "int8":
            r = jnp.dot(x[...], w[...], preferred_element_type=I)
            o[...] = r.astype(F) * scale[...]
        elif how == "weights":
            o[...] = jnp.dot(x[...].astype(F), w[...].astype(F) * scale[...], preferred_element_type=F)
        else:
            y = x[...].astype(F)
            most = jnp.max(jnp.abs(y), axis=1, keepdims=True) + 1
            # Between two integers, a little error does not matter.
            q = jnp.round(y * 8 + 0.3).astype(jnp.int8)
            o[...] = jnp.dot(q, w[...], preferred_element_type=I).astype(F) * (most / 127) * scale[...]

    x = d.array((m * steps, k), jnp.int8 if how != "rows" else F)
    specs = [pl.BlockSpec((m, k), lambda i: (i, 0)), pl.BlockSpec((k, n), lambda i: (0, 0)), pl.BlockSpec((1, n), lambda i: (0, 0))]
    return kernel, [x, d.array((k, n), jnp.int8), d.array((1, n), F)], S((m * steps, n), F), dict(
        grid=(steps,), in_specs=specs, out_specs=pl.BlockSpec((m, n), lambda i: (i, 0)))


def masked(d):
    """Rows of lengths that scalar memory has: softmax, sums or largest of what is there."""
    by, columns, steps = d.one("rows", [8, 16, 32]), d.one("columns", [128, 256, 200]), d.one("steps", [1, 3])
    what, along = d.one("what", ["softmax", "sum", "max", "keep"]), d.one("along", [0, 1])
    skipped = d.one("skipped", [False, True])

    def kernel(lengths, x, o):
        n = lengths[pl.program_id(0)]

        def go():
            y = x[...]
            here = jax.lax.broadcasted_iota(I, y.shape, along) < n
            if what == "keep":
                o[...] = jnp.where(here, y, -1.0)
                return
            y = jnp.where(here, y, -1e30 if what != "sum" else 0.0)
            most = jnp.max(y, axis=along, keepdims=True)
            if what == "softmax":
                p = jnp.exp(y - most)
                o[...] = jnp.where(here, p / jnp.sum(p, axis=along, keepdims=True), 0.0)
            else:
                r = jnp.sum(y, axis=along, keepdims=True) if what == "sum" else most
                o[...] = jnp.broadcast_to(r, y.shape)

        if not skipped:
            return go()
        pl.when(n > 3)(go)

        @pl.when(n <= 3)
        def _():
            o[...] = jnp.zeros_like(o)

    spec = pl.BlockSpec((by, columns), lambda i, n: (i, 0))
    lengths = d.rng.integers(1, (by, columns)[along], steps).astype(np.int32)
    shape = (by * steps, columns)
    return kernel, [lengths, d.array(shape, F)], S(shape, F), dict(grid_spec=pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(steps,), in_specs=[spec], out_specs=spec))


def pipeline(d):
    """Loops over blocks within a kernel: `emit_pipeline`, in a grid or without, with sums in the result or in scratch."""
    t = d.one("type", [F, B])
    by, columns, inner = d.one("rows", [16, 32]), d.one("columns", [128, 256]), d.one("inner", [2, 3, 5])
    outer, how = d.one("outer", [1, 2]), d.one("how", ["map", "sum", "product"])
    f, across = chain(d, t, 1), d.one("across", [1, 2])

    if how == "product":
        n, k = 128, 128

        def kernel(x, y, o, sums):
            def body(x, y, o):
                step = pl.program_id(1)

                @pl.when(step == 0)
                def _():
                    sums[...] = jnp.zeros_like(sums)

                sums[...] += jnp.dot(x[...], y[...], preferred_element_type=F)

                @pl.when(step == inner - 1)
                def _():
                    o[...] = sums[...].astype(o.dtype)

            pltpu.emit_pipeline(body, grid=(outer, inner), in_specs=[
                pl.BlockSpec((by, k), lambda i, j: (i, j)), pl.BlockSpec((k, n), lambda i, j: (j, 0))],
                out_specs=[pl.BlockSpec((by, n), lambda i, j: (i, 0))])(x, y, o)

        anywhere = pl.BlockSpec(memory_space=pl.ANY)
        return kernel, [d.array((by * outer, k * inner), t), d.array((k * inner, n), t)], S((by * outer, n), t), dict(
            in_specs=[anywhere] * 2, out_specs=anywhere, scratch_shapes=[pltpu.VMEM((by, n), F)])

    def kernel(x, o):
        first = pl.program_id(0) * inner

        def body(x, o):
            put(o, lambda: f(x[...]), how != "map")

        grid = (inner, across) if how == "map" else (inner,)
        wide = columns // across if how == "map" else columns
        at = (lambda i, j: (first + i, j)) if how == "map" else (lambda i: (first + i, 0))
        to = at if how == "map" else (lambda i: (pl.program_id(0), 0))
        if how == "map":
            pltpu.emit_pipeline(body, grid=grid, in_specs=[pl.BlockSpec((by, wide), at)],
                                out_specs=[pl.BlockSpec((by, wide), to)])(x, o)
        else:
            pltpu.emit_pipeline(body, grid=grid, in_specs=[pl.BlockSpec((by, wide), at)],
                                out_specs=[pl.BlockSpec((by, wide), lambda i: (0, 0))])(x, o.at[pl.ds(pl.program_id(0) * by, by)])

    if how == "map":
        columns = columns * across
    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    rows = by * outer * (inner if how == "map" else 1)
    return kernel, [d.array((by * outer * inner, columns), t)], S((rows, columns), t), dict(
        grid=(outer,), in_specs=[anywhere], out_specs=anywhere)


def ring(d):
    """Copies by hand in a counted loop whose slot is a number of run time, and semaphores that are signalled."""
    t = d.one("type", [F, I, B])
    by, turns, columns = d.one("rows", [16, 32]), d.one("turns", [3, 4, 6]), d.one("columns", [128, 256])
    slots, f, signals = d.one("slots", [2, 3]), chain(d, t, 1), d.one("signals", [0, 1, 2])

    def kernel(x, o, buf, sems, flag):
        def copy(i):
            slot = jax.lax.rem(i, slots)
            return pltpu.make_async_copy(x.at[pl.ds(i * by, by)], buf.at[slot], sems.at[slot])

        for i in range(min(slots - 1, turns)):
            copy(i).start()

        def step(i, c):
            @pl.when(i + slots - 1 < turns)
            def _():
                copy(i + slots - 1).start()

            copy(i).wait()
            if signals:
                pl.semaphore_signal(flag, signals)
            o[pl.ds(pl.multiple_of(i * by, by), by), :] = f(buf[jax.lax.rem(i, slots)])
            return c

        jax.lax.fori_loop(0, turns, step, 0)
        if signals:
            pl.semaphore_wait(flag, signals * turns)

    shape = (by * turns, columns)
    return kernel, [d.array(shape, t)], S(shape, t), dict(
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        scratch_shapes=[pltpu.VMEM((slots, by, columns), t), pltpu.SemaphoreType.DMA((slots,)), pltpu.SemaphoreType.REGULAR])


def scans(d):
    """Running sums and largest: by shifts, by loops with a carried row, over blocks with a row in scratch."""
    t = d.one("type", [F, I])
    by, columns, steps = d.one("rows", [8, 16, 32]), d.one("columns", [128, 256]), d.one("steps", [1, 2, 4])
    how, op = d.one("how", ["shifts", "rows", "lanes"]), d.one("op", [jnp.add, jnp.maximum])
    none = 0 if op is jnp.add else -1000

    def kernel(x, o, last):
        @pl.when(pl.program_id(0) == 0)
        def _():
            last[...] = jnp.full_like(last, none)

        y = x[...]
        if how == "rows":
            def body(i, c):
                c = op(c, x[pl.ds(i, 1), :])
                o[pl.ds(i, 1), :] = c
                return c

            last[...] = jax.lax.fori_loop(0, by, body, last[...])
            return
        axis = 0 if how == "shifts" else 1
        place, k = jax.lax.broadcasted_iota(I, y.shape, axis), 1
        while k < y.shape[axis]:
            y = op(y, jnp.where(place >= k, pltpu.roll(y, k, axis), none))
            k *= 2
        if axis == 0:
            y = op(y, last[...])
            last[...] = y[by - 1 :, :]
        o[...] = y

    spec = pl.BlockSpec((by, columns), lambda i: (i, 0))
    shape = (by * steps, columns)
    return kernel, [d.array(shape, t)], S(shape, t), dict(
        grid=(steps,), in_specs=[spec], out_specs=spec, scratch_shapes=[pltpu.VMEM((1, columns), t)])


def steps(d):
    """Rows with steps between them, read and written; rows and columns that begin anywhere."""
    t = d.one("type", [F, I])
    n, by, columns = d.one("rows", [8, 16, 24]), d.one("by", [2, 3, 4]), d.one("columns", [128, 256])
    what, first = d.one("what", ["load", "store", "both", "offset", "number"]), d.one("first", [0, 1])

    def kernel(at, x, o):
        if what == "load":
            o[...] = x[pl.ds(first, n, by), :] * 2
        elif what == "store":
            o[...] = jnp.zeros_like(o)
            o[pl.ds(first, n, by), :] = x[...] + 1
        elif what == "both":
            for k in range(by):
                o[pl.ds(k, n, by), :] = x[pl.ds(by - 1 - k, n, by), :]
        elif what == "offset":
            o[...] = x[5 : 5 + n, :] + x[2 : 2 + n, :]
        else:
            o[...] = x[pl.ds(at[0], n), :] - x[pl.ds(at[1], n), :]

    rows = {"load": n * by, "store": n, "both": n * by}.get(what, n + 8)
    out = {"load": n, "store": n * by, "both": n * by}.get(what, n)
    specs = [pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec()]
    at = d.rng.integers(0, 8, 2).astype(np.int32)
    return kernel, [at, d.array((rows, columns), t)], S((out, columns), t), dict(in_specs=specs)


def batches(d):
    """Arrays of three dimensions: blocks with a dimension dropped, products of batches, reductions of the outer one."""
    t = d.one("type", [F, B])
    g, m, n = d.one("groups", [2, 3, 4]), d.one("rows", [16, 32, 64]), d.one("columns", [128, 256])
    what = d.one("what", ["dropped", "batched", "outer", "left", "turned", "folded"])
    if what == "dropped":
        def kernel(x, w, o):
            o[...] = jnp.dot(x[...], w[...], preferred_element_type=F).astype(o.dtype)

        return kernel, [d.array((g, m, 128), t), d.array((g, 128, n), t)], S((g, m, n), t), dict(
            grid=(g,), in_specs=[pl.BlockSpec((None, m, 128), lambda i: (i, 0, 0)), pl.BlockSpec((None, 128, n), lambda i: (i, 0, 0))],
            out_specs=pl.BlockSpec((None, m, n), lambda i: (i, 0, 0)))
    if what == "batched":
        def kernel(x, w, o):
            dims = (((2,), (1,)), ((0,), (0,)))
            o[...] = jax.lax.dot_general(x[...], w[...], dims, preferred_element_type=F).astype(o.dtype)

        return kernel, [d.array((g, m, 128), t), d.array((g, 128, n), t)], S((g, m, n), t), {}
    if what == "left":
        def kernel(x, w, o):
            o[...] = jax.lax.dot_general(x[...], w[...], (((0,), (0,)), ((), ())), preferred_element_type=F)

        return kernel, [d.array((128, m), t), d.array((128, n), t)], S((m, n), F), {}

    def kernel(x, o):
        y = x[...].astype(F)
        if what == "outer":
            o[...] = jnp.sum(y, axis=0)
        elif what == "turned":
            o[...] = jnp.swapaxes(y, 1, 2)
        else:
            o[...] = y.reshape(g * m, n) * 2

    out = {"outer": (m, n), "turned": (g, n, m)}.get(what, (g * m, n))
    return kernel, [d.array((g, m, n), t)], S(out, F), {}


def places(d):
    """Where the largest or smallest is, whether any or all hold, how many do."""
    t = d.one("type", [F, F, I])
    m, n, axis = d.one("rows", [8, 16, 64]), d.one("columns", [128, 256, 384]), d.one("axis", [0, 1])
    what = d.one("what", ["argmax", "argmin", "any", "all", "count", "twice"])

    def kernel(x, o):
        y = x[...]
        if what in ("argmax", "argmin"):
            r = getattr(jnp, what)(y.astype(F), axis=axis, keepdims=True).astype(I)
        elif what in ("any", "all"):
            r = getattr(jnp, what)(y > (1 if what == "any" else -2), axis=axis, keepdims=True).astype(I)
        elif what == "count":
            r = jnp.sum((y > 0).astype(I), axis=axis, keepdims=True)
        else:
            y = y.astype(F)
            at = jnp.argmax(y, axis=axis, keepdims=True).astype(I)
            y = jnp.where(jax.lax.broadcasted_iota(I, y.shape, axis) == at, -1e30, y)
            r = jnp.argmax(y, axis=axis, keepdims=True).astype(I)
        o[...] = jnp.broadcast_to(r, o.shape)

    x = d.array((m, n), t)
    x = d.rng.permutation(m * n).reshape(m, n).astype(x.dtype)
    return kernel, [x], S((m, n), I), {}


def scalars(d):
    """Numbers in scalar memory: read, counted with, chosen by, written; branches and nested loops."""
    n, rows = d.one("numbers", [4, 7, 9]), d.one("rows", [8, 16])
    what, t = d.one("what", ["sum", "branch", "nested", "switch", "sort"]), d.one("type", [I, F])

    def kernel(s, x, o, out):
        for i in range(n):
            out[i] = s[i]
        if what == "sum":
            total = jax.lax.fori_loop(0, n, lambda i, c: c + s[i], jnp.array(0, t))
            o[...] = x[...] * total
            out[0] = total
        elif what == "branch":
            def step(i, y):
                return jax.lax.cond(s[i] > 1, lambda y: y + s[i], lambda y: y * 2 - s[i], y)

            o[...] = jax.lax.fori_loop(0, n, step, x[...])
        elif what == "nested":
            def outer(i, y):
                return jax.lax.fori_loop(0, i + 1, lambda j, y: y + s[j] * (i + 1), y)

            o[...] = jax.lax.fori_loop(0, n, outer, x[...])
        elif what == "switch":
            k = jax.lax.rem(jnp.abs(s[1]).astype(I), 3)
            o[...] = jax.lax.switch(k, [lambda y: y + 1, lambda y: y * 3, lambda y: -y], x[...])
        else:
            def pass_over(i, c):
                def swap(j, c):
                    a, b = out[j], out[j + 1]
                    out[j] = jnp.minimum(a, b)
                    out[j + 1] = jnp.maximum(a, b)
                    return c

                return jax.lax.fori_loop(0, n - 1, swap, c)

            jax.lax.fori_loop(0, n, pass_over, 0)
            o[...] = x[...] + out[0]

    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    arrays = [d.array((n,), t), d.array((rows, 128), t)]
    return kernel, arrays, (S((rows, 128), t), S((n,), t)), dict(in_specs=[smem, pl.BlockSpec()], out_specs=(pl.BlockSpec(), smem))


def updates(d):
    """A result that is an operand too, of which some blocks are written."""
    t = d.one("type", [F, I, B])
    by, count, steps = d.one("rows", [16, 32]), d.one("blocks", [3, 4, 6]), d.one("steps", [1, 2, 3])
    f, copied = chain(d, t, 1), d.one("copied", [False, True])
    order = d.rng.permutation(count)[:steps].astype(np.int32)

    if copied:
        def kernel(order, x, old, o, buf, sem):
            i = pl.program_id(0)
            buf[...] = f(x[...])
            c = pltpu.make_async_copy(buf, o.at[pl.ds(pl.multiple_of(order[i] * by, by), by)], sem)
            c.start()
            c.wait()
    else:
        def kernel(order, x, old, o):
            o[...] = f(x[...]) + old[...]

    spec = pl.BlockSpec((by, 128), lambda i, order: (i, 0))
    other = pl.BlockSpec(memory_space=pl.ANY) if copied else pl.BlockSpec((by, 128), lambda i, order: (order[i], 0))
    scratch = [pltpu.VMEM((by, 128), t), pltpu.SemaphoreType.DMA] if copied else []
    arrays = [order, d.array((by * steps, 128), t), d.array((by * count, 128), t)]
    return kernel, arrays, S((by * count, 128), t), dict(
        input_output_aliases={2: 0}, grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(steps,), in_specs=[spec, other], out_specs=other, scratch_shapes=scratch))


def counts(d):
    """Unsigned numbers of every width: compared, divided, shifted, converted, reduced."""
    t, wide = d.one("type", [jnp.uint8, jnp.uint16, U]), d.one("work", [None, U, F])
    by, columns, steps = d.one("rows", [32, 64]), d.one("columns", [128, 256, 200]), d.one("steps", [1, 2])
    ops = [d.one("op", range(len(COUNTS))) for _ in range(d.one("depth", [1, 2, 3]))]
    use = d.one("use", ["alone", "pair", "max", "min", "sum", "signed"])
    work = wide if wide != F else None

    def kernel(x, y, o):
        a = x[...] if work is None else x[...].astype(work)
        for k in ops:
            a = COUNTS[k](a)
        b = y[...].astype(a.dtype)
        if use == "pair":
            a = jnp.where(a > b, a, jnp.minimum(a, b) + b)
        elif use in ("max", "min", "sum"):
            # JAX reduces signed numbers only.
            r = getattr(jnp, use)((a.astype(U) & 65535).astype(I), axis=d.axis, keepdims=True)
            a = a.astype(U) - r.astype(U)
        elif use == "signed":
            a = jnp.where(a.astype(U) > 1000, -1, a.astype(I) & 255)
        if wide == F:
            o[...] = a.astype(F) * 0.5
        else:
            o[...] = a.astype(o.dtype)

    d.axis = d.one("axis", [0, 1])
    top = 2 ** (8 * np.dtype(t).itemsize)
    # Some numbers are small, some of any size.
    some = lambda: np.where(d.rng.integers(0, 2, (by * steps, columns)), d.rng.integers(0, top, (by * steps, columns)),
                            d.rng.integers(0, 60, (by * steps, columns))).astype(t)
    spec = pl.BlockSpec((by, columns), lambda i: (i, 0))
    to = F if wide == F else I if use == "signed" else d.one("to", [t, U])
    return kernel, [some(), some()], S((by * steps, columns), to), dict(grid=(steps,), in_specs=[spec] * 2, out_specs=spec)


def integers(d):
    """Products of integers of any width, sums kept from step to step; they wrap."""
    x, y = d.one("left", [jnp.int8, jnp.int16, I]), d.one("right", [jnp.int8, jnp.int16, I])
    m, n, k = d.one("rows", [8, 32, 64, 40]), d.one("columns", [128, 256, 72]), d.one("depth", [128, 256, 200])
    steps, turned, end = d.one("steps", [1, 2]), d.one("turned", [False, True]), d.one("end", [0, 3])

    def kernel(a, b, o):
        dims = (((1,), (1 if turned else 0,)), ((), ()))
        o[...] = jax.lax.dot_general(a[...], b[...], dims, preferred_element_type=I) + end

    some = lambda shape, t: d.rng.integers(np.iinfo(t).min, np.iinfo(t).max, shape, endpoint=True).astype(t)
    right = (n, k) if turned else (k, n)
    return kernel, [some((m * steps, k), x), some(right, y)], S((m * steps, n), I), dict(
        grid=(steps,), in_specs=[pl.BlockSpec((m, k), lambda i: (i, 0)), pl.BlockSpec(right, lambda i: (0, 0))],
        out_specs=pl.BlockSpec((m, n), lambda i: (i, 0)))


FAMILIES = [elementwise, reduction, product, attention, loop, copies, prefetched, shapes, types, quantised, masked, pipeline, ring, scans,
            steps, batches, places, scalars, updates, counts, integers]


def made(seed):
    d = Draw(seed)
    family = d.one("family", FAMILIES)
    return family(d) + (d,)


def files(seed, folder):
    """Writes the kernel of a seed with its inputs and the interpreter's answers; what it is."""
    kernel, ins, out, how, d = made(seed)
    call = lambda **more: jax.jit(pl.pallas_call(kernel, out_shape=out, **how, **more))
    with jax.default_matmul_precision("highest"):
        text = call().trace(*ins).lower(lowering_platforms=("tpu",)).as_text()
        answers = jax.tree.leaves(call(interpret=pltpu.InterpretParams())(*ins))
    with open(f"{folder}/{seed}.mlir", "w") as f:
        f.write(text)
    arrays = {}
    for kind, all in (("arg", ins), ("out", answers)):
        for i, a in enumerate(all):
            a = np.asarray(a)
            suffix, bits = TYPES.get(a.dtype.name, ("", None))
            arrays[f"{kind}{i}{suffix}"] = a.view(bits) if bits else a
    np.savez(f"{folder}/{seed}.npz", **arrays)
    return " ".join(d.said)


def value(a, key):
    return a.view(ml_dtypes.bfloat16).astype(np.float32) if key.endswith(":bf16") else a


def differs(seed, folder, systole, chip):
    """Why the chip's answers are others than the interpreter's."""
    got = f"{folder}/{seed}.out.npz"
    command = [systole, "run", f"{folder}/{seed}.mlir", "--chip", chip, "--precision", "highest", "--verify",
               "--inputs", f"{folder}/{seed}.npz", "--outputs", got]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return (done.stdout + done.stderr).strip().splitlines()[0][:300]
    got, want = np.load(got), np.load(f"{folder}/{seed}.npz")
    for key in (k for k in want if k.startswith("out")):
        g, w = value(got[key], key), value(want[key], key)
        if g.shape != w.shape:
            return f"{key} is {g.shape}, not {w.shape}"
        if w.dtype.kind in "iu":
            bad = g != w
        else:
            scale = max(1.0, float(np.nanmax(np.abs(w[np.isfinite(w)]), initial=0)))
            rough = 2e-2 if key.endswith(":bf16") else 2e-3
            bad = ~((np.abs(g - w) <= rough * np.abs(w) + rough * 0.1 * scale) | (g == w) | (np.isnan(g) & np.isnan(w)))
        if bad.any():
            at = np.unravel_index(int(np.argmax(bad)), bad.shape)
            return f"{key}: {int(bad.sum())} of {bad.size} differ, the first at {tuple(map(int, at))}: {g[at]}, not {w[at]}"
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--systole", default="target/quick/systole")
    p.add_argument("--seeds", default="0:300")
    p.add_argument("--chip", default="tpu-v5e", help="one, or several with commas")
    p.add_argument("--keep", help="folder for the kernels and their answers; kernels that are there are not made again")
    a = p.parse_args()
    first, last = map(int, a.seeds.split(":"))
    with tempfile.TemporaryDirectory() as fresh:
        folder = a.keep or fresh
        os.makedirs(folder, exist_ok=True)
        failed, unmade = 0, 0
        for seed in range(first, last):
            if not os.path.exists(f"{folder}/{seed}.npz"):
                try:
                    files(seed, folder)
                except Exception as e:
                    unmade += 1
                    print(f"seed {seed}: JAX does not make it: {str(e).strip().splitlines()[0][:160]}", flush=True)
                    continue
            for chip in a.chip.split(","):
                why = differs(seed, folder, a.systole, chip)
                if why:
                    failed += 1
                    print(f"seed {seed} on {chip}: {why}\n    {' '.join(made(seed)[-1].said)}", flush=True)
        print(f"{last - first} seeds, {unmade} not made, {failed} differ")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
