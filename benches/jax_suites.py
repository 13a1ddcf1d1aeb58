#!/usr/bin/env python3
"""JAX's own tests as a yardstick: a seeded sample, on JAX's CPU and on the simulated chip, and what the difference is.

    python benches/jax_suites.py run    --tests JAX/tests --results FOLDER --platform cpu     [--sample 1500] [--seconds 420]
    python benches/jax_suites.py run    --tests JAX/tests --results FOLDER --platform systole [--sample 1500] [--seconds 420]
    python benches/jax_suites.py report --results FOLDER [--markdown]

`JAX/tests` is that folder of JAX's repository at the release that is installed. A run stops after `--seconds` and goes on where
it was when it is called again (exit code 3 says that there is more to do), so a large sample fits into short commands. Every
test runs in one process with the others; one that kills it or takes longer than `--limit` seconds is written down as a crash
or a hang, and the rest goes on in a new process. `--only TEXT` runs those again whose names have the text in them,
`--failed` those that did not pass.

The sample: every test's name is hashed with the seed, and those with the smallest numbers are taken, from each suite as many as
its share of all tests, at least 40. Suites that are cut differ only in which names are taken, so results of several sizes agree.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

#: The suites that do not depend on a device of a known name.
SUITES = [
    "lax", "lax_numpy", "lax_numpy_indexing", "lax_numpy_reducers", "lax_numpy_operators", "lax_numpy_ufuncs",
    "lax_numpy_einsum", "lax_numpy_setops", "lax_numpy_vectorize", "lax_control_flow", "lax_autodiff", "lax_vmap",
    "lax_scipy", "nn", "random", "random_lax", "linalg", "fft", "shard_map", "api",
]
#: Tests of a suite that are taken at least.
LEAST = 40
#: Devices of both platforms: the suites of shardings skip where there are fewer.
DEVICES = 8
#: What pytest ends with where it finds no test.
NONE_FOUND = 5


def environment(platform: str, tests: Path) -> dict[str, str]:
    """The settings under which a platform runs the suites."""
    env = {**os.environ, "JAX_PLATFORMS": "cpu" if platform == "cpu" else "systole,cpu",
           "JAX_DEFAULT_MATMUL_PRECISION": "highest", "JAX_NUM_GENERATED_CASES": "5", "JAX_SKIP_SLOW_TESTS": "1"}
    flags = env.get("XLA_FLAGS", "")
    env["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={DEVICES}".strip()
    env.setdefault("SYSTOLE_TOPOLOGY", "2x4")
    paths = [str(tests.parent), str(tests), env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(p for p in paths if p)
    return env


def number(seed: int, name: str) -> int:
    """A test's place in the sample."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big")


def chosen(tests: Path, folder: Path, size: int, seed: int, env: dict[str, str]) -> list[str]:
    """The names of the tests of the sample, suite after suite; the list of all tests is kept beside the results."""
    kept = folder / "all.json"
    if not kept.exists():
        found: dict[str, list[str]] = {}
        for suite in SUITES:
            command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--noconftest", "-p", "no:cacheprovider",
                       f"tests/{suite}_test.py"]
            out = subprocess.run(command, cwd=tests.parent, env=env, capture_output=True, text=True, check=False).stdout
            found[suite] = sorted({line.strip() for line in out.splitlines() if "::" in line})
            print(f"{suite}: {len(found[suite])} tests", flush=True)
        kept.write_text(json.dumps(found))
    found = json.loads(kept.read_text())
    total = sum(len(names) for names in found.values())
    sample: list[str] = []
    for suite in SUITES:
        names = sorted(found[suite], key=lambda name: number(seed, name))
        sample += names[: max(LEAST, round(size * len(names) / max(total, 1)))]
    return sample


def read(path: Path) -> dict[str, dict]:
    """The last word on every test; one that began and never ended killed its process."""
    last: dict[str, dict] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        row = json.loads(line)
        last[row["test"]] = row
    return last


