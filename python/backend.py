"""Builds the wheel: maturin's, with the command ``systole`` among its scripts.

The command is compiled first, into the folder that ``pyproject.toml`` names as the wheel's data, from the same package and into
the same folder as the extension module: what they have in common is compiled once. Both are built without optimisation across
crates: that takes a fraction of the time, for a few percent of speed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import maturin
from maturin import *  # noqa: F403: the hooks that need no command are maturin's own

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE / "target" / "wheel" / "scripts"


def _profile() -> str:
    """The profile that the user asks maturin for by ``MATURIN_PEP517_ARGS``, else ``release``."""
    words = shlex.split(os.environ.get("MATURIN_PEP517_ARGS", ""))
    return words[words.index("--profile") + 1] if "--profile" in words[:-1] else "release"


def _command() -> None:
    profile, target = _profile(), Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
    subprocess.run(
        ["cargo", "build", "--profile", profile, "--bin", "systole", "--target-dir", target,
         "--manifest-path", HERE / "Cargo.toml"],
        check=True,
    )
    shutil.rmtree(SCRIPTS, ignore_errors=True)
    SCRIPTS.mkdir(parents=True)
    folder = {"dev": "debug", "test": "debug", "bench": "release"}.get(profile, profile)
    shutil.copy2(target / folder / "systole", SCRIPTS / "systole")


def _with_folder(hook):
    """A hook of maturin's that looks for the data's folder, whatever is in it."""

    def hooked(*args, **kwargs):
        SCRIPTS.mkdir(parents=True, exist_ok=True)
        return hook(*args, **kwargs)

    return hooked


def _with_command(hook):
    """A hook of maturin's that packs the command."""

    def hooked(*args, **kwargs):
        _command()
        return hook(*args, **kwargs)

    return hooked


prepare_metadata_for_build_wheel = _with_folder(maturin.prepare_metadata_for_build_wheel)
prepare_metadata_for_build_editable = _with_folder(maturin.prepare_metadata_for_build_editable)
build_sdist = _with_folder(maturin.build_sdist)
build_wheel = _with_command(maturin.build_wheel)
build_editable = _with_command(maturin.build_editable)
