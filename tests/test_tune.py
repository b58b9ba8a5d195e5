"""Choosing settings without target labels: the criteria by hand, the search, and that labels play no part."""

from __future__ import annotations

import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from galafed.benchmarks.base import Domain, Split, benchmarks
from galafed.config import resolve
from galafed.runs.runner import start
from galafed.tuning.comparing import compare, table
from galafed.tuning.criteria.base import Evidence, criteria
from galafed.tuning.judging import Judged, evidence_of, judge, pick
from galafed.tuning.searching import candidates
from in_process import ROOT, gala, toy_run

SURE = torch.eye(3).repeat(10, 1)
UNSURE = torch.full((30, 3), 1 / 3)
ONE_CLASS = torch.eye(3)[[0] * 30]
HISTORY = [{"discrepancy": 0.5, "tuned_loss": 0.2, "loss": 0.4}] * 3


def score(name: str, probabilities: torch.Tensor, features: torch.Tensor | None = None) -> float | None:
    shape = probabilities if features is None else features
    return criteria.get(name)().score(Evidence(probabilities, shape, HISTORY))


def test_criteria_by_hand() -> None:
    assert score("discrepancy", SURE) == pytest.approx(-0.5)
    assert score("source_loss", SURE) == pytest.approx(-0.2)
    assert score("entropy", SURE) == pytest.approx(0)
    assert score("entropy", UNSURE) == pytest.approx(-math.log(3))
    assert score("information", SURE) == pytest.approx(math.log(3))
    assert score("information", ONE_CLASS) == pytest.approx(0)
    # Ten of each of three classes: three singular values √10 each, over √30.
    assert score("nuclear_norm", SURE) == pytest.approx(3 * math.sqrt(10) / math.sqrt(30))
    assert score("nuclear_norm", ONE_CLASS) == pytest.approx(1)
    assert score("silhouette", SURE) == pytest.approx(1)
    assert score("silhouette", ONE_CLASS) is None
    # Nine equal neighbours of the same class, and the others e^-20 as near.
    assert score("neighbourhood", SURE) == pytest.approx(math.log(9), abs=1e-6)


@pytest.mark.parametrize("name", criteria.names())
def test_every_criterion_is_finite_or_silent_and_says_what_it_wants(name: str) -> None:
    assert criteria.get(name).about
    for probabilities in (SURE, UNSURE, ONE_CLASS):
        found = score(name, probabilities)
        assert found is None or math.isfinite(found)
    assert criteria.get(name)().score(Evidence(SURE, SURE, [])) is None or name not in ("discrepancy", "source_loss")


def test_the_pick_is_the_best_score_and_passes_over_the_silent() -> None:
    runs = [Judged({"t": n}, {"x": s}, 0.5, "") for n, s in enumerate([0.1, None, 0.7, 0.3])]
    best = pick(runs, "x")
    assert best is runs[2]
    assert pick(runs[1:2], "x") is None


def test_judging_does_not_look_at_target_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = toy_run().folder
    before = judge(folder, {}, 0.0).scores
    toy: Any = benchmarks.get("toy")
    honest = toy.load

    def scrambled(self: Any, name: str) -> Domain:
        domain = honest(self, name)
        train = Split(images=domain.train.images, labels=numpy.zeros_like(domain.train.labels))
        return Domain(name=name, train=train, test=train)

    monkeypatch.setattr(toy, "load", scrambled)
    assert judge(folder, {}, 0.0).scores == before


def test_evidence_is_of_the_targets_training_images() -> None:
    found = evidence_of(toy_run().folder)
    assert found.probabilities.shape == (48, 3)
    assert len(found.features) == 48
    assert len(found.history) == 3


def test_the_command_runs_what_is_missing_and_writes_a_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    common = ["--set", "threads=1", "--set", "rounds=2", "--set", 'sources=["dark", "bright"]']
    values = {"benchmark": "toy", "threads": 1, "rounds": 2, "sources": ["dark", "bright"]}
    for candidate in candidates(values, [0.5, 2], [1]):
        start(candidate.run, tmp_path / "runs" / candidate.run.run_name)
    arguments = ["tune", "toy", "--taus", "0.5", "2", "--scales", "1", *common, "--criterion", "nuclear_norm"]
    answer = gala(capsys, *arguments)
    assert answer.code == 0, answer.err
    assert "2 runs, 2 done, 0 to do" in answer.out
    record = json.loads((tmp_path / "runs/tune-toy-noisy/tune.json").read_text())
    assert [run["settings"] for run in record["runs"]] == [
        {"gala.tau": 0.5, "gala.igd_scale": 1.0},
        {"gala.tau": 2.0, "gala.igd_scale": 1.0},
    ]
    assert record["picked"] == record["picks"]["nuclear_norm"]
    assert set(record["picks"]) == set(criteria.names())
    best = resolve(tomllib.loads((tmp_path / "runs/tune-toy-noisy/best.toml").read_text()))
    assert best.settings.tau == record["picked"]["gala.tau"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--criterion", "luck"], "--criterion 'luck' is not known"),
        (["--taus", "0"], "gala.tau"),
        (["--scales", "-1"], "gala.igd_scale"),
        (["--set", "algorithm=fact"], "'fact' has neither"),
        (["--set", "gala.tua=1"], "'gala.tua'"),
        (["--target", "nosy"], "Did you mean 'noisy'?"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_bad_usage_is_one_sentence(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = gala(capsys, "tune", "toy", *arguments)
    assert (answer.code, words in answer.err) == (2, True), answer
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--out", "--work"])
def test_a_folder_that_takes_no_file_is_told_before_any_run(
    option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").touch()
    answer = gala(capsys, "tune", "toy", option, "taken")
    assert (answer.code, answer.err.count("\n")) == (1, 1), answer
    assert re.search("taken.* could not be written", answer.err)
    assert not list(tmp_path.glob("runs/toy-*"))


def test_what_is_right_and_what_is_lost_is_counted() -> None:
    def run(tau: float, scale: float, accuracy: float, value: float) -> Judged:
        return Judged({"gala.tau": tau, "gala.igd_scale": scale}, dict.fromkeys(criteria.names(), value), accuracy, "")

    whole = {
        "a": [run(1, 1, 0.8, 1.0), run(3, 1, 0.9, 2.0)],
        "b": [run(1, 1, 0.8, 2.0), run(3, 1, 0.805, 1.0)],
        "c": [run(1, 1, 0.9, 1.0), run(3, 1, 0.5, 2.0)],
    }
    rows = {row["criterion"]: row for row in compare(whole)}
    row = rows["entropy"]
    assert (row["right"], row["near"], row["targets"]) == (1, 2, 3)
    assert row["loss"] == pytest.approx((0 + 0.005 + 0.4) / 3, abs=1e-4)
    assert row["worst"] == pytest.approx(0.4)
    plain, chance = rows["(always 1 and 1)"], rows["(at random)"]
    assert plain["right"] == 1
    assert len(table(list(rows.values()))) == len(criteria.names()) + 4
    assert chance["accuracy"] == pytest.approx((0.85 + 0.8025 + 0.7) / 3, abs=1e-4)


def test_the_docs_tell_the_measured_numbers() -> None:
    measured = ROOT / "results" / "tuning" / "picks.md"
    if not measured.is_file():
        pytest.skip("the study has not been measured")
    table = [line for line in measured.read_text().splitlines() if line.startswith("|")]
    shown = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    assert all(line in shown for line in table)
