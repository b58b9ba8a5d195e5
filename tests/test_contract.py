"""What every algorithm keeps besides: resuming, seventeen sources, the ledger, engines, refusals, a page of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from galafed.algorithms.base import algorithms
from galafed.benchmarks.base import Domain, Split, benchmarks
from galafed.benchmarks.toy import Toy
from galafed.config import resolve
from galafed.errors import ConfigError
from galafed.messages import Held, Reply
from galafed.model import size_of
from galafed.reproduction.mini_table import ROWS
from galafed.runs.assembly import assemble
from galafed.runs.runner import Observer, resume, start
from loopback_engine import LoopbackEngine
from test_algorithms import NAMES, QUICK, TARGET, VARIANTS, assert_sound, play, play_with, two_rounds

DOCS = Path(__file__).parent.parent / "docs" / "methods"
CENTRAL = [name for name in NAMES if algorithms.get(name).kind == "central"]


class PullThePlug(Observer):
    """Ends the process after a round, as far as the run can tell."""

    def __init__(self, after: int) -> None:
        self._after = after

    def round_done(self, line: Mapping[str, Any]) -> None:
        if line["round"] == self._after:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_an_interrupted_run_ends_with_the_same_bits(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    quick = QUICK.get(name, {}) | settings
    config = resolve({"benchmark": "toy", "device": "cpu", "algorithm": name, "rounds": 3, name: quick})
    whole = start(config, tmp_path / "whole").summary
    with pytest.raises(KeyboardInterrupt):
        start(config, tmp_path / "cut", PullThePlug(1))
    with pytest.raises(KeyboardInterrupt):
        resume(tmp_path / "cut", PullThePlug(2))
    found = resume(tmp_path / "cut").summary
    assert found["digest"] == whole["digest"]
    assert found["accuracy"] == whole["accuracy"]
    assert found["relevance"] == whole["relevance"]


class Many(Toy):
    """Eighteen domains: the five of toy in several lights."""

    domains = tuple(f"{base}-{number}" for number in range(4) for base in Toy.domains)[:18]
    default_target = "noisy-0"

    def load(self, domain: str) -> Domain:
        base, _, number = domain.rpartition("-")
        whole = Toy().load(base)
        darker = 1 - 0.1 * int(number)
        images = (whole.train.images * darker).astype(whole.train.images.dtype)[:24]
        train = Split(images=images, labels=whole.train.labels[:24])
        return dataclasses.replace(whole, name=domain, train=train)


@pytest.fixture
def many() -> Iterator[str]:
    benchmarks.register("many")(Many)
    yield "many"
    del benchmarks._entries["many"]


@pytest.mark.parametrize("name", NAMES)
def test_seventeen_sources(name: str, many: str) -> None:
    played = play(name, rounds=2, benchmark=many)
    assert_sound(played)
    assert len(played.parts.federation.domains) == 17
    assert not played.parts.federation.failures


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_the_ledger_counts_every_tensor_that_crosses(name: str, settings: dict[str, Any]) -> None:
    played = two_rounds(name, **settings)
    tensors = 0
    for job, answer in zip(played.jobs, played.answers, strict=True):
        tensors += size_of({p: s for p, s in job.payload.items() if not isinstance(s, Held)})
        assert isinstance(answer, Reply)
        tensors += size_of(answer.parts)
    arguments = played.bytes[-1]["server"] - tensors
    assert 0 < arguments < 1500 * len(played.jobs)


@pytest.mark.parametrize("name", NAMES)
def test_no_image_and_no_value_of_a_single_image_is_ever_sent(name: str) -> None:
    played = two_rounds(name)
    images = len(Toy().load(TARGET).train)
    for answer in played.answers:
        assert isinstance(answer, Reply)
        for part, state in answer.parts.items():
            if not part.startswith("bank"):  # FADA's shared features, which its page tells of
                assert all(images not in value.shape and value.dtype != torch.uint8 for value in state.values())


# Engines


@pytest.fixture
def sites() -> str:
    """An engine whose clients are sites with data of their own."""
    return LoopbackEngine.name


@pytest.mark.parametrize("name", CENTRAL)
def test_central_methods_are_refused_by_engines_whose_sites_keep_their_data(name: str, sites: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} puts the data of all domains in one place.*'loopback'.*'serial'"):
        resolve({"benchmark": "toy", "algorithm": name, "engine": sites})


def test_pooled_source_only_is_refused_too(sites: str) -> None:
    values = {"benchmark": "toy", "algorithm": "source_only", "engine": sites}
    with pytest.raises(ConfigError, match="puts the data of all domains in one place"):
        resolve(values | {"source_only": {"pooled": True}})
    assert resolve(values).engine == sites


@pytest.mark.parametrize("name", [name for name in NAMES if name not in CENTRAL])
def test_all_others_run_there(name: str, sites: str) -> None:
    config = resolve(
        {"benchmark": "toy", "algorithm": name, "engine": sites, "device": "cpu", name: QUICK.get(name, {})}
    )
    assert_sound(play_with(assemble(config), config.seed, 1))


def test_there_are_four_central_methods() -> None:
    assert CENTRAL == ["cmss", "dsbn", "m3sda", "mdan"]


# Where they are told of


@pytest.mark.parametrize("name", NAMES)
def test_every_system_is_in_the_study(name: str) -> None:
    assert name in {values["algorithm"] for values in ROWS.values()}


@pytest.mark.parametrize("name", [name for name in NAMES if algorithms.get(name).kind != "bound"])
def test_every_system_has_a_page(name: str) -> None:
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    for heading in ("## The idea", "## Equations", "## What leaves a site", "## Where this differs", "## On mini"):
        assert heading in page, heading
    assert f"images/{name}.svg" in page
    assert (DOCS / "images" / f"{name}.svg").is_file()
    assert f"({name}.md)" in (DOCS / "README.md").read_text(encoding="utf-8")


def test_the_index_says_why_dane_is_missing() -> None:
    assert "DANE" in (DOCS / "README.md").read_text(encoding="utf-8")
