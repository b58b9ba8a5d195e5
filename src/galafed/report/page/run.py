"""The page of one run, finished or still going on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from galafed.config import read_toml
from galafed.report.live import PHASES
from galafed.report.page.charts import Bars, Curves, Heat, Mark
from galafed.report.page.document import Fact, Page, Section, table
from galafed.report.page.looks import looks
from galafed.report.page.reading import headline, relevances
from galafed.report.words import megabytes, percent, with_note
from galafed.runs.folders import CONFIG
from galafed.runs.records import metrics, record
from galafed.runs.selection import best, selected

if TYPE_CHECKING:
    from galafed.report.page.insight import Insight

Line = Mapping[str, Any]


def run_page(folder: Path, insight: Insight | None = None, *, missing: str = "", live: bool = False) -> Page:
    """The page of a run from its records and, where they were looked at, from its model and images.

    `missing` says why they were not.
    """
    values, lines = read_toml(folder / CONFIG), metrics(folder)
    run = {"notes": {}, "relevance": {}, "seconds_per_round": None} | values | record(folder)
    rule = str(values.get("selection", "discrepancy"))
    classes = run.get("classes") or _numbers(lines)
    sections = [
        _progress(run, rule, lines),
        _relevance(run, lines, classes),
        *([_similarity(lines, classes)] if lines and lines[-1].get("class_similarity") else []),
        *(looks(insight, classes) if insight else []),
        *([Section("images", "Images", [missing])] if missing else []),
        _costs(run, lines),
        _failures(lines),
        Section("configuration", "Configuration", html=f"<pre>{escape(_text(folder / CONFIG))}</pre>"),
    ]
    return Page(
        title=f"{run['algorithm']} → {with_note(run['target'], run['notes'].get(run['target'], ''))}",
        sentence=headline(run) if run["done"] else _so_far(run),
        facts=_facts(run, rule, lines),
        sections=sections,
        live=live,
    )


def _facts(run: Mapping[str, Any], rule: str, lines: Sequence[Line]) -> list[Fact]:
    rounds = int(run["rounds"])
    tested = [line for line in lines if line["accuracy"] is not None]
    if not tested:
        return []
    last, pick, top = tested[-1], selected(lines, rounds, rule), best(lines)
    facts = [Fact("accuracy, last round", percent(last["accuracy"]), "the result", "good")]
    if pick:
        facts.append(
            Fact("label-free pick", percent(pick["accuracy"]), f"round {pick['round']}, no labels used", "pick")
        )
    if top:
        facts.append(
            Fact("best round: oracle", percent(top["accuracy"]), f"round {top['round']}, by test labels", "oracle")
        )
    facts.append(Fact("rounds", f"{lines[-1]['round']} of {rounds}"))
    facts.append(Fact("time a round", f"{fmean(line['seconds'] for line in lines):.2f} s", str(run.get("device", ""))))
    traffic = median(line["bytes"]["server"] for line in lines)
    facts.append(Fact("traffic a round", megabytes(traffic), "through the server, both ways"))
    return facts


def _progress(run: Mapping[str, Any], rule: str, lines: Sequence[Line]) -> Section:
    """Accuracy with its three marked rounds; loss and discrepancy."""
    if not lines:
        return Section("accuracy", "Accuracy", ["No round is done yet."])
    tested = [(line["round"], line["accuracy"]) for line in lines if line["accuracy"] is not None]
    marks = []
    pick, top = selected(lines, int(run["rounds"]), rule), best(lines)
    if tested:
        marks.append(Mark("accuracy", *tested[-1], "last round", "last"))
    if pick:
        marks.append(Mark("accuracy", pick["round"], pick["accuracy"], "label-free pick", "pick"))
    if top:
        marks.append(Mark("accuracy", top["round"], top["accuracy"], "best, oracle", "oracle"))
    losses = {
        "training loss of the sources": [(line["round"], line["loss"]) for line in lines if line["loss"] is not None],
        "discrepancy on the target": [(n["round"], n["discrepancy"]) for n in lines if n["discrepancy"] is not None],
    }
    charts = [
        Curves(series={"accuracy": tested}, format="percent", low=0, high=1, marks=marks).chart(
            "accuracy-chart",
            "Test accuracy on the target",
            "The last round is the result. The best round is an oracle: it is chosen with test labels.",
        ),
        Curves(series={name: points for name, points in losses.items() if points}, low=0).chart(
            "loss-chart",
            "Loss and discrepancy",
            "How well the sources fit their own labels, and how much predictors disagree on the unlabelled target.",
        ),
    ]
    return Section("accuracy", "Accuracy, loss and discrepancy", charts=charts)


def _relevance(run: Mapping[str, Any], lines: Sequence[Line], classes: Sequence[str]) -> Section:
    names = sorted({name for line in lines for name in line["relevance"]})
    if not names:
        words = "Nothing is known yet." if not run["done"] else f"{run['algorithm']} does not weigh its sources."
        return Section("relevance", "Relevance of the sources", [words])
    curves = {
        with_note(name, run["notes"].get(name, "")): [
            (line["round"], line["relevance"][name]) for line in lines if name in line["relevance"]
        ]
        for name in names
    }
    chart = Curves(series=curves, low=0).chart(
        "relevance-chart",
        "Relevance of each source",
        "Weights with which the sources' models are averaged; they add up to 1 in every round.",
    )
    return Section(
        "relevance",
        "Relevance of the sources",
        reading=relevances(lines, classes, run["notes"]),
        charts=[chart],
    )


def _similarity(lines: Sequence[Line], classes: Sequence[str]) -> Section:
    last = lines[-1]["class_similarity"]
    names = list(last)
    smallest = min(value for row in last.values() for value in row)
    chart = Heat(
        rows=names,
        columns=classes,
        values=[last[name] for name in names],
        rows_title="source",
        columns_title="class",
        low=min(0.9, smallest),
        high=1.0,
    ).chart(
        "similarity-chart",
        "Similarity of class centroids to the target's",
        f"Cosine between the centroid of a class at a source and at the target, in round {lines[-1]['round']}. "
        "Their sum is what the relevance is made of.",
    )
    return Section("similarity", "Class by class", charts=[chart])


def _costs(run: Mapping[str, Any], lines: Sequence[Line]) -> Section:
    """Traffic of every site and time of every phase, in the median and the mean round."""
    if not lines:
        return Section("costs", "Traffic and time", ["No round is done yet."])
    charts = []
    sites = sorted({name for line in lines for name in line.get("sites", {})})
    if sites:
        ways = {
            way: [median(line["sites"].get(s, {}).get(key, 0) for line in lines if "sites" in line) for s in sites]
            for way, key in (("received", "down"), ("sent", "up"))
        }
        about = "Bytes each site received and sent in the median round. Images and labels are not among them."
        charts.append(
            Bars(names=sites, series=ways, format="bytes", stacked=True).chart(
                "traffic-chart", "Traffic of each site", about
            )
        )
    tasks = list(dict.fromkeys(task for line in lines for task in line.get("phases", {})))
    if tasks:
        spent = [fmean(line.get("phases", {}).get(task, 0.0) for line in lines) for task in tasks]
        rest = max(0.0, fmean(line["seconds"] for line in lines) - sum(spent))
        charts.append(
            Bars(
                names=[*(PHASES.get(task, task) for task in tasks), "averaging, testing"],
                series={"seconds": [*spent, rest]},
                format="seconds",
            ).chart(
                "time-chart", "Time of each phase", f"Mean over {len(lines)} rounds, on {run.get('device', 'cpu')}."
            )
        )
    words = [] if charts else ["This run was made by an earlier version, which did not record sites and phases."]
    return Section("costs", "Traffic and time", words, charts=charts)


def _failures(lines: Sequence[Line]) -> Section:
    rows = [
        [str(line["round"]), f["client"], f["task"], f["kind"], f["reason"]] for line in lines for f in line["failures"]
    ]
    if not rows:
        return Section("failures", "Failures", ["None: every client answered every question."])
    head = ["round", "client", "task", "kind", "reason"]
    words = [f"{len(rows)} answers were missing or refused; the others' weights were renormalised."]
    return Section("failures", "Failures", words, html=table(head, rows, caption="Failures", words=4))


def _so_far(run: Mapping[str, Any]) -> str:
    return (
        f"{run['algorithm']} is adapting {run['network']} to {run['target']} of {run['benchmark']}: round "
        f"{run['rounds_done']} of {run['rounds']} is done."
    )


def _numbers(lines: Sequence[Line]) -> list[str]:
    """Class names of a run that does not tell them."""
    rows: Mapping[str, list[float]] = next(
        (line["class_similarity"] for line in lines if line.get("class_similarity")), {}
    )
    return [str(number) for number in range(max(map(len, rows.values()), default=0))]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
