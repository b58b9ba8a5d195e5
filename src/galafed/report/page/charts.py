"""A chart of a page: what is drawn, in words for those who do not see it, and as a table of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Format = Literal["", "percent", "bytes", "seconds", "whole", "points", "signed"]
"""How numbers are told: shares as percent, bytes, seconds, counts; percent as they are, and differences of them."""
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """One figure; `drawing` goes to the script, the rest is HTML."""

    id: str
    title: str
    about: str
    """A sentence below the title."""
    told: str
    """What a screen reader says instead of the picture."""
    drawing: Mapping[str, Any]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    """The numbers behind the picture."""


@dataclass(frozen=True)
class Mark:
    """A point of a curve that is named in the picture."""

    series: str
    x: float
    y: float
    name: str
    kind: str

    def plain(self) -> dict[str, Any]:
        """For the script."""
        return vars(self)


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Curves over rounds, by name."""

    series: Mapping[str, Points]
    format: Format = ""
    low: float | None = None
    high: float | None = None
    x: str = "round"
    marks: Sequence[Mark] = field(default_factory=tuple)

    def chart(self, key: str, title: str, about: str) -> Chart:
        """The chart, with a column for each curve."""
        rounds = sorted({x for points in self.series.values() for x, _ in points})
        values = {name: dict(points) for name, points in self.series.items()}
        ends = [f"{name} from {_text(p[0][1], self.format)} to {_text(p[-1][1], self.format)}"
                for name, p in self.series.items() if p]  # fmt: skip
        return Chart(
            id=key,
            title=title,
            about=about,
            told=f"{title}, a line chart over {len(rounds)} rounds: {'; '.join(ends)}.",
            drawing={
                "kind": "line",
                "id": key,
                "x": self.x,
                "format": self.format,
                **{k: v for k, v in (("low", self.low), ("high", self.high)) if v is not None},
                "series": [{"name": name, "points": [list(p) for p in pts]} for name, pts in self.series.items()],
                "marks": [mark.plain() for mark in self.marks],
            },
            head=[self.x, *self.series],
            rows=[[f"{x:g}", *(_text(values[name].get(x), self.format) for name in self.series)] for x in rounds],
        )


@dataclass(frozen=True, kw_only=True)
class Heat:
    """A matrix of numbers as coloured cells."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]
    rows_title: str
    columns_title: str
    format: Format = ""
    cell: Format = ""
    low: float | None = None
    high: float | None = None
    middle: float | None = None
    """Where colours part: what is below has another one than what is above."""

    def chart(self, key: str, title: str, about: str) -> Chart:
        """The chart, with the same matrix as its table."""
        return Chart(
            id=key,
            title=title,
            about=about,
            told=f"{title}, a table of {len(self.rows)} by {len(self.columns)} coloured cells; "
            f"rows are {self.rows_title}, columns {self.columns_title}. The numbers follow as a table.",
            drawing={"kind": "heat", "id": key}
            | {k: v for k, v in vars(self).items() if v is not None and k != "values"}
            | {"values": [list(row) for row in self.values]},
            head=[self.rows_title, *self.columns],
            rows=[
                [name, *(_text(value, self.format) for value in row)]
                for name, row in zip(self.rows, self.values, strict=True)
            ],
        )


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Horizontal bars, of one or several series."""

    names: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    format: Format = ""
    stacked: bool = False
    high: float | None = None

    def chart(self, key: str, title: str, about: str) -> Chart:
        """The chart, with a row for each name."""
        return Chart(
            id=key,
            title=title,
            about=about,
            told=f"{title}, a bar chart of {len(self.names)} bars. The numbers follow as a table.",
            drawing={
                "kind": "bars",
                "id": key,
                "names": list(self.names),
                "stacked": self.stacked,
                "format": self.format,
                **({} if self.high is None else {"high": self.high}),
                "series": [{"name": name, "values": list(values)} for name, values in self.series.items()],
            },
            head=["", *self.series],
            rows=[
                [name, *(_text(values[n], self.format) for values in self.series.values())]
                for n, name in enumerate(self.names)
            ],
        )


def _text(value: float | None, form: Format) -> str:
    """A number of a table."""
    if value is None:
        return "–"
    if form == "percent":
        return f"{100 * value:.1f} %"
    if form == "bytes":
        return f"{value / 1e6:.3f} MB"
    if form == "seconds":
        return f"{value:.3f} s"
    if form in ("points", "signed"):
        return f"{value:{'+z' if form == 'signed' else ''}.1f}"
    return f"{value:.0f}" if form == "whole" else f"{value:.3f}"
