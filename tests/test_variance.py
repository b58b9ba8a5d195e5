"""IDD and IGD as estimators: exact ratios, the listing of pairs and splits, and the heads of a real run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from galafed.config import resolve
from galafed.discrepancy import inter_group
from galafed.model import weighted_mean
from galafed.reproduction.estimators import Spread, discrepancy, own_means, pairs, signed, splits, uniform_heads
from galafed.reproduction.real_heads import Heads, compare, heads_after
from galafed.runs.seeding import generator
from galafed.studies import base, variance
from galafed.studies.base import studies


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8])
def test_every_split_is_listed_once_and_none_is_unbalanced(count: int) -> None:
    found = splits(count, generator("t"), at_most=1000)
    assert len({frozenset(map(frozenset, split)) for split in found}) == len(found)
    assert len(found) == math.comb(count, count // 2) // (1 if count % 2 else 2)
    for first, second in found:
        assert sorted((*first, *second)) == list(range(count))
        assert abs(len(first) - len(second)) <= 1


def test_too_many_splits_are_drawn() -> None:
    found = splits(17, generator("t"), at_most=50)
    assert len(found) == 50
    assert {len(first) for first, _ in found} == {8, 9}


@pytest.mark.parametrize("half", [1, 2, 3, 5])
def test_the_signed_variances_are_what_the_algebra_says(half: int) -> None:
    """Var IDD = 16M σ²/(2M-1), Var IGD = 16 σ²/(2M-1): their ratio is 1/M exactly, for any heads."""
    h = own_means(2 * half, 30, generator("t", half), theta=0.2)
    sigma2 = float(h.mean(dim=1).var(correction=0))
    idd, igd = signed(h, pairs(2 * half)), signed(h, splits(2 * half, generator("t"), at_most=10**4))
    assert idd.variance == pytest.approx(16 * half * sigma2 / (2 * half - 1), rel=1e-12)
    assert igd.variance == pytest.approx(16 * sigma2 / (2 * half - 1), rel=1e-12)
    assert idd.mean == pytest.approx(0, abs=1e-15)


def test_the_toys_are_those_of_the_paper() -> None:
    rng = generator("t")
    first = uniform_heads(40, 500, rng)
    assert float(first.min()) >= 0
    assert float(first.max()) <= 1
    assert float(first.mean()) == pytest.approx(0.5, abs=0.01)
    second = own_means(40, 500, rng, theta=0.1)
    middle = second.mean(dim=1, keepdim=True)
    assert float((second - middle).abs().max()) < 0.115
    assert 0.1 < float(middle.min()) < 0.2
    assert 0.8 < float(middle.max()) < 0.9


def test_the_loss_of_the_toys_is_the_inter_group_discrepancy() -> None:
    h = uniform_heads(4, 25, generator("t"))
    probabilities = {str(n): torch.stack([row, 1 - row], dim=1) for n, row in enumerate(h)}
    (split,) = (s for s in splits(4, generator("t"), 100) if s[0] == (0, 2))
    groups = [{str(n): 0.5 for n in group} for group in split]
    assert discrepancy(h, [split]) == Spread(pytest.approx(float(inter_group(probabilities, groups))), 0.0)


@pytest.fixture(scope="module")
def heads() -> Heads:
    config = resolve({"benchmark": "toy", "rounds": 2, "device": "cpu", "engine": "stacked", "threads": 1})
    return heads_after(config, images=32)


def test_the_heads_are_those_the_round_was_made_of(heads: Heads) -> None:
    assert list(heads.predictors) == ["bright", "dark", "faint", "inverted"]
    assert heads.images.shape == (32, 3, 8, 8)
    states = list(heads.predictors.values())
    assert any(not torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_idd_and_igd_of_real_heads(heads: Heads) -> None:
    found = compare(heads, 100, generator("t"))
    assert found["sources"] == 4
    assert (found["IDD"]["choices"], found["IGD, outputs averaged"]["choices"]) == (6, 3)
    assert found["IDD"]["cosine"] == pytest.approx(1)
    # Averaging outputs can only lower the mean discrepancy (Jensen).
    assert 0 < found["IGD, outputs averaged"]["mean"] < found["IDD"]["mean"]
    assert all(found[name]["noise_to_signal"] > 0 for name in ("IDD", "IGD, parameters averaged"))


def test_equal_heads_do_not_disagree(heads: Heads) -> None:
    same = weighted_mean(heads.predictors, dict.fromkeys(heads.predictors, 0.25))
    alike = Heads(heads.extractor, dict.fromkeys(heads.predictors, same), heads.images, heads.bench)
    found = compare(alike, 100, generator("t"))
    assert max(found[name]["mean"] for name in ("IDD", "IGD, parameters averaged", "IGD, outputs averaged")) < 1e-6


TINY = {"halves": [2], "points": 20, "populations": 2, "benchmark": "toy", "rounds": 1, "seeds": [0], "images": 16}


def test_the_study_writes_its_tables_picture_and_verdict(tmp_path: Path) -> None:
    values: dict[str, Any] = {"minutes": 0, "jobs": 1, "place": {"device": "cpu"}, "work": tmp_path / "work"}
    base.reproduce("variance", say=lambda text: None, out=tmp_path, settings=TINY, **values)
    text = (tmp_path / "variance" / "table.md").read_text()
    assert "10.67 (8) | 5.333 (4) | 0.5 (0.5)" in text
    assert "confirmed, and exact" in text
    table = json.loads((tmp_path / "variance" / "table.json").read_text())
    found = {(cell["row"], cell["column"]): cell for cell in table}
    for toy in ("uniform", "own means"):
        assert found[f"{toy}: signed_ratio", "M = 2"]["mean"] == pytest.approx(0.5)
        assert found[f"{toy}: signed_ratio", "M = 2"]["paper"] == 0.5
    heads = {row: cell["ratio"] for (row, column), cell in found.items() if column.startswith("toy, ")}
    assert {row.rpartition(": ")[0] for row in heads} == {"IDD", "IGD, parameters averaged", "IGD, outputs averaged"}
    assert {heads[f"IDD: {key}"] for key in ("mean", "variance", "relative_variance", "noise_to_signal")} == {1.0}
    assert (tmp_path / "variance" / "variance.png").stat().st_size > 5000


def test_what_is_said_of_the_toys_depends_on_them() -> None:
    paper = {"signed_idd": 8.0, "signed_igd": 4.0}
    row = {"toy": "uniform", "M": 2, "paper": paper, "variance_ratio": 0.5, "mean_ratio": 0.7, "relative_ratio": 1.0}
    exact = row | {"signed_idd": 8 * 4 / 3, "signed_igd": 4 * 4 / 3, "signed_ratio": 0.5}
    ratio, factor, *_ = variance._toy_verdicts([exact])
    assert "1/M for the signed quantity: confirmed, and exact" in ratio
    assert "both too small by the same factor" in factor
    ratio, factor, *_, step = variance._toy_verdicts([exact, exact | {"signed_igd": 5.4, "signed_ratio": 0.506}])
    assert "1/M for the signed quantity: confirmed**" in ratio
    assert "not off by one factor" in factor
    assert "IGD is a smaller step" in step
    ratio, *_, step = variance._toy_verdicts([exact | {"signed_ratio": 0.6, "mean_ratio": 1.1}])
    assert "1/M for the signed quantity: not confirmed" in ratio
    assert "smaller step" not in step
    heads = [
        {
            "estimator": name, "benchmark": "toy", "target": "dark", "images": None, "draws": None, "sources": 4,
            "seeds": 1, "noise_ratio_of_seeds": (1.0, 1.0),
            "ratios": {"mean": mean, "variance": 0.5, "relative": 1.0, "noise": 1.0},
        }
        for name, mean in zip(("IDD", *variance.IGD), (1.0, 0.95, 0.5), strict=True)
    ]  # fmt: skip
    assert "0.50 to 0.95 times that of IDD, which has none: not confirmed" in variance._head_verdicts(heads)[0]
    assert "0.95 to 0.95 times that of IDD, which has none: confirmed" in variance._head_verdicts(heads[:2])[0]


def test_the_heads_of_another_run_stay_in_the_table(tmp_path: Path) -> None:
    study: Any = studies.get("variance")
    values: dict[str, Any] = {"minutes": 0, "jobs": 1, "place": {"device": "cpu"}, "work": tmp_path / "work"}
    for target in ("noisy", "dark"):
        mine = {**TINY, "target": target, "seeds": [0, 1]}
        base.reproduce("variance", say=lambda text: None, out=tmp_path, settings=mine, **values)
    table = json.loads((tmp_path / "variance" / "table.json").read_text())
    assert {cell["column"] for cell in table if "ratio" in cell} == {
        "toy, noisy, round 1, 16 images",
        "toy, dark, round 1, 16 images",
    }
    assert all(cell["std"] > 0 for cell in table if cell["row"] == "IDD: mean")
    assert study(study.Settings()).progress(tmp_path)[0] == 0


def test_runs_that_differ_in_images_or_draws_have_names_of_their_own() -> None:
    usual = {"benchmark": "toy", "target": "dark", "images": variance.Settings.images, "draws": variance.Settings.draws}
    assert variance._name(usual, "round 1") == "toy, dark, round 1"
    assert variance._name(usual | {"images": 16}, "round 1") == "toy, dark, round 1, 16 images"
    assert variance._name(usual | {"draws": 3}) == "toy, dark, 3 draws"
    assert variance._name(usual | {"images": None, "draws": None}) == "toy, dark"
