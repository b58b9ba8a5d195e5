"""A page as one HTML file: style, script, numbers and pictures inside; it asks no host for anything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files

from galafed import __version__
from galafed.report.page.charts import Chart

SCRIPTS = ("core.js", "line.js", "heat.js", "bars.js", "scatter.js", "page.js")

POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Fact:
    """A number at the top of a page."""

    name: str
    value: str
    remark: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a page: words, charts, and whatever HTML of its own."""

    key: str
    title: str
    words: Sequence[str] = ()
    reading: Sequence[str] = ()
    charts: Sequence[Chart] = ()
    html: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """Everything that is shown."""

    title: str
    sentence: str
    facts: Sequence[Fact] = ()
    sections: Sequence[Section] = field(default_factory=tuple)
    live: bool = False

    def html(self) -> str:
        """The file."""
        style = files("galafed.report.page").joinpath("assets/page.css").read_text("utf-8")
        script = "\n".join(
            files("galafed.report.page").joinpath(f"assets/{name}").read_text("utf-8") for name in SCRIPTS
        )
        return "".join(
            [
                '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
                f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n',
                '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
                '<meta name="referrer" content="no-referrer">\n',
                '<link rel="icon" href="data:,">\n',  # else a browser asks the server for one
                f"<title>{escape(self.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n",
                '<a class="skip" href="#top">Skip to the content</a>\n',
                self._main(),
                '<div id="tip" role="status" hidden></div>\n',
                f"<script>\n{script}</script>\n</body>\n</html>\n",
            ]
        )

    def _main(self) -> str:
        charts = {chart.id: chart.drawing for section in self.sections for chart in section.charts}
        # "<" is written so that no text in the data can end the script element.
        data = json.dumps(charts, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        links = "".join(f'<li><a href="#{s.key}">{escape(s.title)}</a></li>' for s in self.sections)
        facts = "".join(
            f'<li class="{f.kind}"><span>{escape(f.name)}</span><b>{escape(f.value)}</b>'
            f"{f'<small>{escape(f.remark)}</small>' if f.remark else ''}</li>"
            for f in self.facts
        )
        body = "".join(
            [
                f"<h1>{escape(self.title)}</h1>\n<p>{escape(self.sentence)}</p>\n",
                f'<p><span class="state" id="state" role="status">{"live" if self.live else "done"}</span></p>\n'
                if self.live
                else '<span id="state" hidden></span>\n',
                f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n',
                f'<ul class="facts">{facts}</ul>\n' if facts else "",
                *map(_section, self.sections),
                f"<footer>Made by galafed {__version__}. Nothing on this page was fetched from a network.</footer>\n",
                f'<script type="application/json" id="charts">{data}</script>\n',
            ]
        )
        version = hashlib.sha256(body.encode()).hexdigest()[:16]
        live = ' data-live="yes"' if self.live else ""
        return f'<main id="top"{live}>\n{body}<span id="version" hidden>{version}</span>\n</main>\n'


def _section(section: Section) -> str:
    words = "".join(f"<p>{escape(text)}</p>\n" for text in section.words)
    reading = "".join(f"<li>{escape(text)}</li>\n" for text in section.reading)
    reading = f'<ul class="reading">{reading}</ul>\n' if reading else ""
    charts = "".join(map(_figure, section.charts))
    if len(section.charts) > 1:
        charts = f'<div class="pair">{charts}</div>\n'
    return (
        f'<section aria-labelledby="{section.key}">\n<h2 id="{section.key}">{escape(section.title)}</h2>\n{words}'
        f"{reading}{charts}{section.html}</section>\n"
    )


def _figure(chart: Chart) -> str:
    about = f"<p>{escape(chart.about)}</p>" if chart.about else ""
    return (
        f"<figure>\n<figcaption><h3>{escape(chart.title)}</h3>{about}</figcaption>\n"
        f'<div class="plot" data-chart="{chart.id}" role="group" tabindex="0" '
        f'aria-label="{escape(chart.told)}"></div>\n'
        f'<details id="table-{chart.id}"><summary>The numbers as a table</summary>'
        f"{table(chart.head, chart.rows, caption=chart.title)}</details>\n</figure>\n"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str, words: int = -1) -> str:
    """A table that scrolls where it is too wide; the column number `words` holds text."""

    def kind(number: int) -> str:
        return ' class="words"' if number == words else ""

    heads = "".join(f'<th scope="col"{kind(n)}>{escape(text)}</th>' for n, text in enumerate(head))
    lines = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{escape(text)}</th>' if n == 0 else f"<td{kind(n)}>{escape(text)}</td>"
            for n, text in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>"
    )
