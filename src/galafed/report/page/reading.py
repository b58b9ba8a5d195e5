"""What the numbers of a run say, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from galafed.algorithms.base import algorithms
from galafed.report.words import collapse, percent, with_note

Line = Mapping[str, Any]

STILL = 0.1
"""A relevance that moved by less than this share of itself has stayed."""
FAR = 0.05
"""A class centroid this much less similar to the target's than those of the other sources is named."""
NAMED = 3


def headline(run: Mapping[str, Any]) -> str:
    """What was run and what came of it, in one sentence."""
    sources, notes = list(run["sources"]), run.get("notes", {})
    labels = sources[0] if len(sources) == 1 else f"{len(sources)} sources"
    target = with_note(run["target"], notes.get(run["target"], ""))
    seen = algorithms.get(run["algorithm"]).sees_target_labels
    how = "with its labels, as an oracle," if seen else f"whose labels it never saw, with the labels of {labels}"
    begun = (
        f"{run['algorithm']} fitted {run['network']} to {target} of {run['benchmark']}, {how} in {run['rounds']} "
        f"rounds (seed {run['seed']}, engine {run['engine']})"
    )
    last = run["accuracy"]["last"]
    result = f"{begun}." if last is None else f"{begun}: {percent(last)} of the target's test images are right."
    return f"{result} {collapse(run)}".strip()


def relevances(lines: Sequence[Line], classes: Sequence[str], notes: Mapping[str, str]) -> list[str]:
    """How the relevance of each source went, the most relevant first, and which classes explain it."""
    lines = [line for line in lines if line["relevance"]]
    if not lines:
        return []
    first, last = lines[0]["relevance"], lines[-1]["relevance"]
    if len(last) > 1 and max(last.values()) - min(last.values()) < 1e-9:
        return [f"All {len(last)} sources count alike: this method does not weigh them."]
    cosines = lines[-1].get("class_similarity") or {}
    return [
        f"{with_note(name, notes.get(name, ''))} {_moved(first.get(name), weight)}"
        f"{_why(name, weight - first.get(name, weight), cosines, classes)}."
        for name, weight in sorted(last.items(), key=lambda item: -item[1])
    ]


def _moved(before: float | None, now: float) -> str:
    if before is None:
        return f"came in later and ended at {now:.2f}"
    if abs(now - before) <= STILL * max(before, now) or f"{before:.2f}" == f"{now:.2f}":
        return f"stayed near {now:.2f}"
    return f"{'rose' if now > before else 'fell'} from {before:.2f} to {now:.2f}"


def _why(name: str, gain: float, cosines: Mapping[str, Sequence[float]], classes: Sequence[str]) -> str:
    """The classes that explain a gain or a loss: whose centroids lie nearer to the target's than the other sources'
    do, or farther."""
    if name not in cosines or len(cosines) < 2:
        return ""
    others = [fmean(values) for values in zip(*(v for n, v in cosines.items() if n != name), strict=True)]
    gaps = sorted((mine - rest, label) for mine, rest, label in zip(cosines[name], others, classes, strict=True))
    far = [label for gap, label in gaps[:NAMED] if gap < -FAR]
    near = [label for gap, label in reversed(gaps[-NAMED:]) if gap > FAR]
    if gain < 0 and far:
        return f": its class {_centroids(far)} far from the target's"
    return f": its class {_centroids(near)} close to the target's" if gain > 0 and near else ""


def _centroids(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"centroid {names[0]} sits"
    return f"centroids {', '.join(names[:-1])} and {names[-1]} sit"


def confusions(matrix: Sequence[Sequence[int]], classes: Sequence[str]) -> list[str]:
    """The most frequent mistakes."""
    wrong = sorted(
        ((count, classes[t], classes[p]) for t, row in enumerate(matrix) for p, count in enumerate(row) if t != p),
        reverse=True,
    )
    told = [f"{count} images of class {truth} were taken for {seen}." for count, truth, seen in wrong[:NAMED] if count]
    return told or ["Not one test image was taken for another class."]
