#!/usr/bin/env python3
"""Programs on a thousand chips and more against what a page of arithmetic says of them.

    benches/large_pods.py [SYSTOLE]

Two programs as people write them, timing-only: layers of two products on a 64x64 torus, weights gathered along one axis (FSDP)
and results summed along the other (tensor parallel); and GPipe with 16 stages on 16x64 chips, microbatches going from stage to
stage. Beside the simulated time stands the alpha-beta model: a product takes its operations at the peak, a ring of n devices
n - 1 messages for gathering and twice as many for summing, a message alpha (a hop) plus its bytes over the links of an axis,
both ways round; a layer's second gather hides behind its first product (or it behind the gather), the next layer's first behind
the sum, which has the other axis's links. Prints both times, their ratio, CPU seconds and peak memory; exit code 1 where they are more
than 10 % apart.
"""

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

CHIP = "tpu-v5e"
ADD = "add { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT c = bf16[] add(a, b) }\n"


def fsdp_tp(gathered: int, summed: int, layers: int, tokens: int, width: int, hidden: int) -> str:
    """`layers` of x W1 W2, weights cut along the devices of both axes."""
    columns, rows = hidden // summed, width // gathered
    x, own1, own2 = f"bf16[{tokens},{width}]", f"bf16[{rows},{columns}]", f"bf16[{columns},{rows}]"
    along = f"[{summed},{gathered}]<=[{gathered},{summed}]T(1,0)"
    across = f"[{gathered},{summed}]<=[{gathered * summed}]"
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ids = "use_global_device_ids=true"
    lines = [f"x0 = {x} parameter(0)"]
    for i in range(layers):
        lines += [f"a{i} = {own1} parameter({1 + 2 * i})", f"b{i} = {own2} parameter({2 + 2 * i})"]
    for i in range(layers):
        lines += [
            f"g{i} = bf16[{width},{columns}] all-gather(a{i}), replica_groups={along}, dimensions={{0}}, channel_id=1, {ids}",
            f"h{i} = bf16[{tokens},{columns}] dot(x{i}, g{i}), {dims}",
            f"k{i} = bf16[{columns},{width}] all-gather(b{i}), replica_groups={along}, dimensions={{1}}, channel_id=2, {ids}",
            f"y{i} = {x} dot(h{i}, k{i}), {dims}",
            f"x{i + 1} = {x} all-reduce(y{i}), replica_groups={across}, to_apply=add, channel_id=3, {ids}",
        ]
    body = "\n".join(lines)
    return f"HloModule fsdp_tp, num_partitions={gathered * summed}\n{ADD}ENTRY e {{\n{body}\nROOT o = {x} copy(x{layers})\n}}\n"


def gpipe(stages: int, copies: int, batches: int, tokens: int, width: int, hidden: int) -> str:
    """A loop over ticks: every stage takes what the one before it made a tick ago, the first one the next microbatch."""
    x, all_x = f"bf16[{tokens},{width}]", f"bf16[{batches},{tokens},{width}]"
    one, hid = f"bf16[1,{tokens},{width}]", f"bf16[{tokens},{hidden}]"
    state = f"(s32[], {x}, {all_x}, {all_x}, bf16[{width},{hidden}], bf16[{hidden},{width}])"
    pairs = ",".join(f"{{{s * copies + c},{(s + 1) * copies + c}}}" for s in range(stages - 1) for c in range(copies))
    dims = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    body = f"""body {{ s = {state} parameter(0)
i = s32[] get-tuple-element(s), index=0
before = {x} get-tuple-element(s), index=1
xs = {all_x} get-tuple-element(s), index=2
ys = {all_x} get-tuple-element(s), index=3
w1 = bf16[{width},{hidden}] get-tuple-element(s), index=4
w2 = bf16[{hidden},{width}] get-tuple-element(s), index=5
zero = s32[] constant(0)
last = s32[] constant({batches - 1})
which = s32[] minimum(i, last)
slice = {one} dynamic-slice(xs, which, zero, zero), dynamic_slice_sizes={{1,{tokens},{width}}}
own = {x} reshape(slice)
id = u32[] partition-id()
end = u32[] constant({copies})
first = pred[] compare(id, end), direction=LT
firsts = pred[{tokens},{width}] broadcast(first), dimensions={{}}
input = {x} select(firsts, own, before)
h = {hid} dot(input, w1), {dims}
none = bf16[] constant(0)
nones = {hid} broadcast(none), dimensions={{}}
relu = {hid} maximum(h, nones)
y = {x} dot(relu, w2), {dims}
next = {x} collective-permute(y), source_target_pairs={{{pairs}}}, channel_id=1
behind = s32[] constant({stages - 1})
done = s32[] subtract(i, behind)
at = s32[] maximum(done, zero)
row = {one} reshape(y)
kept = {all_x} dynamic-update-slice(ys, row, at, zero, zero)
step = s32[] constant(1)
j = s32[] add(i, step)
ROOT t = {state} tuple(j, next, xs, kept, w1, w2) }}
"""
    cond = f"""cond {{ s = {state} parameter(0)
i = s32[] get-tuple-element(s), index=0
n = s32[] constant({batches + stages - 1})
ROOT c = pred[] compare(i, n), direction=LT }}
"""
    entry = f"""ENTRY e {{ xs = {all_x} parameter(0)
w1 = bf16[{width},{hidden}] parameter(1)
w2 = bf16[{hidden},{width}] parameter(2)
zero = s32[] constant(0)
none = bf16[] constant(0)
first = {x} broadcast(none), dimensions={{}}
ys = {all_x} broadcast(none), dimensions={{}}
t = {state} tuple(zero, first, xs, ys, w1, w2)
w = {state} while(t), condition=cond, body=body
ROOT o = {all_x} get-tuple-element(w), index=3 }}
"""
    return f"HloModule gpipe, num_partitions={stages * copies}\n{body}{cond}{entry}"


