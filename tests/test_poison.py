"""Poisoned sources: which labels change, what is written down, what is refused, and that a method can notice."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import galafed
from galafed.config import Run, resolve
from galafed.engines.serial import Serial
from galafed.errors import ConfigError
from galafed.runs.assembly import Assembly, assemble


def assembled(share: float, seed: int = 0) -> Assembly:
    poison = {"sources": ["dark"], "share": share}
    return assemble(resolve({"benchmark": "toy", "device": "cpu", "seed": seed, "poison": poison}))


def labels(parts: Assembly, source: str) -> torch.Tensor:
    assert isinstance(parts.engine, Serial)
    found = parts.engine.clients[source].data.labels
    assert found is not None
    return found


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_share_of_the_labels_moves_on_by_one_class(share: float) -> None:
    clean = assemble(resolve({"benchmark": "toy", "device": "cpu"}))
    dirty = assembled(share)
    before, after = labels(clean, "dark"), labels(dirty, "dark")
    wrong = before != after
    assert int(wrong.sum()) == round(share * len(before))
    assert torch.equal(after[wrong], (before[wrong] + 1) % 3)
    assert torch.equal(labels(clean, "bright"), labels(dirty, "bright"))
    assert not torch.equal(after, labels(assembled(share, seed=1), "dark")) or share == 1


def test_poison_is_told_wherever_the_domain_is() -> None:
    assert dict(assembled(0.25).notes) == {"dark": "25% of its labels poisoned"}


def test_runs_without_poison_keep_their_name() -> None:
    plain = resolve({"benchmark": "toy"})
    assert "poison" not in plain.to_dict()
    poisoned = resolve({"benchmark": "toy", "poison": {"sources": ["dark"]}})
    assert poisoned.to_dict()["poison"] == {"sources": ["dark"], "share": 0.5}
    assert poisoned.run_name != plain.run_name
    assert resolve(poisoned.to_dict()) == poisoned
    assert isinstance(plain, Run)


@pytest.mark.parametrize(
    ("poison", "words"),
    [
        ({"sources": ["noisy"]}, "poison.sources 'noisy' is not known"),
        ({"sources": ["drak"]}, "Did you mean 'dark'"),
        ({"sources": ["dark"], "share": 0}, "poison.share = 0"),
        ({"sources": ["dark"], "share": 1.5}, "poison.share = 1.5"),
        ({"share": "half"}, "must be a number"),
        ({"rate": 0.5}, "poison.rate"),
    ],
)
def test_impossible_poison_is_refused_by_name(poison: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        resolve({"benchmark": "toy", "poison": poison})


def test_a_poisoned_run_resumes_and_kd3a_trusts_the_poisoned_source_least(tmp_path: Path) -> None:
    result = galafed.run(
        "toy",
        algorithm="kd3a",
        rounds=8,
        out=tmp_path / "run",
        poison={"sources": ["faint"], "share": 1.0},
        kd3a={"gate_start": 0.5, "gate_end": 0.6, "inertia": 0.0},
    )
    relevance = result.summary["relevance"]
    assert min(relevance, key=relevance.get) == "faint"
    assert result.summary["notes"] == {"faint": "100% of its labels poisoned"}