def run(a: argparse.Namespace) -> int:
    folder, tests = Path(a.results).resolve(), Path(a.tests).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    env, path = environment(a.platform, tests), folder / f"{a.platform}.jsonl"
    sample = chosen(tests, folder, a.sample, a.seed, environment("cpu", tests))
    until = time.monotonic() + a.seconds
    again = set()
    if a.failed or a.only:
        done = read(path)
        again = {t for t in sample if (not a.failed or done.get(t, {}).get("outcome") not in ("passed", "skipped"))
                 and (not a.only or a.only in t)}
        sample = [t for t in sample if t in again]
    started: set[str] = set()
    while True:
        done = read(path)
        left = [t for t in sample if t not in done or (t in again and t not in started)]
        if not left:
            return 0
        if time.monotonic() >= until:
            print(f"{len(left)} tests left")
            return 3
        (folder / "todo.json").write_text(json.dumps({
            "tests": left, "out": str(path), "seconds": until - time.monotonic(), "limit": a.limit}))
        # Tests of one suite at a time: importing all of them takes longer than running a few.
        suite = left[0].split("::")[0]
        command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-p", "jax_suites", "--tb=short", suite]
        here = {**env, "JAX_SUITES_TODO": str(folder / "todo.json"),
                "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parent), env["PYTHONPATH"]])}
        log = folder / f"{a.platform}.log"
        with log.open("w") as out:
            code = subprocess.run(command, cwd=tests.parent, env=here, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
        after = read(path)
        broken = [t for t, row in after.items() if row["outcome"] == "began"]
        tail = log.read_text(errors="replace")[-6000:]
        with path.open("a") as out:
            for t in broken:
                what = "hang" if "Timeout (" in tail else "crash"
                out.write(json.dumps({"test": t, "outcome": what, "why": f"exit code {code}", "text": tail}) + "\n")
        fresh = {t for t in left if t in after and after[t] != done.get(t)}
        started |= fresh
        if not fresh and code == NONE_FOUND:
            # A platform may have fewer cases of a test than the one that the names are of.
            with path.open("a") as out:
                for t in (t for t in left if t.split("::")[0] == suite):
                    out.write(json.dumps({"test": t, "outcome": "skipped", "why": "no such case on this platform"}) + "\n")
            continue
        if not fresh:
            print(tail)
            print(f"{suite}: nothing ran (exit code {code})")
            return 1


# What pytest loads in the process of the tests.


class _Recorder:
    """Keeps the tests of the list, and writes down how each of them went, before it begins and after it ended."""

    def __init__(self, todo: dict):
        self.todo, self.until = set(todo["tests"]), time.monotonic() + todo["seconds"]
        self.limit, self.out = todo["limit"], open(todo["out"], "a", encoding="utf-8")
        self.row: dict = {}

    def write(self, row: dict) -> None:
        self.out.write(json.dumps(row) + "\n")
        self.out.flush()

    def pytest_collection_modifyitems(self, items) -> None:
        items[:] = [i for i in items if i.nodeid in self.todo]

    def pytest_runtest_logstart(self, nodeid) -> None:
        import faulthandler

        if time.monotonic() >= self.until:
            os._exit(0)
        self.row = {"test": nodeid, "outcome": "began"}
        self.write(self.row)
        self.began = time.process_time()
        faulthandler.dump_traceback_later(self.limit, exit=True)

    def pytest_runtest_logreport(self, report) -> None:
        if report.when == "call" or report.outcome != "passed":
            text = "" if report.outcome == "passed" else report.longreprtext or str(report.longrepr)
            if self.row.get("outcome") == "began" or report.outcome == "failed":
                self.row = {"test": report.nodeid, "outcome": report.outcome, "text": text[-6000:]}

    def pytest_runtest_logfinish(self) -> None:
        import faulthandler

        faulthandler.cancel_dump_traceback_later()
        self.write({**self.row, "cpu": round(time.process_time() - self.began, 3)})


def pytest_configure(config) -> None:
    """Entry of the plugin."""
    if "JAX_SUITES_TODO" in os.environ:
        config.pluginmanager.register(_Recorder(json.loads(Path(os.environ["JAX_SUITES_TODO"]).read_text())))


# What the results say.


def reason(row: dict) -> str:
    """A failure's reason without what differs from test to test."""
    if row["outcome"] in ("crash", "hang"):
        return row["outcome"]
    errors = [line[1:].strip() for line in row.get("text", "").splitlines() if line.startswith("E ")]
    first = next((line for line in errors if re.match(r"[\w.]*(Error|Exception|Failed|Interrupt)", line)), errors[0] if errors else "?")
    if "Not equal to tolerance" in row.get("text", "") or "Arrays are not equal" in row.get("text", ""):
        return "other numbers"
    return re.sub(r"\d+", "N", first)[:110]


def report(a: argparse.Namespace) -> int:
    folder = Path(a.results)
    cpu, chip = read(folder / "cpu.jsonl"), read(folder / "systole.jsonl")
    counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    reasons: dict[str, list[str]] = collections.defaultdict(list)
    for test, row in chip.items():
        if row["outcome"] == "began":
            continue
        suite = test.split("/")[-1].split("_test.py")[0]
        on_cpu = cpu.get(test, {}).get("outcome")
        if row["outcome"] == "skipped":
            counts[suite]["skipped"] += 1
        elif on_cpu != "passed":
            counts[suite]["not on the CPU"] += 1
        else:
            counts[suite]["of"] += 1
            counts[suite]["cpu"] += row.get("cpu", 0)
            if row["outcome"] == "passed":
                counts[suite]["passed"] += 1
            else:
                reasons[reason(row)].append(test)
    total: collections.Counter = collections.Counter()
    print("| suite | passed, of those that pass on JAX's CPU | skipped | seconds of CPU |\n| --- | --- | --- | --- |")
    for suite in SUITES:
        c = counts[suite]
        total.update(c)
        if c["of"] or c["skipped"]:
            print(f"| {suite} | {c['passed']} of {c['of']} | {c['skipped'] or '–'} | {c['cpu']:.0f} |")
    share = total["passed"] / max(1, total["of"])
    print(f"| all | {total['passed']} of {total['of']} ({share:.1%}) | {total['skipped']} | {total['cpu']:.0f} |\n")
    for why, names in sorted(reasons.items(), key=lambda r: -len(r[1])):
        print(f"- {len(names)} × {why}" if a.markdown else f"{len(names):4} {why}\n       " + "\n       ".join(names[: a.names]))
    return 0


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="what", required=True)
    r = sub.add_parser("run")
    r.add_argument("--tests", required=True)
    r.add_argument("--results", required=True)
    r.add_argument("--platform", choices=["cpu", "systole"], required=True)
    r.add_argument("--sample", type=int, default=1500)
    r.add_argument("--seed", type=int, default=1)
    r.add_argument("--seconds", type=float, default=420)
    r.add_argument("--limit", type=float, default=90, help="seconds that a test may take")
    r.add_argument("--only", help="run those again whose names have this in them")
    r.add_argument("--failed", action="store_true", help="run those again that did not pass")
    s = sub.add_parser("report")
    s.add_argument("--results", required=True)
    s.add_argument("--markdown", action="store_true")
    s.add_argument("--names", type=int, default=8, help="names that are shown for a reason")
    a = p.parse_args()
    return run(a) if a.what == "run" else report(a)


if __name__ == "__main__":
    sys.exit(main())
