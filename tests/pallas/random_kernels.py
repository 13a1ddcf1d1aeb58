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
F, I, B = jnp.float32, jnp.int32, jnp.bfloat16
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
        if dtype == np.int32:
            return self.rng.integers(-40, 40, shape).astype(np.int32)
        return (self.rng.integers(-64, 64, shape) / 32).astype(dtype)


UNARY = [jnp.tanh, jnp.exp, jnp.abs, jnp.square, jax.nn.sigmoid, jnp.negative, jnp.floor, lambda x: jnp.sqrt(jnp.abs(x)),
         lambda x: jnp.where(x > 0.5, x, 0.25), lambda x: jnp.clip(x, -1, 1), lambda x: jnp.log1p(jnp.abs(x))]
WHOLE = [jnp.abs, jnp.negative, lambda x: x << 2, lambda x: x >> 1, lambda x: x & 13, lambda x: jnp.where(x % 3 == 0, x, -x),
         lambda x: jnp.maximum(x, 5), lambda x: x * x - 7]
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
        if not sums:
            o[...] = f(x[...])
            return

        @pl.when(pl.program_id(0) == 0)
        def _():
            o[...] = jnp.zeros_like(o)

        o[...] += f(x[...])

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


FAMILIES = [elementwise, reduction, product, attention, loop, copies, prefetched, shapes]


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