def parameters(systole: str) -> tuple[float, float, float]:
    """Operations a second in bf16, bytes a second of a link that transfers reach, seconds of a hop."""
    table = subprocess.run([systole, "chips", "show", CHIP], check=True, capture_output=True, text=True).stdout
    value = {words[0]: words[1:3] for words in map(str.split, table.splitlines()) if len(words) > 2}
    units = {"TB/s": 1e12, "GB/s": 1e9, "us": 1e-6, "ns": 1e-9}

    def quantity(name: str) -> float:
        number, unit = value[name]
        return float(number) * units[unit]

    share = float(value["ici.efficiency"][0].rstrip("%")) / 100
    text = "HloModule m\nENTRY e { x = bf16[128,128] parameter(0) ROOT y = bf16[128,128] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }\n"
    peak = json.loads(run(systole, text, [])[0])["peaks"][0]["peak_flops_per_s"]
    return peak, quantity("ici.link_bandwidth") * share, quantity("ici.hop_latency")


def run(systole: str, text: str, more: list[str]) -> tuple[str, float, float]:
    """The report, CPU seconds and peak MiB of a timing-only run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.hlo"
        path.write_text(text)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [systole, "run", str(path), "--chip", CHIP, "--timing-only", "--report", "json", *more]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, cpu, after.ru_maxrss / 1024


def main() -> int:
    systole = sys.argv[1] if len(sys.argv) > 1 else "target/release/systole"
    flops, link, hop = parameters(systole)
    ring = lambda n, size, ways=2: (n - 1) * (size / n / (ways * link)) + hop
    failed = 0

    axis, layers, tokens, width, hidden = 64, 4, 2048, 16384, 65536
    product = 2 * tokens * width * (hidden // axis) / flops
    gather = ring(axis, 2 * width * (hidden // axis))
    total = 2 * ring(axis, 2 * tokens * width)
    layer = max(product, gather) + product + max(total, gather)
    model = gather + (layers - 1) * layer + max(product, gather) + product + total
    cases = [("FSDP 64 x TP 64, four layers", "64x64:torus", fsdp_tp(axis, axis, layers, tokens, width, hidden), model)]

    stages, copies, batches, tokens, width, hidden = 16, 64, 32, 512, 4096, 16384
    stage = 2 * 2 * tokens * width * hidden / flops
    # What a stage hands on goes one way, over one link.
    model = (batches + stages - 1) * (stage + hop + 2 * tokens * width / link)
    cases += [("GPipe, 16 stages, 32 microbatches", "16x64:torus", gpipe(stages, copies, batches, tokens, width, hidden), model)]

    for name, topology, text, model in cases:
        report, cpu, peak = run(systole, text, ["--topology", topology])
        time = json.loads(report)["time_s"]
        apart = time / model - 1
        failed += abs(apart) > 0.1
        print(f"{name:36} {topology:12} simulated {time * 1e3:8.3f} ms  alpha-beta {model * 1e3:8.3f} ms  {apart:+6.1%}  CPU {cpu:5.2f} s  {peak:4.0f} MiB")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
