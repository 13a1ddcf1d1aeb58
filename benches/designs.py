#!/usr/bin/env python3
"""Runs programs on pairs of designs, of which the second has more of one thing, and lists those that are slower on it.

    benches/designs.py SYSTOLE FOLDER... [--chip tpu-v5e] [--only NAME ...] [--slower 1.02] [--timeout 120]

A folder's programs are its *.hlo files. Every program runs timing-only on the chip and on each of the designs of MORE; with the chip's
own value first where a row has one. Exits with 1 if a program takes more than `--slower` times as long, or is refused where the
smaller design runs it.
"""
import argparse, json, pathlib, subprocess, sys

# What is set, of the smaller and of the larger design.
MORE = [
    ([], ["hbm.bandwidth=1638 GB/s"]),
    ([], ["hbm.latency=250 ns"]),
    ([], ["clock=3 GHz"]),
    ([], ["vmem.bytes=256 MiB"]),
    (["vmem.bytes=16 MiB"], ["vmem.bytes=32 MiB"]),
    (["vmem.bytes=32 MiB"], ["vmem.bytes=64 MiB"]),
    ([], ["mxu.count=16"]),
    ([], ["mxu.rows=256", "mxu.cols=256"]),
    ([], ["mxu.rows=1024", "mxu.cols=1024"]),
    # The same, with a result's way through the array as long as through the preset's.
    ([], ["mxu.rows=256", "mxu.cols=256", "mxu.hop_cells=2"]),
    ([], ["mxu.rows=1024", "mxu.cols=1024", "mxu.hop_cells=8"]),
    (["mxu.count=8"], ["mxu.count=16"]),
    (["core.vector_registers=8"], ["core.vector_registers=12"]),
    ([], ["core.vector_registers=128"]),
    (["core.semaphores=7"], ["core.semaphores=8"]),
    ([], ["core.valu_slots=8"]),
    ([], ["dma.engines=16"]),
    ([], ["dma.in_flight=512"]),
]


def seconds(a, file, sets):
    command = [a.systole, "run", str(file), "--chip", a.chip, "--timing-only", "--report", "json"]
    for s in sets:
        command += ["--set", s]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=a.timeout)
    except subprocess.TimeoutExpired:
        return None, "out of time"
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"exit code {done.returncode}"
    return json.loads(done.stdout)["time_s"], None


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("systole")
    ap.add_argument("folders", nargs="+")
    ap.add_argument("--chip", default="tpu-v5e")
    ap.add_argument("--only", nargs="*")
    ap.add_argument("--slower", type=float, default=1.02)
    ap.add_argument("--timeout", type=float, default=120)
    a = ap.parse_args()
    files = sorted(f for folder in a.folders for f in pathlib.Path(folder).glob("*.hlo"))
    files = [f for f in files if not a.only or f.stem in a.only]
    pairs = wrong = 0
    for f in files:
        known = {}
        for less, more in MORE:
            for sets in (less, more):
                if tuple(sets) not in known:
                    known[tuple(sets)] = seconds(a, f, sets)
            (before, why), (after, refused) = known[tuple(less)], known[tuple(more)]
            if before is None:
                print(f"{f.stem:28} {' '.join(less) or a.chip}: {why}", flush=True)
                continue
            pairs += 1
            if after is None or after > a.slower * before:
                wrong += 1
                how = refused if after is None else f"{after / before:.3f} times as long"
                print(f"{f.stem:28} {' '.join(less) or a.chip} -> {' '.join(more)}: {how}", flush=True)
    print(f"{len(files)} programs, {pairs} pairs, {wrong} slower with more")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
