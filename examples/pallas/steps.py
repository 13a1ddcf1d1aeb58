"""The numbers of docs/pallas_tuning.md: runs the kernels of this folder on a simulated tpu-v5e, form by form.

    python examples/pallas/steps.py                            # prints the tables
    python examples/pallas/steps.py --check docs/pallas_tuning.md   # fails if the page has other numbers
    python examples/pallas/steps.py --write docs/pallas_tuning.md   # puts the numbers into the page
"""

import argparse
import re
import sys

import jax
import jax.numpy as jnp
import kernels

import systole

CHIP = "tpu-v5e"
BF16 = jnp.bfloat16


def arrays(*shapes, dtype=BF16):
    return [jax.ShapeDtypeStruct(s, dtype) for s in shapes]


def row(name, report):
    windows = [l for l in report.data.get("lines", []) if l["part"].startswith("window")]
    exposed = sum(l["waited"] for l in windows) / report.cycles
    hbm = (report.hbm["read_bytes"] + report.hbm["write_bytes"]) / 1e6
    peak = f"{report.peak_share:.1%}" if report.flops else ""
    return [name, f"{report.cycles:,}", peak, f"{hbm:.0f} MB", f"{exposed:.0%}", report.bound]


HEAD = ["form", "cycles", "of peak", "HBM", "copies exposed", "bound"]


def table(rows, head=HEAD):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def timed(fn, *args):
    return systole.run(fn, *args, chip=CHIP, timing_only=True, profile=False)


def scale():
    x = arrays((4096, 1024), dtype=jnp.float32)
    forms = [("blocks (8, 128)", (8, 128)), ("blocks (64, 512)", (64, 512)), ("blocks (512, 1024)", (512, 1024))]
    return table([row(name, timed(kernels.scale(4096, 1024, *by), *x)) for name, by in forms])


def product():
    n = 2048
    single, half = arrays((n, n), (n, n), dtype=jnp.float32), arrays((n, n), (n, n))
    return table([
        row("blocks (128, 128, 128), f32", timed(kernels.product(n, 128, 128, 128, jnp.float32), *single)),
        row("blocks (128, 128, 128), bf16", timed(kernels.product(n, 128, 128, 128), *half)),
        row("blocks (512, 512, 512), bf16", timed(kernels.product(n, 512, 512, 512), *half)),
        row("the compiler's own `x @ y`", timed(jnp.matmul, *half)),
    ])


def tuned():
    n = 2048

    def make(rows, columns, depth):
        return kernels.product(n, rows, columns, depth)

    tuning = systole.tune_kernel(
        make, {"rows": [256, 512, 1024], "columns": [512, 1024], "depth": [256, 512, 1024]}, *arrays((n, n), (n, n)), chip=CHIP)
    rows = [[str(r["rows"]), str(r["columns"]), str(r["depth"]), f"{r['cycles']:,}", f"{r['peak']:.1%}",
             f"{r['vmem'] / (1 << 20):.1f} MiB", r["bound"]] for r in tuning.table()]
    return table(rows[:3] + rows[-1:], ["rows", "columns", "depth", "cycles", "of peak", "VMEM", "bound"])


def attention():
    qkv = arrays(*[(4, 2048, 128)] * 3)
    return table([
        row("two kernels, scores in HBM", timed(jax.jit(kernels.scores_then_values(4, 2048, 256)), *qkv)),
        row("flash, blocks (128, 128)", timed(kernels.flash(4, 2048, 128, 128), *qkv)),
        row("flash, blocks (512, 512)", timed(kernels.flash(4, 2048, 512, 512), *qkv)),
    ])


TABLES = {"scale": scale, "product": product, "tuned": tuned, "attention": attention}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", metavar="PAGE")
    p.add_argument("--write", metavar="PAGE")
    a = p.parse_args()
    made = {name: f() for name, f in TABLES.items()}
    page = a.check or a.write
    if page is None:
        return print("\n\n".join(made.values()))
    with open(page) as f:
        text = f.read()
    new = text
    for name, lines in made.items():
        mark = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
        if not mark.search(new):
            sys.exit(f"{page} has no place for `{name}`")
        new = mark.sub(lambda m, lines=lines: m[1] + lines + "\n" + m[2], new)
    if a.write:
        with open(page, "w") as f:
            f.write(new)
    elif new != text:
        sys.exit(f"{page} has other numbers; `--write` puts these in:\n" + "\n\n".join(made.values()))


if __name__ == "__main__":
    main()
