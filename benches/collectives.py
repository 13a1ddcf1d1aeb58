#!/usr/bin/env python3
"""Collectives on meshes against the time that their bytes take over the links of the device that has fewest.

    benches/collectives.py [SYSTOLE] [--mib 64] [--only WORD]

All-reduce, all-gather and reduce-scatter of an f32 array over all devices of a mesh, timing-only. The ideal: every device sends (and
gets) `(n - 1) / n` of the array (an all-reduce: twice) over all links that a corner of the mesh has, at the rate that a link
reaches; latency is left out. Axes wrap as the chip's slices do. Exit code 1 where one takes more than a quarter longer.
"""

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from pathlib import Path

MESHES = [("tpu-v5e", m) for m in ("2x4", "2x8", "4x8", "8x8", "8x16", "4x16")]
MESHES += [("tpu-v4", m) for m in ("2x2x4", "4x4x4", "4x4x8", "4x8x8")]
ADD = "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"


def program(kind: str, devices: int, rows: int) -> str:
    """One collective of `rows` rows of 128 elements among all devices."""
    before, after, how = {
        "all-reduce": (rows, rows, "to_apply=f"),
        "all-gather": (rows // devices, rows, "dimensions={0}"),
        "reduce-scatter": (rows, rows // devices, "dimensions={0}, to_apply=f"),
    }[kind]
    return (
        f"HloModule m, replica_count={devices}\n{ADD}ENTRY e {{ x = f32[{before},128] parameter(0) "
        f"ROOT z = f32[{after},128] {kind}(x), replica_groups=[1,{devices}]<=[{devices}], {how} }}\n"
    )


def links(systole: str, chip: str) -> tuple[float, int]:
    """Bytes a second of a link in one direction, and the length from which axes wrap."""
    shown = subprocess.run([systole, "chips", "show", chip], check=True, capture_output=True, text=True).stdout
    value = {name: float(number) for name, number in re.findall(r"^\s*(ici\.\w+)\s+([\d.]+)", shown, re.MULTILINE)}
    return value["ici.link_bandwidth"] * 1e9 * value["ici.efficiency"] / 100, int(value["ici.wrap_at"])


def main() -> int:
    ask = argparse.ArgumentParser()
    ask.add_argument("systole", nargs="?", default="target/release/systole")
    ask.add_argument("--mib", type=int, default=64)
    ask.add_argument("--only", default="")
    args = ask.parse_args()
    worst = 0.0
    print(f"{'chip':9} {'mesh':7} {'collective':15} {'us':>9} {'ideal':>9} ratio")
    for chip, mesh in MESHES:
        if args.only not in f"{chip} {mesh}":
            continue
        rate, wrap_at = links(args.systole, chip)
        dims = [int(n) for n in mesh.split("x")]
        devices = math.prod(dims)
        ports = sum(2 if n >= wrap_at and n > 2 else 1 for n in dims if n > 1)
        for kind in ("all-reduce", "all-gather", "reduce-scatter"):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "m.hlo"
                path.write_text(program(kind, devices, args.mib * 2048))
                flags = ["--replicas", str(devices), "--chip", chip, "--topology", mesh, "--timing-only"]
                run = [args.systole, "run", str(path), *flags, "--report", "json"]
                time = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)["time_s"]
            sent = args.mib * 2**20 * (devices - 1) / devices * (2 if kind == "all-reduce" else 1)
            ideal = sent / (ports * rate)
            worst = max(worst, time / ideal)
            print(f"{chip:9} {mesh:7} {kind:15} {time * 1e6:9.1f} {ideal * 1e6:9.1f} {time / ideal:5.3f}")
    return int(worst > 1.25)


if __name__ == "__main__":
    sys.exit(main())
