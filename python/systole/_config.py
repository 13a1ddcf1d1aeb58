"""What the simulated device is: chip, topology, mode."""

from __future__ import annotations

import os
import sys
from typing import Mapping

_VARIABLES = {"chip": "SYSTOLE_CHIP", "topology": "SYSTOLE_TOPOLOGY", "set": "SYSTOLE_SET", "mode": "SYSTOLE_MODE"}


def _backend_is_up() -> bool:
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and "systole" in getattr(bridge, "_backends", {})


def configured() -> dict[str, str]:
    """The settings that the device has or will have; settings that are not there have their defaults."""
    return {k: os.environ[v] for k, v in _VARIABLES.items() if os.environ.get(v)}


def configure(
    *,
    chip: str | None = None,
    topology: str | int | None = None,
    set: Mapping[str, object] | None = None,
    timing_only: bool | None = None,
    allow_zeros: bool | None = None,
    live: str | os.PathLike[str] | None = None,
) -> None:
    """Chooses the device of ``JAX_PLATFORMS=systole``, before JAX is first used.

    Args:
      chip: a preset (``"tpu-v5e"``, ``"tpu-v6e"``, ..) or the path of a chip file.
      topology: how many chips, or their shape: ``8``, ``"2x4"``, ``"ring:8"``.
      set: parameters of the chip that are changed: ``{"mxu.rows": 256, "hbm.bandwidth": "1600GB/s"}``.
      timing_only: count cycles and hand back zeros. May be changed at any time.
      allow_zeros: let those zeros be read; without it reading them is an error. May be changed at any time.
      live: a folder where the newest run of every program is kept, for ``systole top --attach FOLDER`` in another terminal.

    The environment says the same: ``SYSTOLE_CHIP``, ``SYSTOLE_TOPOLOGY``, ``SYSTOLE_SET`` (``key=value`` between semicolons),
    ``SYSTOLE_MODE`` (``full``, ``timing``, ``numeric``), ``SYSTOLE_LIVE``.
    """
    wanted = {
        "chip": chip,
        "topology": None if topology is None else str(topology),
        "set": None if set is None else ";".join(f"{k}={v}" for k, v in set.items()),
    }
    if _backend_is_up() and any(v is not None and os.environ.get(_VARIABLES[k]) != v for k, v in wanted.items()):
        raise RuntimeError("the device is in use already: call systole.configure before the first use of JAX")
    for key, value in wanted.items():
        if value is not None:
            os.environ[_VARIABLES[key]] = value
    if live is not None:
        os.environ["SYSTOLE_LIVE"] = os.fspath(live)
    if timing_only is not None:
        import warnings

        from ._native_calls import library, opened

        mode = b"timing" if timing_only else b"full"
        os.environ["SYSTOLE_MODE"] = mode.decode()
        opened(library().systole_set_mode(mode, len(mode)))
        if timing_only and not allow_zeros:
            warnings.warn("timing only: programs count cycles, and their results are zeros", stacklevel=2)
    if allow_zeros is not None:
        from ._native_calls import library

        library().systole_allow_made_up(allow_zeros)
