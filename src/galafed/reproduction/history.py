"""What figures need of a run: accuracy, label-free criteria, relevance and FACT's pairs, round by round.

Of the last round also the mean probability of each class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from galafed.errors import DataError
from galafed.runs.folders import METRICS
from galafed.runs.records import finished, how_to_write_anew, metrics
from galafed.runs.selection import CRITERIA


def history_of(folder: Path) -> dict[str, Any]:
    """The history of a finished run, short enough to be committed."""
    lines, rounds = metrics(folder), finished(folder)["rounds"]
    if len(lines) != rounds:  # what is kept once is taken for good
        path = folder / METRICS
        raise DataError(f"{path}: {len(lines)} of {rounds} rounds can be read; {how_to_write_anew(folder)}")
    kept: dict[str, Any] = {
        **{key: [_short(line[key]) for line in lines] for key in ("accuracy", *CRITERIA)},
        "relevance": {
            source: [_short(line["relevance"].get(source)) for line in lines]
            for source in sorted({source for line in lines for source in line["relevance"]})
        },
    }
    if lines and lines[-1].get("mean_prediction"):  # runs of old have none
        kept["mean_prediction"] = [_short(share) for share in lines[-1]["mean_prediction"]]
    if all("pair" in line for line in lines):  # FACT: the relevance tells no more than who took part
        kept["pair"] = [line["pair"] for line in lines]
        del kept["relevance"]
    return kept


def accuracies(summary: Mapping[str, Any]) -> list[tuple[int, float]]:
    """Rounds, counted from 1, and the test accuracy in percent after each that was tested."""
    return [(k, 100 * value) for k, value in enumerate(summary["kept"]["accuracy"], start=1) if value is not None]


def late_rise(summary: Mapping[str, Any]) -> float:
    """Points of accuracy gained in the last quarter of the rounds, each end being the mean of a tenth of them."""
    values = [value for _, value in accuracies(summary)]
    if not values:
        return 0.0
    tenth, before = max(1, len(values) // 10), len(values) - len(values) // 4
    return fmean(values[-tenth:]) - fmean(values[max(0, before - tenth) : before])


def evenness(weights: Sequence[float]) -> float:
    """1 / Σ w_n² of weights that sum to 1: as many equal weights would be as uneven."""
    return 1 / sum(weight**2 for weight in weights)


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
