"""Trying a Pallas kernel with other block sizes."""

from __future__ import annotations

import html
import itertools
import math
import sys
from typing import Any, Callable, Iterable, Mapping, Sequence

from ._native_calls import SystoleError
from ._report import Report
from ._run import run

Config = dict[str, Any]


class Trial:
    """One configuration and what became of it."""

    def __init__(self, config: Config, report: Report | None, vmem: int | None, error: str = ""):
        #: The arguments that the kernel was made with.
        self.config = config
        #: What the run cost; ``None`` if the kernel was refused or at fault.
        self.report = report
        #: Bytes of vector memory that windows (each twice where there are several steps) and scratch take.
        self.vmem = vmem
        #: Why there is no report.
        self.error = error

    @property
    def cycles(self) -> float:
        """Cycles; infinite if there is no report."""
        return math.inf if self.report is None else self.report.cycles

    def row(self) -> dict[str, Any]:
        """For ``pandas.DataFrame``."""
        row: dict[str, Any] = dict(self.config)
        row["vmem"] = self.vmem
        if self.report is None:
            return row | {"cycles": None, "us": None, "peak": None, "stalls": None, "bound": None, "error": self.error}
        r = self.report
        issue = next((u for u in r.units if u["unit"] == "issue"), None)
        stalled = sorted(issue["stall"].items(), key=lambda s: -s[1]) if issue else []
        stalls = {cause: n / max(1, r.cycles) for cause, n in stalled if n * 100 >= r.cycles}
        peak = r.peak_share if r.flops else None
        return row | {"cycles": r.cycles, "us": r.time_s * 1e6, "peak": peak, "stalls": stalls, "bound": r.bound, "error": ""}


class Tuning(Sequence[Trial]):
    """All configurations that were tried, the fastest first."""

    def __init__(self, trials: Iterable[Trial]):
        self._trials = sorted(trials, key=lambda t: t.cycles)

    def __getitem__(self, i):
        return self._trials[i]

    def __len__(self) -> int:
        return len(self._trials)

    @property
    def best(self) -> Trial:
        """The fastest configuration.

        Raises:
          SystoleError: none ran.
        """
        if not self._trials or self._trials[0].report is None:
            why = "; ".join(dict.fromkeys(t.error for t in self._trials)) or "there are none"
            raise SystoleError(f"no configuration ran: {why}")
        return self._trials[0]

    def table(self) -> list[dict[str, Any]]:
        """A row for every configuration: its arguments, ``cycles``, ``us``, ``peak``, ``vmem`` (bytes), ``stalls`` (share of the
        cycles by cause), ``bound``, ``error``."""
        return [t.row() for t in self._trials]

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        names = list(dict.fromkeys(k for t in self._trials for k in t.config))
        rows = []
        for r in self.table():
            said = [str(r.get(n, "")) for n in names]
            vmem = "" if r["vmem"] is None else f"{r['vmem'] / (1 << 20):.2f}"
            if r["cycles"] is None:
                rows.append(said + ["", "", vmem, "", r["error"].splitlines()[0] if r["error"] else ""])
                continue
            peak = "" if r["peak"] is None else f"{r['peak']:.1%}"
            stalls = ", ".join(f"{c} {s:.0%}" for c, s in list(r["stalls"].items())[:3])
            rows.append(said + [f"{r['cycles']}", peak, vmem, stalls, r["bound"]])
        return names + ["cycles", "of peak", "VMEM MiB", "issue stalled by", "bound"], rows

    def __repr__(self) -> str:
        head, rows = self._cells()
        widths = [max(len(r[i]) for r in [head] + rows) for i in range(len(head))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in [head] + rows)

    def _repr_html_(self) -> str:
        head, rows = self._cells()

        def line(row: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in row) + "</tr>"

        return f"<table>{line(head, 'th')}{''.join(line(r, 'td') for r in rows)}</table>"


def _configs(candidates: Mapping[str, Sequence[Any]] | Iterable[Config]) -> list[Config]:
    if isinstance(candidates, Mapping):
        names = list(candidates)
        return [dict(zip(names, values)) for values in itertools.product(*candidates.values())]
    return [dict(c) for c in candidates]


