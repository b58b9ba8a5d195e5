"""The sections that need the final model and the images: mistakes, certain and uncertain images, the map."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from galafed.report.page.charts import Chart, Heat
from galafed.report.page.document import Section
from galafed.report.page.reading import confusions
from galafed.report.words import percent

if TYPE_CHECKING:
    from galafed.report.page.insight import Insight, Shot


def looks(insight: Insight, classes: Sequence[str]) -> list[Section]:
    """What was found by looking at the model and the images."""
    shares = [[count / max(sum(row), 1) for count in row] for row in insight.confusion]
    confusion = Heat(
        rows=classes,
        columns=classes,
        values=shares,
        rows_title="true class",
        columns_title="predicted as",
        format="percent",
        cell="percent",
        low=0.0,
        high=1.0,
    ).chart(
        "confusion-chart", "Confusion matrix", "Share in % of the target's test images of each class. Uses test labels."
    )
    found = insight.map
    places = [{"name": name, "points": place.tolist()} for name, place in zip(found.names, found.places, strict=True)]
    scatter = Chart(
        id="map-chart",
        title="Map of the features (t-SNE)",
        about="Each point is a training image; diamonds are the target's. Near points have similar features. Target "
        "labels serve for the colours alone.",
        told=f"Map of the features, two scatter plots of {len(found.of_domain)} images of {len(found.domains)} "
        "domains, before and after adaptation. Where it succeeded, images of a class lie together.",
        drawing={
            "kind": "scatter",
            "id": "map-chart",
            "panels": places,
            "colour_by": {
                "domain": {"names": list(found.domains), "of": list(found.of_domain)},
                "class": {"names": list(classes), "of": list(found.of_class)},
            },
            "emphasis": [int(number == 0) for number in found.of_domain],
        },
        head=["domain", "images"],
        rows=[[name, str(list(found.of_domain).count(n))] for n, name in enumerate(found.domains)],
    )
    return [
        Section("confusion", "Mistakes", reading=confusions(insight.confusion, classes), charts=[confusion]),
        Section("images", "Most and least certain images", html=_shots(insight.certain, insight.uncertain)),
        Section("map", "Before and after", charts=[scatter]),
    ]


def _shots(certain: Sequence[Shot], uncertain: Sequence[Shot]) -> str:
    def row(shots: Sequence[Shot]) -> str:
        items = []
        for shot in shots:
            wrong = shot.guess != shot.truth
            words = f"{shot.guess}, {percent(shot.confidence)}"
            truth = f'<span class="wrong">wrong: it is {escape(shot.truth)}</span>' if wrong else "right"
            picture = f'<img src="{shot.picture}" alt="an image of class {escape(shot.truth)}">'
            items.append(f"<li>{picture}{escape(words)}<br>{truth}</li>")
        return f'<ul class="shots">{"".join(items)}</ul>'

    return (
        f"<h3>The model is surest of these</h3>{row(certain)}"
        f'<h3 style="margin-top:1.2rem">and least sure of these</h3>{row(uncertain)}'
        '<p class="soft">Test images of the target, with the predicted class and its probability.</p>'
    )
