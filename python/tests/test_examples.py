"""The examples print the same on the simulated chip as on the CPU, but for the costs that they print."""

import os
import pathlib
import re
import subprocess
import sys

import jax
import pytest

pytestmark = pytest.mark.skipif(jax.default_backend() != "systole", reason="needs JAX_PLATFORMS=systole,cpu")
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "jax"


def printed(name, platforms, folder):
    env = {**os.environ, "JAX_PLATFORMS": platforms}
    command = [sys.executable, str(EXAMPLES / name)]
    return subprocess.run(command, env=env, cwd=folder, check=True, capture_output=True, text=True, timeout=300).stdout


@pytest.mark.parametrize("name, line, least", [("train_mlp.py", r"step +\d+  loss (\S+)", 4), ("encoder.py", r"(\d\.\d+)  [a-z ]+\|", 3)])
def test_an_example_answers_as_on_the_cpu(name, line, least, tmp_path):
    here, there = (printed(name, platforms, tmp_path) for platforms in ("systole,cpu", "cpu"))
    found, due = ([float(n) for n in re.findall(line, text)] for text in (here, there))
    assert len(found) >= least and found == pytest.approx(due, rel=0.02, abs=0.011)
    assert "cycles" in here