def _kernels(jaxpr: Any) -> Iterable[Any]:
    """The parameters of every ``pallas_call`` in a jaxpr."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pallas_call":
            yield eqn.params
            continue
        for value in eqn.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _kernels(inner)


def _bytes(aval: Any) -> int:
    """Bytes of an array in vector memory: rows padded to eight, columns to 128."""
    inner = getattr(aval, "inner_aval", aval)
    shape, dtype = list(getattr(inner, "shape", ())), getattr(inner, "dtype", None)
    size = getattr(dtype, "itemsize", None)
    if size is None:
        return 0
    shape = [1] * (2 - len(shape)) + shape
    shape[-1] = -(-shape[-1] // 128) * 128
    shape[-2] = -(-shape[-2] // 8) * 8
    return math.prod(shape) * size


def _vmem(params: Any) -> int:
    """Bytes of vector memory that a kernel's windows and scratch take."""
    mapping = params["grid_mapping"]
    places = 2 if math.prod(n if isinstance(n, int) else 1 for n in mapping.grid) > 1 else 1
    near = lambda aval: str(getattr(aval, "memory_space", None)).lower() in ("none", "default", "vmem")
    blocks = [b.transformed_block_aval for b in mapping.block_mappings]
    # The last arguments of the kernel are its scratch.
    scratch = [v.aval for v in params["jaxpr"].invars[-mapping.num_scratch_operands :]] if mapping.num_scratch_operands else []
    return sum(places * _bytes(a) for a in blocks if near(a)) + sum(_bytes(a) for a in scratch if near(a))


def tune_kernel(
    make: Callable[..., Callable[..., Any]],
    candidates: Mapping[str, Sequence[Any]] | Iterable[Config],
    *args: Any,
    chip: str | None = None,
    set: Mapping[str, object] | None = None,
    timing_only: bool = True,
    progress: bool | None = None,
) -> Tuning:
    """Runs a kernel in every configuration and tells which is the fastest.

    ::

        def make(rows, columns):
            return pl.pallas_call(kernel, grid=(n // rows, n // columns), ...)

        tuning = systole.tune_kernel(make, {"rows": [128, 256, 512], "columns": [128, 256]}, x, y, chip="tpu-v5e")
        print(tuning)                  # a table, the fastest first
        fast = make(**tuning.best.config)

    A configuration that is refused (by JAX, by the compiler, for want of vector memory) or at fault stays in the table, with
    the reason.

    Args:
      make: gives the function to run for a configuration's values, which it gets by name.
      candidates: values by name, all combinations of which are tried; or the configurations themselves.
      args: the function's arguments; ``jax.ShapeDtypeStruct`` where cycles do not depend on values.
      chip: a preset or the path of a chip file, as for :func:`systole.run`.
      set: parameters of the chip that are changed.
      timing_only: count cycles without computing. Kernels whose control flow depends on their inputs need ``False``.
      progress: whether to show how far it is; if nothing is said, where standard error is a terminal.
    """
    import jax

    configs = _configs(candidates)
    shown = sys.stderr.isatty() if progress is None else progress
    trials: list[Trial] = []
    best = math.inf
    for i, config in enumerate(configs):
        said = ", ".join(f"{k}={v}" for k, v in config.items())
        if shown:
            sofar = "" if best == math.inf else f", best so far {best} cycles"
            sys.stderr.write(f"\r\x1b[K[{i + 1}/{len(configs)}] {said}{sofar}")
            sys.stderr.flush()
        vmem = None
        try:
            fn = make(**config)
            vmem = sum(_vmem(p) for p in _kernels(jax.make_jaxpr(fn)(*args).jaxpr))
            report = run(fn, *args, chip=chip, set=set, timing_only=timing_only, profile=False)
            trials.append(Trial(config, report, vmem))
            best = min(best, report.cycles)
        except KeyboardInterrupt:
            raise
        except Exception as e:  # What a candidate is refused with belongs in the table.
            trials.append(Trial(config, None, vmem, f"{type(e).__name__}: {e}" if not isinstance(e, SystoleError) else str(e)))
    if shown:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
    return Tuning(trials)
