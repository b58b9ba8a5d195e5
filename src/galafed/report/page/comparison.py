"""The page of several runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from galafed.report.accuracy_table import SELECTIONS
from galafed.report.page.charts import Bars, Curves, Heat
from galafed.report.page.document import Page, Section
from galafed.report.words import percent
from galafed.runs.records import finished, metrics


def comparison_page(folders: Sequence[Path]) -> Page:
    """Accuracy over rounds, the three accuracies, relevance, time and traffic of finished runs."""
    runs = [finished(folder) for folder in folders]
    names = _names(folders)
    lines = dict(zip(names, map(metrics, folders), strict=True))
    lasts = {name: run["accuracy"]["last"] for name, run in zip(names, runs, strict=True)}
    tested = {name: last for name, last in lasts.items() if last is not None}
    top = max(tested, key=tested.__getitem__, default=None)
    accuracy = {n: [(x["round"], x["accuracy"]) for x in ls if x["accuracy"] is not None] for n, ls in lines.items()}
    discrepancy = {
        n: [(x["round"], x["discrepancy"]) for x in ls if x["discrepancy"] is not None] for n, ls in lines.items()
    }
    three = {words: [run["accuracy"][key] for run in runs] for key, words in SELECTIONS.items()}
    sources = sorted({source for run in runs for source in run["relevance"]})
    curves = []
    if any(accuracy.values()):
        curves.append(
            Curves(
                series={n: points for n, points in accuracy.items() if points}, format="percent", low=0, high=1
            ).chart("accuracy-chart", "Test accuracy on the target", "Press a name to hide or show a run.")
        )
    if any(discrepancy.values()):
        curves.append(
            Curves(series={n: points for n, points in discrepancy.items() if points}, low=0).chart(
                "discrepancy-chart", "Discrepancy on the target", "How much predictors disagree, without any label."
            )
        )
    costs = [
        Bars(names=names, series={"seconds": [run["seconds_per_round"] for run in runs]}, format="seconds").chart(
            "time-chart", "Time of a round", "Only runs on the same machine can be compared."
        ),
        Bars(names=names, series={"bytes": [run["bytes"]["all"]["server"] for run in runs]}, format="bytes").chart(
            "traffic-chart", "Traffic of a round", "Through the server, both ways, in the median round."
        ),
    ]
    relevance = Heat(
        rows=names,
        columns=sources,
        values=[[run["relevance"].get(source) for source in sources] for run in runs],
        rows_title="run",
        columns_title="source",
        low=0.0,
    ).chart(
        "relevance-chart", "Relevance of each source in the last round", "An empty cell: the run does not weigh it."
    )
    in_the_end = Bars(names=names, series=three, format="percent", high=1.0).chart(
        "three-chart",
        "Last round, label-free pick, best round",
        "The last round is the result; the best round is an oracle, chosen with test labels.",
    )
    return Page(
        title=f"{len(runs)} runs side by side",
        sentence=f"{top} is ahead with {percent(tested[top])} after its last round."
        if top is not None
        else "Who is ahead cannot be told: no target has test labels.",
        sections=[
            *([Section("accuracy", "Over the rounds", charts=curves)] if curves else []),
            *([Section("three", "In the end", charts=[in_the_end])] if tested else []),
            *([Section("relevance", "Relevance", charts=[relevance])] if sources else []),
            Section("costs", "Time and traffic", charts=costs),
        ],
    )


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names where these tell them apart, whole paths otherwise."""
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]
