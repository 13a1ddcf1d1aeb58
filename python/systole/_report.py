"""What a run cost: tables, pictures, checks."""

from __future__ import annotations

import html
import os
import tempfile
import webbrowser
from typing import Any

from ._native_calls import SystoleError, library, opened


class Profile:
    """A recorded run: what ``systole top``, ``systole trace`` and ``systole report`` read."""

    def __init__(self, data: bytes):
        self.data = data

    def save(self, path: str | os.PathLike[str]) -> str:
        """Writes the profile's file; its path."""
        with open(path, "wb") as f:
            f.write(self.data)
        return os.fspath(path)

    def export(self, form: str) -> bytes:
        """The profile as ``"html"`` (a page), ``"xplane"`` (for XProf), ``"roofline"`` or ``"units"`` (pictures, SVG)."""
        name = form.encode()
        _, blobs = opened(library().systole_export(self.data, len(self.data), name, len(name)))
        return blobs[0]

    def open(self) -> str:
        """Opens the page in a browser; its path."""
        with tempfile.NamedTemporaryFile(suffix=".html", delete=False) as f:
            f.write(self.export("html"))
        webbrowser.open("file://" + f.name)
        return f.name


class Report:
    """Cycles and where they went.

    Every field of ``systole run --report json`` is an attribute (``report.cycles``, ``report.units``, ``report.ops``, ..) and in
    ``report.data``.
    """

    def __init__(self, name: str, data: dict[str, Any], outputs: Any = None, profile: bytes | None = None):
        self.name = name
        self.data = data
        #: What the function gave, for :func:`systole.run`; zeros that mean nothing if only cycles were counted.
        self.outputs = outputs
        self._profile = profile

    def __getattr__(self, key: str) -> Any:
        try:
            return self.__dict__["data"][key]
        except KeyError:
            raise AttributeError(f"a report has no `{key}`; it has {', '.join(self.__dict__.get('data', {}))}") from None

    def __repr__(self) -> str:
        share = f", {self.peak_share:.1%} of peak" if self.flops else ""
        return f"<systole.Report {self.name}: {self.cycles} cycles, {self.time_s * 1e6:.2f} us on {self.chip}{share}, bound by {self.bound}>"

    @property
    def profile(self) -> Profile:
        """The recorded run."""
        if self._profile is None:
            raise SystoleError("no profile was recorded: ask for it with profile=True")
        return Profile(self._profile)

    def table(self, what: str = "ops") -> list[dict[str, Any]]:
        """Rows for ``pandas.DataFrame``: ``"ops"``, ``"units"`` (each cause of stalls has a column), and of Pallas kernels ``"lines"``,
        ``"regions"``, ``"rooms"`` (what they keep in vector memory) and ``"lint"``; these are empty for other programs.
        """
        tables = ("ops", "units", "lines", "regions", "rooms", "lint")
        if what not in tables:
            raise ValueError(f"table `{what}`: one of {', '.join(tables)} is expected")
        rows = []
        for row in self.data.get(what, []):
            flat: dict[str, Any] = {}
            for key, value in row.items():
                if isinstance(value, dict):
                    flat.update({f"{key}_{k}": v for k, v in value.items()})
                else:
                    flat[key] = value
            rows.append(flat)
        return rows

    def utilisation(self, unit: str) -> float:
        """The useful share of the cycles of the units whose names begin so: ``"mxu"``, ``"vpu"``, ..."""
        units = [u for u in self.units if u["unit"].startswith(unit)]
        if not units:
            known = sorted({u["unit"] for u in self.units})
            raise SystoleError(f"there is no unit `{unit}`; there are {', '.join(known)}")
        return sum(u["useful"] for u in units) / max(1, self.cycles * len(units))

    def assert_cycles(self, *, at_most: int) -> None:
        """Fails, with the longest operations, if the run took more cycles."""
        if self.cycles > at_most:
            raise AssertionError(f"{self.name} took {self.cycles} cycles, more than {at_most}; {self._longest()}")

    def assert_utilisation(self, unit: str, *, at_least: float) -> None:
        """Fails, with the longest operations, if a unit's useful share is less."""
        share = self.utilisation(unit)
        if share < at_least:
            raise AssertionError(
                f"{self.name} uses {unit} for {share:.1%} of its cycles, less than {at_least:.1%}; {self._longest()}"
            )

    def assert_bound(self, *units: str) -> None:
        """Fails if something else limits the run: ``report.assert_bound("mxu", "hbm")``."""
        if self.bound not in units:
            raise AssertionError(f"{self.name} is bound by {self.bound}, not by {' or '.join(units)}; {self._longest()}")

    def _longest(self) -> str:
        ops = sorted(self.ops, key=lambda o: -o["cycles"])[:3]
        return "longest: " + ", ".join(f"{o['name']} {o['cycles']} ({o['bound']})" for o in ops)

    def _repr_html_(self) -> str:
        text = html.escape
        bars = []
        for u in self.units:
            total = max(1, self.cycles)
            useful, busy = u["useful"] / total, u["busy"] / total
            stall = sum(u["stall"].values()) / total
            if busy + stall == 0:
                continue
            bars.append(
                f"<tr><td>{text(u['unit'])}</td><td><div style='display:flex;width:20em;height:1em;background:#ddd'>"
                f"<div style='width:{useful:.2%};background:#2a7'></div>"
                f"<div style='width:{max(0.0, busy - useful):.2%};background:#8cb'></div>"
                f"<div style='width:{stall:.2%};background:#e94'></div></div></td>"
                f"<td style='text-align:right'>{useful:.1%}</td></tr>"
            )
        ops = "".join(
            f"<tr><td>{text(o['name'])}</td><td>{text(o['opcode'])}</td><td style='text-align:right'>{o['cycles']}</td>"
            f"<td style='text-align:right'>{o['cycles'] / max(1, self.cycles):.1%}</td><td>{text(str(o['bound']))}</td></tr>"
            for o in sorted(self.ops, key=lambda o: -o["cycles"])[:10]
        )
        picture = ""
        if self._profile is not None:
            picture = self.profile.export("roofline").decode()
        return (
            f"<b>{text(self.name)}</b>: {self.cycles} cycles, {self.time_s * 1e6:.2f} µs on {text(self.chip)}, bound by "
            f"{text(self.bound)}<table>{''.join(bars)}</table>"
            f"<div>green: useful, light: busy, orange: stalled</div>"
            f"<table><tr><th>operation</th><th>opcode</th><th>cycles</th><th>share</th><th>bound</th></tr>{ops}</table>{picture}"
        )
