"""Which label-free criterion picks tau and the IGD scale well: nine combinations on all eight targets of mini."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar

from galafed.benchmarks.base import benchmarks
from galafed.runs.files import write_atomically
from galafed.studies.base import Cell, Study, commit, studies
from galafed.tuning.criteria.base import criteria
from galafed.tuning.searching import SCALES, TAUS, Candidate, candidates

if TYPE_CHECKING:
    from galafed.tuning.judging import Judged

SEED = 0
ROUNDS = 12
"""Fewer than mini's 30, so that the study takes an hour on one core rather than half a day."""
NEAR = 0.01
"""A pick that loses no more than this to the oracle's is as good as right."""


@studies.register("tuning")
class TuningStudy(Study):
    """GALA with every tau and scale that `gala tune` tries, on every target."""

    name: ClassVar[str]
    title: ClassVar[str] = "mini: picking tau and the IGD scale without target labels"

    def cells(self) -> Sequence[Cell]:
        """One CPU thread a run, so that several run side by side."""
        return [Cell(_row(c), target, c.run) for target in benchmarks.get("mini").domains for c in _tried(target)]

    def keeps(self, folder: Path) -> Mapping[str, Any]:
        """The scores of the run by every criterion."""
        from galafed.tuning.judging import scores_of

        return {"scores": scores_of(folder)}

    def write(self, folder: Path, done: Sequence[tuple[Cell, Mapping[str, Any]]], *, command: str) -> Sequence[Path]:
        """How often each criterion was right, and what its picks lost, over the targets all of whose runs are done."""
        from galafed.tuning.judging import Judged

        by_target: defaultdict[str, list[Judged]] = defaultdict(list)
        for cell, summary in done:
            settings = {"gala.tau": cell.run.settings.tau, "gala.igd_scale": cell.run.settings.igd_scale}
            scores = summary["kept"]["scores"]
            by_target[cell.column].append(Judged(settings, scores, summary["accuracy"]["last"], cell.run.run_name))
        whole = {target: judged for target, judged in by_target.items() if len(judged) == len(TAUS) * len(SCALES)}
        made = {"command": command, "commit": commit(), "machines": sorted({_machine(s) for _, s in done})}
        rows = summary_of(whole)
        folder.mkdir(parents=True, exist_ok=True)
        content = {
            "picks.json": json.dumps({"made": made, "criteria": rows}, indent=1) + "\n",
            "picks.md": _text(self.title, made, rows, len(whole)),
        }
        for name, value in content.items():
            write_atomically(folder / name, value.encode())
        return [folder / name for name in content]


def summary_of(whole: Mapping[str, Sequence[Judged]]) -> list[dict[str, Any]]:
    """For each criterion and for two ways to do without: how often right, how often near, and the mean loss."""
    from galafed.tuning.judging import oracle, pick

    rows = []
    best = {target: oracle(judged).accuracy for target, judged in whole.items()}
    for name in criteria.names():
        picked = {target: pick(judged, name) for target, judged in whole.items()}
        found = {target: run.accuracy for target, run in picked.items() if run is not None}
        rows.append(_row_of(name, found, best, criteria.get(name).about))
    plain = {t: run.accuracy for t, judged in whole.items() for run in judged if set(run.settings.values()) == {1.0}}
    rows.append(_row_of("(always 1 and 1)", plain, best, "the defaults, nothing is picked"))
    chance = {target: fmean(run.accuracy for run in judged) for target, judged in whole.items()}
    rows.append(_row_of("(at random)", chance, best, "the mean over all combinations") | {"right": None, "near": None})
    return rows


def _row_of(name: str, found: Mapping[str, float], best: Mapping[str, float], about: str) -> dict[str, Any]:
    losses = [best[target] - accuracy for target, accuracy in found.items()]
    return {
        "criterion": name,
        "about": about,
        "targets": len(losses),
        "right": sum(loss <= 0 for loss in losses),
        "near": sum(loss <= NEAR for loss in losses),
        "accuracy": round(fmean(found.values()), 4) if found else None,
        "loss": round(fmean(losses), 4) if losses else None,
        "worst": round(max(losses), 4) if losses else None,
    }


def _text(title: str, made: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], targets: int) -> str:
    head = "| criterion | right | within 1 point | mean accuracy | lost on average | at worst |"
    lines = [
        f"| {row['criterion']} | {_of(row['right'], row['targets'])} | {_of(row['near'], row['targets'])} | "
        f"{_points(row['accuracy'])} % | {_points(row['loss'])} | {_points(row['worst'])} |"
        for row in sorted(rows, key=lambda row: row["loss"] if row["loss"] is not None else 1.0)
    ]
    about = (
        f"Made by `{made['command']}` at commit {made['commit']} on {'; '.join(made['machines'])}. On each of "
        f"{targets} targets, {len(TAUS) * len(SCALES)} runs of GALA (tau {_list(TAUS)}; IGD scale {_list(SCALES)}) "
        f"of {ROUNDS} rounds, seed {SEED}. Right: the criterion, which sees no target label, picks a run that is as "
        "accurate in the last round as the one that test labels would pick. Lost: points of accuracy against that run. "
        "One seed and short runs: a difference of a point between two criteria means nothing."
    )
    return "\n".join([f"# {title}", "", about, "", head, "|---" * 6 + "|", *lines, ""])


def _tried(target: str) -> list[Candidate]:
    common = {"benchmark": "mini", "target": target, "seed": SEED, "rounds": ROUNDS, "device": "cpu", "threads": 1}
    return candidates(common, TAUS, SCALES)


def _row(candidate: Candidate) -> str:
    return f"tau {candidate.tau:g}, scale {candidate.igd_scale:g}"


def _machine(summary: Mapping[str, Any]) -> str:
    return f"{summary['device']} ({summary['machine']})"


def _of(count: int | None, total: int) -> str:
    return "-" if count is None else f"{count} of {total}"


def _points(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _list(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
