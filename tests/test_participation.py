"""Partial participation: who takes part in a round is drawn from the run's seed, the same wherever the work is done."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from galafed.algorithms.base import algorithms
from galafed.config import resolve
from galafed.errors import ConfigError
from galafed.participation import Participation, known_relevance
from galafed.runs.runner import resume, start
from galafed.runs.seeding import generator
from loopback_engine import LoopbackEngine
from test_algorithms import NAMES, SOURCES
from test_contract import PullThePlug

HALF: dict[str, Any] = {"benchmark": "toy", "device": "cpu", "threads": 1, "rounds": 3, "participation": 0.5}
FEDERATED = [name for name in NAMES if algorithms.get(name).kind == "federated"]


@given(st.integers(1, 20), st.floats(0.01, 1.0), st.integers(0, 1000), st.integers(1, 5))
def test_as_many_as_asked_for_in_order_each_once(count: int, share: float, seed: int, fewest: int) -> None:
    sources = [f"s{k:02d}" for k in range(count)]
    drawn = Participation(share=share, fewest=fewest).draw(sources, generator(seed))
    assert list(drawn) == sorted(set(drawn))
    assert set(drawn) <= set(sources)
    assert len(drawn) == min(count, max(round(share * count), fewest))


def test_every_source_has_its_turn_and_relevant_ones_more_often() -> None:
    sources, relevance = ["a", "b", "c", "d"], {"a": 0.9, "b": 0.1, "c": 0.0}
    for by, check in (("uniform", lambda n: 400 < n < 600), ("relevance", lambda n: n > 0)):
        rule = Participation(share=0.5, by=by)  # type: ignore[arg-type]
        seen = Counter(name for k in range(1000) for name in rule.draw(sources, generator("x", k), relevance))
        assert all(check(seen[name]) for name in sources)
    assert seen["a"] > seen["b"] > seen["c"]
    assert seen["d"] > seen["b"]  # not known yet: as the mean


def test_what_was_last_known_of_each_source() -> None:
    history = [{"relevance": {"a": 0.1, "b": 0.9}}, {"relevance": {}}, {"relevance": {"a": 0.4}}]
    assert known_relevance(history) == {"a": 0.4, "b": 0.9}


def took_part(folder: Path) -> list[set[str]]:
    lines = [json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()]
    return [set(line["relevance"]) for line in lines]


@pytest.mark.parametrize("by", ["uniform", "relevance"])
def test_half_of_the_sources_take_part_the_same_ones_in_every_engine(by: str, tmp_path: Path) -> None:
    LoopbackEngine.folder = tmp_path / "sites"
    values = HALF | {"participation_by": by}
    alone = start(resolve(values), tmp_path / "serial")
    apart = start(resolve(values | {"engine": "loopback"}), tmp_path / "loopback")
    assert alone.summary["digest"] == apart.summary["digest"]
    rounds = took_part(tmp_path / "serial")
    assert all(len(names) == 2 for names in rounds)
    assert len(set.union(*rounds)) > 2
    LoopbackEngine.folder = None


@pytest.mark.parametrize("name", FEDERATED)
def test_every_federated_algorithm_runs_with_half_of_the_sources(name: str, tmp_path: Path) -> None:
    quick = {"source_epochs": 1} if name in ("shot", "sfda") else {}
    result = start(resolve(HALF | {"algorithm": name, name: quick}), tmp_path / "run")
    assert result.accuracy is not None
    assert result.summary["failures"] == 0


def test_an_interrupted_run_draws_the_same_sources_again(tmp_path: Path) -> None:
    config = resolve(HALF | {"participation_by": "relevance", "rounds": 4})
    whole = start(config, tmp_path / "whole").summary["digest"]
    with pytest.raises(KeyboardInterrupt):
        start(config, tmp_path / "cut", PullThePlug(2))
    assert resume(tmp_path / "cut").summary["digest"] == whole


def test_all_of_them_is_as_if_there_were_no_such_setting(tmp_path: Path) -> None:
    plain = {key: value for key, value in HALF.items() if key != "participation"}
    assert resolve(plain).hash() == resolve(plain | {"participation": 1.0}).hash()
    assert took_part(start(resolve(plain), tmp_path / "run").folder)[0] == set(SOURCES)


@pytest.mark.parametrize("share", [0, -0.5, 1.5])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="participation"):
        resolve(HALF | {"participation": share})
