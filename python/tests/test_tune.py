"""Block sizes of kernels are tried: the table, the best, and what is refused."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import systole

N = 512
X = jax.ShapeDtypeStruct((N, N), jnp.bfloat16)


def product(x, y, o, sums, _):
    @pl.when(pl.program_id(2) == 0)
    def _():
        sums[...] = jnp.zeros_like(sums)

    sums[...] += jnp.dot(x[...], y[...], preferred_element_type=jnp.float32)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _():
        o[...] = sums[...].astype(o.dtype)


def make(rows, columns, depth=256, spare=8):
    return pl.pallas_call(
        product, out_shape=jax.ShapeDtypeStruct((N, N), jnp.bfloat16), grid=(N // rows, N // columns, N // depth),
        in_specs=[pl.BlockSpec((rows, depth), lambda i, j, k: (i, k)), pl.BlockSpec((depth, columns), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((rows, columns), lambda i, j, k: (i, j)),
        scratch_shapes=[pltpu.VMEM((rows, columns), jnp.float32), pltpu.VMEM((spare, 128), jnp.float32)])


def test_the_fastest_comes_first():
    tuning = systole.tune_kernel(make, {"rows": [64, 256], "columns": [128, 512]}, X, X, chip="tpu-v5e", progress=False)
    cycles = [t.cycles for t in tuning]
    assert len(tuning) == 4 and cycles == sorted(cycles) and tuning.best is tuning[0]
    # Small blocks read both operands more often and have more steps.
    assert tuning[-1].config == {"rows": 64, "columns": 128} and cycles[0] * 2 < cycles[-1]
    row = tuning.table()[0]
    assert {"rows", "columns", "cycles", "us", "peak", "vmem", "stalls", "bound", "error"} <= set(row)
    # Two places for blocks of 64 x 256, 256 x 128 and 64 x 128 in bf16, sums of 64 x 128 and 8 x 128 in f32.
    assert tuning[-1].vmem == 2 * 2 * (64 * 256 + 256 * 128 + 64 * 128) + 4 * 64 * 128 + 4 * 8 * 128
    assert 0 < row["peak"] <= 1 and all(0 < s <= 1 for s in row["stalls"].values())
    text = repr(tuning)
    assert text.splitlines()[0].split()[:3] == ["rows", "columns", "cycles"] and str(tuning.best.cycles) in text
    assert "<table>" in tuning._repr_html_()


def test_what_is_refused_stays_in_the_table():
    configs = [{"rows": 128, "columns": 128, "spare": 1 << 20}, {"rows": 128, "columns": 128}]
    tuning = systole.tune_kernel(make, configs, X, X, chip="tpu-v5e", progress=False)
    assert tuning.best.config == configs[1]
    refused = tuning[1]
    assert refused.report is None and "VMEM" in refused.error and refused.row()["cycles"] is None
    alone = systole.tune_kernel(make, configs[:1], X, X, chip="tpu-v5e", progress=False)
    with pytest.raises(systole.SystoleError, match="no configuration ran.*VMEM"):
        alone.best


def test_progress_is_shown(capsys):
    systole.tune_kernel(make, {"rows": [256], "columns": [256]}, X, X, chip="tpu-v5e", progress=True)
    shown = capsys.readouterr().err
    assert "[1/1] rows=256, columns=256" in shown and shown.endswith("\r\x1b[K")
