"""Picking a round: without labels by three criteria, and with them only under the name of oracle."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from galafed.config import resolve
from galafed.model import Model
from galafed.report.page.reading import headline
from galafed.report.tables import summary_table
from galafed.report.words import collapse
from galafed.runs.checkpoint import Checkpoint
from galafed.runs.selection import CRITERIA, WARM_UP, best, picks, selected, told
from galafed.runs.summary import summarise


def line(number: int, **values: Any) -> dict[str, Any]:
    """The metrics of a round."""
    usual = {"accuracy": 0.5, "discrepancy": 0.5, "entropy": 0.5, "information": 0.5}
    return {"round": number} | usual | values


def history(criterion: str, values: list[Any], **same: Any) -> list[dict[str, Any]]:
    """Rounds 1, 2, … with the values of one criterion."""
    return [line(number, **(same | {criterion: value})) for number, value in enumerate(values, start=1)]


def test_there_are_at_least_two_criteria_without_labels() -> None:
    assert {"discrepancy", "entropy", "information"} == set(CRITERIA)
    assert "accuracy" not in CRITERIA


@pytest.mark.parametrize(("criterion", "expected"), [("discrepancy", 3), ("entropy", 3), ("information", 2)])
def test_each_criterion_picks_its_round(criterion: str, expected: int) -> None:
    found = picks(history(criterion, [0.5, 0.9, 0.1, 0.4]), rounds=4)
    assert found[criterion]["round"] == expected


@pytest.mark.parametrize("criterion", list(CRITERIA))
def test_on_a_tie_the_latest_round_is_picked(criterion: str) -> None:
    assert picks(history(criterion, [0.3, 0.3, 0.3]), rounds=3)[criterion]["round"] == 3
    order = list(reversed(history(criterion, [0.3, 0.3, 0.3])))
    assert picks(order, rounds=3)[criterion]["round"] == 3


def test_labels_have_no_say_in_a_pick() -> None:
    plain = history("discrepancy", [0.5, 0.2, 0.4, 0.3])
    scrambled = [entry | {"accuracy": 1 - k / 10} for k, entry in enumerate(plain)]
    for criterion in CRITERIA:
        assert picks(plain, 4)[criterion]["round"] == picks(scrambled, 4)[criterion]["round"]


@pytest.mark.parametrize(
    ("rounds", "values", "expected"),
    [
        (20, [0.0, 0.0, 0.5, 0.4, 0.6], 4),  # rounds 1 and 2 of 20 are warm-up
        (20, [0.9, 0.9, 0.1, 0.4, 0.6], 3),  # round 3 is not
        (10, [0.0, 0.1, 0.2], 2),  # round 1 of 10 is
        (9, [0.0, 0.1, 0.2], 1),  # round 1 of 9 is past the tenth
        (100, [0.3, 0.1, 0.2], 2),  # nothing but warm-up so far: better than no pick
    ],
)
def test_the_first_tenth_is_not_picked_from(rounds: int, values: list[float], expected: int) -> None:
    assert WARM_UP == 0.1
    for criterion, sign in CRITERIA.items():
        found = picks(history(criterion, [-sign * value for value in values]), rounds)
        assert found[criterion]["round"] == expected


def test_a_round_that_says_the_same_of_every_image_is_not_picked() -> None:
    """A collapsed extractor has no discrepancy left: as a pick it would be the worst round of a run that recovers."""
    lines = history("discrepancy", [0.5, 0.4, 0.01, 0.3, 0.35], information=1.9, entropy=0.4)
    lines[2] |= {"information": 0.08, "entropy": 2.2}
    assert picks(lines, 5)["discrepancy"]["round"] == 4
    for entry in lines:
        entry |= {"information": 0.01, "entropy": 2.2}
    assert picks(lines, 5)["discrepancy"]["round"] == 3  # where none says anything, one is picked nevertheless


@pytest.mark.parametrize(
    ("information", "entropy", "share"),
    [(0.0, 2.3, 0.0), (-1e-9, 2.3, 0.0), (2.3, 0.0, 1.0), (0.2, 1.8, 0.1), (0.0, 0.0, 0.0), (0.5, 0.5, 0.5)],
)
def test_how_much_of_what_there_is_to_tell_is_told(information: float, entropy: float, share: float) -> None:
    assert told(line(1, information=information, entropy=entropy)) == pytest.approx(share, abs=1e-6)


def summary_of(entries: list[dict[str, Any]], criterion: str = "discrepancy") -> dict[str, Any]:
    """The summary of a run with these rounds."""
    traffic = {"source": 1, "server": 3, "target": 2, "not_in_paper": 1}
    more: dict[str, Any] = {"relevance": {}, "failures": [], "seconds": 1.0, "bytes": traffic, "loss": 0.0}
    config = resolve({"benchmark": "toy", "rounds": len(entries), "selection": criterion})
    model = Model({"extractor": {}, "predictor": {}})
    lines = tuple(entry | more for entry in entries)
    final = Checkpoint(rounds_done=len(entries), config_hash=config.hash(), model=model, history=lines)
    return summarise(config, final, device="cpu", notes={})


def test_a_model_that_says_the_same_of_every_image_is_warned_of_without_labels() -> None:
    blank = {"accuracy": None, "information": 0.01, "entropy": 2.2}
    unsure = {"accuracy": 0.8, "information": 0.2, "entropy": 1.9}  # right, if hardly trained
    for last, collapsed in ((blank, True), (unsure, False), (blank | {"information": None}, False)):
        found = summary_of([line(1), line(2, **last)])
        assert bool(collapse(found)) == collapsed
        assert ("nearly the same of every image" in headline(found)) == collapsed
        shown = io.StringIO()
        Console(file=shown, width=200).print(summary_table(found))
        assert ("it needs more rounds; else lower" in " ".join(shown.getvalue().split())) == collapsed
    found.pop("told")
    assert not collapse(found)  # runs of old do not say


def test_a_round_that_was_not_tested_is_not_picked() -> None:
    lines = history("discrepancy", [0.5, 0.1, 0.4])
    lines[1] |= {"accuracy": None, "entropy": None, "information": None}
    assert picks(lines, 3)["discrepancy"]["round"] == 3


def test_without_a_discrepancy_the_information_decides() -> None:
    lines = history("information", [0.1, 0.9, 0.2], discrepancy=None)
    assert "discrepancy" not in picks(lines, 3)
    found = selected(lines, 3, "discrepancy")
    assert found is not None
    assert found["round"] == 2


def test_a_discrepancy_missing_in_some_rounds_is_looked_for_in_the_others() -> None:
    lines = history("discrepancy", [0.1, None, 0.3, None])
    assert picks(lines, 4)["discrepancy"]["round"] == 1
    for entry in lines:
        del entry["discrepancy"]
    assert "discrepancy" not in picks(lines, 4)


@pytest.mark.parametrize("criterion", list(CRITERIA))
def test_the_criterion_of_the_run_decides(criterion: str) -> None:
    lines = [
        line(1, discrepancy=0.1, entropy=0.9, information=0.1),
        line(2, discrepancy=0.9, entropy=0.1, information=0.1),
        line(3, discrepancy=0.9, entropy=0.9, information=0.9),
    ]
    found = selected(lines, 3, criterion)
    assert found is not None
    assert found["round"] == {"discrepancy": 1, "entropy": 2, "information": 3}[criterion]


def test_nothing_measured_nothing_picked() -> None:
    empty = [entry | {"information": None} for entry in history("accuracy", [None, None])]
    assert picks([], 3) == {}
    assert picks(empty, 3) == {}
    assert selected([], 3, "discrepancy") is None
    assert best([]) is None
    assert best(empty) is None


def test_the_best_round_is_the_earliest_with_the_highest_accuracy() -> None:
    found = best(history("accuracy", [0.3, 0.9, None, 0.9, 0.1]))
    assert found is not None
    assert found["round"] == 2


def test_a_pick_of_zero_is_a_pick() -> None:
    found = selected(history("discrepancy", [0.5, 0.0]), 2, "discrepancy")
    assert found is not None
    assert found["round"] == 2


@pytest.mark.parametrize("criterion", list(CRITERIA))
def test_the_summary_calls_the_best_round_an_oracle_and_nothing_else(criterion: str) -> None:
    measured = [
        line(1, accuracy=0.9, discrepancy=0.9, entropy=0.9, information=0.1),
        line(2, accuracy=0.4, discrepancy=0.1, entropy=0.8, information=0.1),
        line(3, accuracy=0.3, discrepancy=0.9, entropy=0.2, information=0.2),
        line(4, accuracy=0.2, discrepancy=0.9, entropy=0.9, information=0.9),
        line(5, accuracy=0.1, discrepancy=0.9, entropy=0.9, information=0.1),
    ]
    summary = summary_of(measured, criterion)
    accuracy = summary["accuracy"]
    assert set(accuracy) == {"last", "selected", "best_oracle"}
    assert (accuracy["last"], accuracy["best_oracle"]) == (0.1, 0.9)
    assert accuracy["selected"] == {"discrepancy": 0.4, "entropy": 0.3, "information": 0.2}[criterion]
    assert {name: pick["round"] for name, pick in summary["selection"].items()} == {
        "discrepancy": 2,
        "entropy": 3,
        "information": 4,
    }
    assert summary["best_oracle_round"] == 1
    assert all("oracle" in key for key, value in summary.items() if value == 0.9)
