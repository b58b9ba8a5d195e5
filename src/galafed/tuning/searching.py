"""`gala tune`: run GALA with several tau and IGD scales, then pick one without target labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from galafed.config import Run, resolve
from galafed.errors import ConfigError
from galafed.registry import unknown
from galafed.runs.files import require_writable, write_atomically
from galafed.runs.folders import DONE
from galafed.runs.records import finished
from galafed.runs.sharing import carry_out
from galafed.tuning.criteria.base import criteria

TAUS = (0.3, 1.0, 3.0)
SCALES = (0.3, 1.0, 3.0)
CRITERION = "information"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One combination and the run it stands for."""

    tau: float
    igd_scale: float
    run: Run

    @property
    def settings(self) -> dict[str, float]:
        """What is tried out, by dotted key."""
        return {"gala.tau": self.tau, "gala.igd_scale": self.igd_scale}


def candidates(values: Mapping[str, Any], taus: Sequence[float], scales: Sequence[float]) -> list[Candidate]:
    """Every combination of tau and IGD scale, resolved and so checked."""
    if values.get("algorithm", "gala") != "gala":
        raise ConfigError(f"tune: chooses tau and the IGD scale of gala; {values['algorithm']!r} has neither")
    if not taus or not scales:
        raise ConfigError("tune: name at least one value after --taus and one after --scales")
    table = dict(values.get("gala", {}))
    return [
        Candidate(
            tau=tau,
            igd_scale=scale,
            run=resolve({**values, "gala": {**table, "tau": tau, "igd_scale": scale}}),
        )
        for tau in dict.fromkeys(taus)
        for scale in dict.fromkeys(scales)
    ]


def check_criterion(name: str) -> None:
    """Refuse an unknown criterion."""
    if name not in criteria.names():
        raise ConfigError(unknown("--criterion", name, criteria.names()))


def tune(
    tried: Sequence[Candidate], *, criterion: str, work: Path, out: Path, jobs: int, say: Callable[[str], None]
) -> Path:
    """Run what is missing, judge every run, write tune.json and best.toml into `out`, and say what was picked."""
    missing = [c.run for c in tried if not (work / c.run.run_name / DONE).exists()]
    say(f"{len(tried)} runs, {len(tried) - len(missing)} done, {len(missing)} to do")
    require_writable(out)
    carry_out(missing, work, jobs=jobs, minutes=0, place={}, say=say)

    from galafed.tuning.judging import judge, oracle, pick

    judged = []
    for candidate in tried:
        folder = work / candidate.run.run_name
        judged.append(judge(folder, candidate.settings, finished(folder)["accuracy"]["last"]))
    best = pick(judged, criterion)
    if best is None:
        raise ConfigError(f"--criterion {criterion}: tells nothing about these runs; take another one")
    chosen = tried[judged.index(best)]
    picks = {name: found.settings for name in criteria.names() if (found := pick(judged, name)) is not None}
    record = {
        "criterion": criterion,
        "picked": dict(best.settings),
        "picks": picks,
        "oracle": dict(oracle(judged).settings),
        "runs": [vars(run) for run in judged],
    }
    write_atomically(out / "tune.json", (json.dumps(record, indent=2) + "\n").encode())
    write_atomically(out / "best.toml", tomli_w.dumps(chosen.run.to_dict()).encode())
    return out / "tune.json"
