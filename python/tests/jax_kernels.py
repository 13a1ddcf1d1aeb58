"""Runs JAX's own kernel tests (``tests/pallas/tpu_*_test.py`` of its repository) on the simulated chip, and counts.

    JAX_PLATFORMS=systole,cpu python python/tests/jax_kernels.py FOLDER [FILE ...] [-k EXPRESSION] [--every 1]

The tests ask what device they are on and skip what it is not: here they are told that it is a TPU v5e. Every test that runs
lowers its kernels for a TPU, runs them, and compares as it is written. What fails is counted by the reason. Files of
``jax/_src`` that only tests use (``hypothesis_test_util.py``, ``pallas/pallas_test_util.py``) may lie in the folder too.
"""

import argparse
import collections
import importlib
import importlib.util
import os
import re
import signal
import sys

import pytest


def reason(text):
    """The line of a failure that says most."""
    lines = [l.strip() for l in text.strip().splitlines() if l.strip()]
    said = [l for l in lines if re.search(r"(Error|Exception|error:|Mismatch|Not equal|not supported|has no lowering)", l)]
    line = (said or lines or ["?"])[-1] if not said else said[0]
    line = re.sub(r"^E\s+", "", line)
    line = re.sub(r"/\S*/", "", line)
    return re.sub(r"\d+", "N", line)[:150]


class Counts:
    def __init__(self, seconds, every):
        self.outcomes, self.reasons, self.skips = collections.Counter(), collections.Counter(), collections.Counter()
        self.first: dict[str, str] = {}
        self.seconds, self.every = seconds, every

    def pytest_collection_modifyitems(self, items):
        items[:] = items[:: self.every]

    def pytest_runtest_setup(self, item):
        def late(*_):
            raise TimeoutError(f"more than {self.seconds} seconds")

        signal.signal(signal.SIGALRM, late)
        signal.alarm(self.seconds)

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome == "skipped":
            self.outcomes[report.outcome] += 1
        if report.outcome == "failed":
            said = reason(report.longreprtext)
            self.reasons[said] += 1
            self.first.setdefault(said, report.nodeid.rsplit("::", 1)[-1])
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            self.skips[re.sub(r"\d+", "N", report.longrepr[2])[:110]] += 1
        if report.when == "teardown":
            signal.alarm(0)


def pretend(folder):
    """What the tests ask of the device."""
    from jax._src import test_util as jtu
    from jax._src.pallas.mosaic import tpu_info

    sys.path.append(folder)
    for parent, name in (("jax._src", "hypothesis_test_util"), ("jax._src.pallas", "pallas_test_util")):
        package = importlib.import_module(parent)
        if importlib.util.find_spec(f"{parent}.{name}") is None and importlib.util.find_spec(name) is not None:
            sys.modules[f"{parent}.{name}"] = importlib.import_module(name)
            setattr(package, name, sys.modules[f"{parent}.{name}"])
    v5e = tpu_info.get_tpu_info_for_chip(tpu_info.ChipVersion.TPU_V5E, 1)
    for kind in ("cpu", "systole"):
        tpu_info.registry[kind] = lambda: v5e
    jtu.device_under_test = lambda: "tpu"
    jtu.get_tpu_version = lambda: 5
    jtu.is_device_tpu = lambda version=None, variant="": (version in (None, 5)) and variant in ("", "e")
    jtu.is_device_tpu_at_least = lambda version: version <= 5
    jtu.is_cloud_tpu = lambda: True
    jtu.is_cloud_tpu_at_least = lambda *a: True
    jtu.if_cloud_tpu_at_least = lambda *a: True


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("files", nargs="*")
    p.add_argument("-k", default="")
    p.add_argument("--seconds", type=int, default=60, help="for one test")
    p.add_argument("--every", type=int, default=1, help="take every so many tests of a file only")
    a = p.parse_args()
    pretend(a.folder)
    files = a.files or sorted(f for f in os.listdir(a.folder) if f.startswith("tpu_") and f.endswith("_test.py"))
    total = collections.Counter()
    for f in files:
        counts = Counts(a.seconds, a.every)
        args = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", "-rN", os.path.join(a.folder, f)] + (["-k", a.k] if a.k else [])
        pytest.main(args, plugins=[counts])
        print(f"== {f}: {dict(counts.outcomes)}")
        for what, all in (("failed", counts.reasons), ("skipped", counts.skips)):
            for said, n in all.most_common(25):
                print(f"   {what} {n:4}: {said}" + (f" ({counts.first[said]})" if what == "failed" else ""))
        sys.stdout.flush()
        total.update(counts.outcomes)
    print(f"== all: {dict(total)}")


if __name__ == "__main__":
    main()
