"""Running functions, and collecting what runs cost."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Callable, Iterator, Mapping

import numpy as np

from ._native_calls import DTYPES, described, library, opened
from ._report import Report


def run(
    fn: Callable[..., Any],
    *args: Any,
    chip: str | None = None,
    set: Mapping[str, object] | None = None,
    timing_only: bool = False,
    profile: bool = True,
    compiler_options: Mapping[str, object] | None = None,
    **kwargs: Any,
) -> Report:
    """Runs ``fn(*args, **kwargs)`` on a simulated chip and tells what it cost.

    JAX's own platform does not matter and is not changed.

    Args:
      fn: a function of JAX, jitted or not.
      chip: a preset or the path of a chip file; ``tpu-v5e`` if nothing is said here or in ``SYSTOLE_CHIP``.
      set: parameters of the chip that are changed.
      timing_only: count cycles without computing; arguments may then be ``jax.ShapeDtypeStruct``.
      profile: record spans of time for ``report.profile``.
      compiler_options: as ``jax.jit`` takes them for this platform: ``{"systole_precision": "highest"}``.

    Raises:
      SystoleError: what the compiler or the program has to say.
    """
    import jax
    from jax import export

    from . import _lowering

    _lowering.install()
    jitted = fn if hasattr(fn, "lower") else jax.jit(fn)
    checks = [export.DisabledSafetyCheck.custom_call(t) for t in _lowering.TARGETS]
    exported = export.export(jitted, platforms=["systole"], disabled_checks=checks)(*args, **kwargs)
    flat = jax.tree_util.tree_leaves((args, kwargs))
    kept = [flat[i] for i in exported.module_kept_var_idx]
    arrays = []
    for leaf, aval in zip(kept, [exported.in_avals[i] for i in exported.module_kept_var_idx]):
        if timing_only and not hasattr(leaf, "__array__") and not np.isscalar(leaf):
            arrays.append(np.zeros(aval.shape, aval.dtype))
        else:
            arrays.append(np.asarray(leaf, aval.dtype))
    name = getattr(fn, "__name__", "function")
    asked = {"mode": "timing" if timing_only else "full", "name": name, "profile": profile}
    if chip is not None:
        asked["chip"] = chip
    if set:
        asked["set"] = [f"{k}={v}" for k, v in set.items()]
    if compiler_options:
        asked["options"] = {
            k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in compiler_options.items()
        }
    options = json.dumps(asked).encode()
    code = exported.mlir_module_serialized
    given, alive = described(arrays)
    answer, blobs = opened(library().systole_run(code, len(code), options, len(options), given, len(arrays)))
    del alive
    outputs = [
        np.frombuffer(blob, np.uint8).view(DTYPES[o["kind"]]).reshape(o["dims"])
        for o, blob in zip(answer["outputs"], blobs)
    ]
    number = answer["profile"]
    result = jax.tree_util.tree_unflatten(exported.out_tree, outputs) if not timing_only else None
    return Report(name, answer["report"], result, None if number is None else blobs[number])


class Collected(list[Report]):
    """The reports of the runs of a block, in order."""

    @property
    def cycles(self) -> int:
        """The cycles of all runs together."""
        return sum(r.cycles for r in self)

    def of(self, name: str) -> "Collected":
        """The runs of the programs whose name has ``name`` in it (``jit_step``)."""
        return Collected(r for r in self if name in r.name)


@contextlib.contextmanager
def collect(*, profile: bool = False) -> Iterator[Collected]:
    """Collects the runs of a block on JAX's platform ``systole``::

        with systole.collect() as runs:
            step(params, batch)
        assert runs.of("step").cycles < 100_000

    The list is filled when the block ends. ``profile``: with a profile of every run.
    """
    out, lib = Collected(), library()
    lib.systole_drain()
    opened(lib.systole_collect_take())
    lib.systole_collect_begin(profile)
    try:
        yield out
    finally:
        lib.systole_drain()
        lib.systole_collect_end(profile)
        answer, blobs = opened(lib.systole_collect_take())
        for r in answer:
            number = r["profile"]
            out.append(Report(r["name"], r["report"], None, None if number is None else blobs[number]))
