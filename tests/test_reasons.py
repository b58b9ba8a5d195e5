"""Reasons in verdicts are written by hand; what they say of numbers is held against the committed ones."""

from __future__ import annotations

import json
import runpy
from itertools import takewhile
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
import torch

from galafed.config import resolve
from galafed.reproduction import published
from galafed.reproduction.accuracy import AccuracyStudy
from galafed.reproduction.history import late_rise
from galafed.runs import archive
from galafed.studies.base import studies
from galafed.studies.digit_five_open import AS_IN_TABLE, STATISTICS, TARGETS, TAU
from galafed.studies.digit_five_rounds import AS_BYTES_SAY, FACT_HALF
from galafed.studies.digit_five_softmax import BOTH, ONCE
from galafed.studies.sweep_office import FIXED
from galafed.studies.sweep_second import CENTRE

RESULTS = Path(__file__).parent.parent / "results"
FIRST = "digit-five-first"


def said(study: str, row: str, *sentences: str) -> None:
    """A study gives these reasons, in code and on its page."""
    made = studies.get(study)()
    assert isinstance(made, AccuracyStudy)
    why = made.reasons[row]
    text = why if isinstance(why, str) else "\n".join(why.values())
    verdict = told_of(study, row)
    for sentence in sentences:
        assert sentence in text, f"{study}, {row}: the reason has changed, and so must this test"
        assert sentence in verdict, f"write the page with 'gala reproduce {study} --table'"


def told_of(study: str, row: str) -> str:
    """What the page of a study says of a row in its verdict: its line, and those below it that belong to it."""
    lines = (RESULTS / study / "table.md").read_text(encoding="utf-8").splitlines()
    (first,) = [number for number, line in enumerate(lines) if line.startswith(f"- **{row}**:")]
    return "\n".join([lines[first], *takewhile(lambda line: line.startswith("    - "), lines[first + 1 :])])


def cell(study: str, row: str, column: str) -> tuple[float, float | None]:
    """Last-round accuracy of a cell in percent, and the paper's."""
    cells = json.loads((RESULTS / study / "table.json").read_text(encoding="utf-8"))
    (found,) = [c for c in cells if (c["row"], c["column"], c["selection"]) == (row, column, "last")]
    return found["mean"], found["paper"]


def gap(study: str, row: str, column: str) -> float:
    """Points by which the paper has more."""
    ours, paper = cell(study, row, column)
    assert paper is not None
    return paper - ours


def course(study: str, algorithm: str, target: str, rounds: int | None = None) -> list[float]:
    """Test accuracies of the one run of a system, or of the one with so many rounds, round by round, in percent."""
    (run,) = (run for run in runs(study, algorithm, target) if rounds in (None, run["rounds"]))
    return [100 * value for value in run["kept"]["accuracy"]]


def probe(row: str) -> dict[str, float]:
    """Accuracies of a regression on frozen features, by target."""
    found: dict[str, dict[str, float]] = json.loads((RESULTS / "probe/table.json").read_text(encoding="utf-8"))
    return found[row]


def runs(study: str, algorithm: str, target: str | None = None) -> list[archive.Summary]:
    """The runs of a system, of one target or of all, in the order of their seeds."""
    found = [run for run in archive.read(RESULTS / study).values() if run["algorithm"] == algorithm]
    return sorted((run for run in found if target in (None, run["target"])), key=lambda run: run["seed"])


def test_what_is_said_of_digit_five() -> None:
    said(
        "digit-five",
        "oracle",
        "it is 8.1 points below the paper on SYN and 1.6 on USPS",
        "97.0 on SYN and 88.4 on SVHN",
    )
    for target, points in (("syn", 8.1), ("usps", 1.6)):
        assert round(gap(FIRST, "oracle", target), 1) == points
        assert abs(gap("digit-five", "oracle", target)) < 0.5
    assert [published.DIGIT_18["oracle"][target] for target in ("syn", "svhn")] == [97.0, 88.4]
    said("digit-five", "source-only", "With the target's BatchNorm statistics it gains 12 and 4 points")
    for target, points, below in (("syn", 12, 7.8), ("usps", 4, 5.3)):
        plain, with_statistics = (
            cell("digit-five", f"source-only{words}", target)[0] for words in ("", ", target statistics")
        )
        assert round(with_statistics - plain) == points
        assert round(gap("digit-five", "source-only", target), 1) == below
    said(FIRST, "source-only", "With the second edition SYN is 7.8 below, USPS 5.3")
    said("digit-five", "SHOT", "has 50 on SVHN and 63 on SYN, where source-only has 71 and 76")
    said("digit-five", "SHOT", "adaptation loses 6 points on SVHN and gains 2 on SYN")
    for target, before, plain, gained in (("svhn", 50, 71, -6), ("syn", 63, 76, 2)):
        found = course("digit-five", "shot", target)
        assert len(found) == 16
        assert (round(found[0]), round(found[-1] - found[0])) == (before, gained)
        assert round(cell("digit-five", "source-only", target)[0]) == plain
    said(
        "digit-five",
        "KD3A",
        "With that KD3A has 2 to 15 points more on mnist, mnistm, svhn and syn and 8.5 less on usps",
    )
    more = {
        t: cell("digit-five-cut-first", "KD3A", t)[0] - cell(FIRST, "KD3A", t)[0] for t in published.DIGIT_FIVE["KD3A"]
    }
    assert f"{-more.pop('usps'):.1f}" == "8.5"
    assert (round(min(more.values())), round(max(more.values()))) == (2, 15)


def test_what_is_said_of_fact_and_gala_on_svhn() -> None:
    said("digit-five", "FACT", "On SVHN it rose by 1.0 in the last quarter of the rounds", "On SYN it is above")
    said("digit-five", "FACT", "with 200 rounds and half the rate one seed has 90.4 there, within a point of the paper")
    assert f"{cell('digit-five-rounds', FACT_HALF, 'svhn')[0]:.1f}" == "90.4"
    assert abs(gap("digit-five-rounds", FACT_HALF, "svhn")) < 1
    assert f"{fmean(late_rise(run) for run in runs('digit-five', 'fact', 'svhn')):.1f}" == "1.0"
    said("digit-five", "FACT", "On MNIST-M it is 1.5 above, as the oracle is")
    assert [f"{-gap('digit-five', row, 'mnistm'):.1f}" for row in ("FACT", "oracle")] == ["1.5", "1.5"]
    said("digit-five", "GALA", "FACT is as far below the paper", "is 0.4 above ours, that of its Table 3 is 3.5 below")
    assert abs(gap("digit-five", "GALA", "svhn") - gap("digit-five", "FACT", "svhn")) < 0.3
    assert round(gap("digit-five", "oracle", "svhn"), 1) == 0.4
    assert round(cell("digit-five", "oracle", "svhn")[0] - published.DIGIT_18["oracle"]["svhn"], 1) == 3.5
    said("digit-five", "GALA", "has 87 there, of the three others at most 24")
    others = [cell("similarity", source, "svhn")[0] for source in ("mnist", "mnistm", "usps")]
    assert (round(cell("similarity", "syn", "svhn")[0]), round(max(others))) == (87, 24)
    said(
        "digit-five", "GALA", "more of SVHN from our second SYN than from the first", "0.45 less with it and FACT 0.64"
    )
    learnt = json.loads((RESULTS / "syn/table.json").read_text(encoding="utf-8"))
    first, second = (fmean(run["svhn"] for run in learnt if recipe in run["train"]) for recipe in ("wild", "legible"))
    assert second > first + 1
    less = [cell(FIRST, row, "svhn")[0] - cell("digit-five", row, "svhn")[0] for row in ("GALA", "FACT")]
    assert [f"{points:.2f}" for points in less] == ["0.45", "0.64"]


def test_what_fewer_pixels_of_svhn_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(RESULTS.parent / "benchmarks")
    script = runpy.run_path(str(RESULTS.parent / "benchmarks/svhn_size.py"))
    page = (RESULTS / "svhn-size/table.md").read_text(encoding="utf-8")
    found = json.loads((RESULTS / "svhn-size/table.json").read_text())
    assert script["written"](found).splitlines()[3:] == page.splitlines()[3:]
    assert "with labels of SVHN 0.4 and 0.2; with labels of SYN 0.1 and" in page
    said("digit-five", "GALA", "four fewer still a plain network loses 0.4 with labels of SVHN and 0.1 with those of")
    told = (RESULTS.parent / "docs/reproduce.md").read_text(encoding="utf-8")
    assert "with 24 instead of 28 a plain network loses 0.4 points, with 20 another 0.2" in told
    (dots,) = script["told_in"](_Checks, 16)[0][0, 0, 8:10, 8:10].unique().tolist()
    assert 120 < dots < 135  # no pixel is left of what needs all 32


def test_what_more_rounds_give() -> None:
    said("digit-five", "GALA", "with the paper's 500 one seed has 89.5", "the paper's 500 rounds one seed has 97.5")
    row = "GALA, 500 rounds"
    assert [f"{cell('digit-five-rounds', row, t)[0]:.1f}" for t in ("svhn", "usps")] == ["89.5", "97.5"]
    said("digit-five-rounds", row, "it has 89.6 on average, that of 100 rounds 89.6 over its last 10")
    said("digit-five-rounds", row, "On USPS they may help a little: 97.8 and 97.3")
    for target, means in (("svhn", ["89.6", "89.6"]), ("usps", ["97.8", "97.3"])):
        long, short = course("digit-five-rounds", "gala", target, 500), runs("digit-five", "gala", target)[0]
        assert (len(long), short["seed"]) == (500, 0)
        assert [f"{np.mean(long[-50:]):.1f}", f"{100 * np.mean(short['kept']['accuracy'][-10:]):.1f}"] == means


def test_what_half_the_rate_and_twice_the_rounds_give() -> None:
    """The new runs beside the first seed of the table, over the last ten rounds."""

    def settled(study: str, algorithm: str, target: str) -> str:
        run = next(run for run in runs(study, algorithm, target) if study == "digit-five" or run["rounds"] == 200)
        assert run["seed"] == 0
        return f"{100 * fmean(run['kept']['accuracy'][-10:]):.1f}"

    def both(algorithm: str, *targets: str) -> list[list[str]]:
        return [[settled(study, algorithm, t) for t in targets] for study in ("digit-five-rounds", "digit-five")]

    assert both("fact", "svhn", "mnistm", "usps") == [["89.9", "92.7", "97.9"], ["88.8", "92.0", "97.7"]]
    said("digit-five-rounds", FACT_HALF, "it has 89.9 on SVHN, 92.7 on MNIST-M and 97.9 on USPS, and the same seed")
    said("digit-five-rounds", FACT_HALF, "88.8, 92.0 and 97.7: more on all three, most on SVHN. It has")

    def information(run: archive.Summary) -> float:
        return run["kept"]["information"][-1]

    said("digit-five-rounds", FACT_HALF, "more information on all three too, so that it would be chosen without labels")
    for run in runs("digit-five-rounds", "fact"):
        assert information(run) > information(runs("digit-five", "fact", run["target"])[0])
    with_new, usual = both("gala", "mnistm", "svhn", "syn", "usps")
    assert (with_new, usual) == (["93.4", "90.2", "96.7", "95.6"], ["92.7", "89.6", "96.3", "97.3"])
    said(
        "digit-five-rounds",
        AS_BYTES_SAY,
        "it has 93.4 on MNIST-M, 90.2 on SVHN and 96.7 on SYN, and the same seed",
        "92.7, 89.6 and 96.3; but 95.6 on USPS where that has 97.3",
        "11.6 are sevens to it and 6.4 nines, where 8.6 and 8.9 are",
        "It has less information on every target",
    )
    found = [run for run in runs("digit-five-rounds", "gala") if run["rounds"] == 200]
    assert {run["config"]["gala"]["head_statistics"] for run in found} == {"source"}
    (usps,) = (run for run in found if run["target"] == "usps")
    assert of_hundred(usps) == ["11.6", "6.4"]
    for run in found:
        assert information(run) < information(runs("digit-five", "gala", run["target"])[0])
    said("digit-five-rounds", AS_BYTES_SAY, "but with the usual rate too such statistics have less, on two of three")
    usual = [run for run in runs("digit-five-open", "gala") if run["config"]["gala"]["head_statistics"] == "source"]
    less = [information(run) < information(runs("digit-five", "gala", run["target"])[0]) for run in usual]
    assert (sum(less), len(less)) == (2, 3)
    said("digit-five", "GALA", "the last ten have 90.2, though the last alone has 89.6, and those of FACT 89.9, where")
    said("digit-five", "GALA", "the same seeds with the usual rate have 89.6 and 88.8")
    assert f"{cell('digit-five-rounds', AS_BYTES_SAY, 'svhn')[0]:.1f}" == "89.6"
    said(
        "digit-five", "GALA", "it has 95.0, where the first seed of this row has 95.1: more on MNIST-M and SYN, less on"
    )
    new, first = (
        {t: cell("digit-five-rounds", row, t)[0] for t in published.DIGIT_FIVE["GALA"]}
        for row in (AS_BYTES_SAY, "GALA, 100 rounds")
    )
    assert [f"{fmean(row.values()):.1f}" for row in (new, first)] == ["95.0", "95.1"]
    assert [target for target in new if new[target] > first[target] + 0.1] == ["mnistm", "syn"]
    assert new["usps"] < first["usps"] - 1


def test_what_is_said_of_the_runs_that_were_cut_off() -> None:
    lines = (RESULTS / "digit-five-rounds/cut-off.jsonl").read_text(encoding="utf-8").splitlines()
    found = {run["target"]: run for run in map(json.loads, lines)}
    lengths = sorted(len(run["accuracy"]) for run in found.values())
    assert (lengths[0], lengths[-1]) == (292, 327)
    late = {target: 100 * fmean(run["accuracy"][-10:]) for target, run in found.items()}
    told = " ".join(studies.get("digit-five-rounds").about.split())  # type: ignore[attr-defined]
    assert "cut off after 292 to 327 of them" in told
    words = (
        "they have {mnist:.1f} on MNIST, {mnistm:.1f} on MNIST-M, {svhn:.1f} on SVHN, {syn:.1f} on SYN and {usps:.1f}"
    )
    assert words.format(**late) in told
    assert f"on USPS, {fmean(late.values()):.1f} on average" in told
    assert {(run["rounds"], run["lr"]) for run in found.values()} == {(500, 0.01)}
    (long,) = (run for run in runs("digit-five-rounds", "gala", "svhn") if run["rounds"] == 500)
    falls = resolve(long["config"]).training.rate(300, 500) / long["config"]["training"]["lr"]
    assert f"the rate has fallen to {0.01 * falls:.4f}" in told
    for target, run in found.items():  # "more information on every target than the first seed of 100 rounds ends with"
        assert run["information"][-1] > runs("digit-five", "gala", target)[0]["kept"]["information"][-1]
    said("digit-five", "GALA", "cut off after 292 to 327 of them have 95.4, with 90.7 on SVHN and 96.2 on USPS")
    said("digit-18", "GALA", "with half of it brought 0.6 over the last ten, and with a quarter 1.1")
    usual = 100 * fmean(runs("digit-five", "gala", "svhn")[0]["kept"]["accuracy"][-10:])
    half = fmean(course("digit-five-rounds", "gala", "svhn", 200)[-10:])
    assert [f"{value - usual:.1f}" for value in (half, late["svhn"])] == ["0.6", "1.1"]
    page = (RESULTS.parent / "docs/accuracy.md").read_text(encoding="utf-8")
    assert (
        "{mean:.1f} on average, {svhn:.1f} on SVHN and {usps:.1f} on USPS".format(mean=fmean(late.values()), **late)
        in page
    )


def test_accuracy_on_svhn_goes_with_the_learning_rate() -> None:
    def at(target: str, study: str, number: int) -> str:
        """The mean over five rounds, to that one, of the first seed."""
        kept = course(study, "gala", target, 500) if study == "digit-five-rounds" else first_of(study, target)
        return f"{fmean(kept[number - 5 : number]):.1f}"

    def first_of(study: str, target: str) -> list[float]:
        return [100 * value for value in runs(study, "gala", target)[0]["kept"]["accuracy"]]

    (long,) = (run for run in runs("digit-five-rounds", "gala", "svhn") if run["rounds"] == 500)
    training = resolve(long["config"]).training
    rates = [f"{training.rate(number, 500):.3f}" for number in (100, 300, 500)]
    assert rates == ["0.018", "0.009", "0.007"]
    assert [at("svhn", "digit-five-rounds", number) for number in (100, 300, 500)] == ["87.8", "89.4", "89.7"]
    assert [at("svhn", "digit-five", number) for number in (60, 100)] == ["89.3", "89.6"]
    assert [f"{training.rate(number, 100):.3f}" for number in (60, 100)] == rates[1:]
    assert float(at("usps", "digit-five-rounds", 500)) <= float(at("usps", "digit-five-rounds", 300))
    said("digit-five", "GALA", "accuracy is 87.8 when the rate has fallen to 0.018, after 100 rounds, and 89.7 when it")
    said("digit-five", "GALA", "has fallen to 0.007, after all, where a run of 100 rounds in all has 89.6")
    said(
        "digit-five-rounds",
        "GALA, 500 rounds",
        "where it has fallen to 0.018, it is 87.8, after 300, with 0.009, 89.4, and after all, with 0.007, 89.7",
        "a run of 100 rounds in all has 89.3 and 89.6 at the two latter rates",
        "On USPS nothing is gained after 300 rounds",
    )
    said("digit-five", "GALA", "likewise, 60 rounds have as much as 100, 90.0 and 90.1 over the last ten")
    first = {"temperature": 60, FIRST: 100}
    for (study, rounds), mean in zip(first.items(), ("90.0", "90.1"), strict=True):
        found = [run for run in runs(study, "gala", "svhn") if run["benchmark"] == "digit-five"]
        same = [run for run in found if run["config"].get("gala", {}).get("tau", 0.2) == 0.2]
        assert {run["rounds"] for run in same} == {rounds}
        assert f"{100 * fmean(value for run in same for value in run['kept']['accuracy'][-10:]):.1f}" == mean
    told = (RESULTS.parent / "docs/accuracy.md").read_text(encoding="utf-8")
    assert "there rises from 87.8 after 100 of them to 89.7, while the rate falls from 0.018 to 0.007" in told


def test_why_nines_of_usps_are_sevens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(RESULTS.parent / "benchmarks")
    script = runpy.run_path(str(RESULTS.parent / "benchmarks/usps_frame.py"))
    page = (RESULTS / "usps-frame/table.md").read_text(encoding="utf-8")
    found = json.loads((RESULTS / "usps-frame/table.json").read_text())
    assert script["written"](found).splitlines()[3:] == page.splitlines()[3:]
    sources = [record for record in found["records"] if record["train"] == "the four sources"]
    of_width = [[r for r in sources if r["width"] == width and r["statistics"] == "of USPS"] for width in (32, 28, 24)]
    accuracy, sevens, nines = (
        [fmean(r[key] for r in of) for of in of_width] for key in ("accuracy", "sevens", "nines")
    )
    said("digit-five", "GALA", f"{sevens[0]:.0f} of 100 train images are sevens to it and {nines[0]:.0f} nines, where")
    said("digit-five", "GALA", "nines, where {sevens:.1f} and {nines:.1f} are; in".format(**found["true"]))
    assert accuracy == sorted(accuracy)  # "in a smaller frame it makes fewer mistakes,
    assert sevens == sorted(sevens, reverse=True)  # and fewer such"
    assert nines == sorted(nines)
    images = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    images[:, :, 4:20, 7] = 200
    assert script["height"](images) == 50.0
    small = script["smaller"](images.clamp_min(90), 28)
    assert (small.shape, int(small[..., :2, :].max()), int(small[..., 2:-2, 2:-2].min())) == (images.shape, 0, 90)
    assert script["smaller"](images, 32) is images


class _Checks:
    """An image of pixels that are black and white in turns."""

    images = np.repeat((255 * (np.indices((32, 32)).sum(0) % 2)).astype(np.uint8)[None, :, :, None], 3, axis=3)
    labels = np.zeros(1, np.int64)


def of_hundred(run: archive.Summary) -> list[str]:
    """How many images of 100 are sevens and nines to a model, the mean of its probabilities."""
    return [f"{100 * run['kept']['mean_prediction'][digit]:.1f}" for digit in (7, 9)]


def test_what_is_said_of_sevens_and_nines() -> None:
    said(
        "digit-five", "GALA", "10.3 are sevens to GALA's third seed, the best one, and 7.5 nines, and 9.8 and 7.8 after"
    )
    seeds = runs("digit-five", "gala", "usps")
    third = max(seeds, key=lambda run: run["accuracy"]["last"])
    (longest,) = (run for run in runs("digit-five-rounds", "gala", "usps") if run["rounds"] == 500)
    assert (third["seed"], of_hundred(third)) == (2, ["10.3", "7.5"])
    assert of_hundred(longest) == ["9.8", "7.8"]
    said("digit-five", "MDAN", "of 100 train images 12.2 are sevens to it and 5.4 nines, where 8.6 and 8.9 are")
    said("digit-five-cut", "M³SDA", "12.6 are sevens to it and 5.5 nines, where 8.6 and 8.9 are")
    (mdan,), (m3sda,) = runs("digit-five", "mdan", "usps"), runs("digit-five-cut", "m3sda", "usps")
    assert [of_hundred(mdan), of_hundred(m3sda)] == [["12.2", "5.4"], ["12.6", "5.5"]]
    said("digit-five", "GALA", "to MDAN, CMSS and M³SDA with linear classifiers more are sevens")
    (cmss,), (sfda,) = runs("digit-five", "cmss", "usps"), runs("digit-five", "sfda", "usps")
    assert min(float(of_hundred(run)[0]) for run in (mdan, m3sda, cmss)) > 10.3
    said("digit-five", "GALA", "to FACT 9.5 and 8.2, to SFDA 9.4 and 8.3")
    assert [of_hundred(runs("digit-five", "fact", "usps")[-1]), of_hundred(sfda)] == [["9.5", "8.2"], ["9.4", "8.3"]]


def test_what_is_said_of_gala_on_usps_and_other_targets() -> None:
    said("digit-five", "GALA", "seeds of this row have 97.0, 95.8 and 97.3", "with 97.7 and 97.8, and 98.1 with half")
    for algorithm, ends in (("gala", [97.0, 95.8, 97.3]), ("fact", [97.7, 97.8])):
        found = [round(100 * run["accuracy"]["last"], 1) for run in runs("digit-five", algorithm, "usps")]
        assert found == ends
    said("digit-five", "GALA", "1860 images have a standard error of 0.4")
    assert round(100 * (0.97 * 0.03 / 1860) ** 0.5, 1) == 0.4
    said("digit-five", "GALA", "nine sources GALA, τ = 1, and FACT have 97.6, as much as the oracle of that edition")
    nine = [cell("source-count", row, "usps, 9")[0] for row in ("GALA", "FACT")]
    assert [f"{value:.1f}" for value in (*nine, cell(FIRST, "oracle", "usps")[0])] == ["97.6"] * 3
    said("digit-five", "GALA", "It has 1.3 points more with the first edition of the data", "It is above, as FACT is")
    said("digit-five", "GALA", "In the paper it is 1.6 ahead of FACT there, here 0.3 behind", "are 1.5 above the paper")
    ours, theirs = ([cell("digit-five", row, "mnistm")[number] or 0.0 for row in ("GALA", "FACT")] for number in (0, 1))
    assert [round(gala - fact, 1) for gala, fact in (theirs, ours)] == [1.6, -0.3]
    assert [round(-gap("digit-five", row, "mnistm"), 1) for row in ("FACT", "oracle")] == [1.5, 1.5]
    said("digit-five", "GALA", "Its seeds have 93.0, 92.4 and 92.3")
    found = [f"{100 * run['accuracy']['last']:.1f}" for run in runs("digit-five", "gala", "mnistm")]
    assert found == ["93.0", "92.4", "92.3"]
    assert round(cell(FIRST, "GALA", "mnistm")[0] - cell("digit-five", "GALA", "mnistm")[0], 1) == 1.3
    assert max(gap("digit-five", row, "syn") for row in ("GALA", "FACT")) < -1


def test_what_is_said_of_other_systems_on_digit_five() -> None:
    targets = tuple(published.DIGIT_FIVE["GALA"])
    said("digit-five", "MDAN", "below source-only with the target's statistics, by 2.7 and 3.3 points")
    bound = "source-only, target statistics"
    less = {t: cell("digit-five", bound, t)[0] - cell("digit-five", "MDAN", t)[0] for t in targets}
    assert [f"{less[t]:.1f}" for t in targets if less[t] > 0] == ["2.7", "3.3"]
    said("digit-five", "CMSS", "it moves between 77 and 89 in the last ten rounds")
    last = course("digit-five", "cmss", "usps")[-10:]
    assert (round(min(last)), round(max(last))) == (77, 89)
    said("digit-five", "DSBN", "gains 0.6 to 5.3 points", "above on all targets but usps already")
    half = {t: course("digit-five", "dsbn", t)[11] for t in targets}
    gains = [cell("digit-five", "DSBN", t)[0] - half[t] for t in targets]
    assert (f"{min(gains):.1f}", f"{max(gains):.1f}") == ("0.6", "5.3")
    assert [t for t in targets if half[t] < published.DIGIT_FIVE["DSBN"][t]] == ["usps"]


def test_classifiers_that_come_apart() -> None:
    targets = tuple(published.DIGIT_FIVE["GALA"])
    said("digit-five", "M³SDA", "0.2 to 0.7 after the first round and by 1.0 to 1.3, of at most 2, after the last")
    found = [run["kept"]["discrepancy"] for run in runs("digit-five", "m3sda")]
    assert len(found) == len(targets)
    for number, ends in ((0, ["0.2", "0.7"]), (-1, ["1.0", "1.3"])):
        assert [f"{choose(course[number] for course in found):.1f}" for choose in (min, max)] == ends
    said("digit-five", "M³SDA", "they differ by 0.002 and 0.003 in the end", "it has 99.1 on mnist and 94.1 on usps")
    linear = [run for target in ("mnist", "usps") for run in runs("digit-five-cut", "m3sda", target)]
    assert [f"{run['kept']['discrepancy'][-1]:.3f}" for run in linear] == ["0.002", "0.003"]
    assert [f"{cell('digit-five-cut', 'M³SDA', t)[0]:.1f}" for t in ("mnist", "usps")] == ["99.1", "94.1"]
    said("digit-five-cut", "M³SDA", "it has 31.8 on mnist and 7.2 on usps")
    assert [f"{cell('digit-five', 'M³SDA', t)[0]:.1f}" for t in ("mnist", "usps")] == ["31.8", "7.2"]


def test_what_a_linear_predictor_does_for_fada_and_sfda() -> None:
    targets = tuple(published.DIGIT_FIVE["GALA"])
    said("digit-five", "FADA", "Accuracy is best in round 6 on every target and falls then")
    said("digit-five", "FADA", "within a point of the paper on mnist and four below on usps", "with 58, 53 and 52")
    said("digit-five", "FADA", "ends 11 to 36 points below the paper")
    for target in targets:
        found = course("digit-five", "fada", target)
        assert 1 + found.index(max(found)) == 6
        assert found[-1] < max(found) - 10
    assert abs(gap("digit-five-cut", "FADA", "mnist")) < 1
    assert round(gap("digit-five-cut", "FADA", "usps")) == 4
    said("digit-five-cut", "FADA", "best after three rounds or fewer, with 58.2, 53.1 and 52.1")
    best = {target: course("digit-five-cut", "fada", target) for target in ("mnistm", "svhn", "syn")}
    assert [f"{max(found):.1f}" for found in best.values()] == ["58.2", "53.1", "52.1"]
    assert all(found.index(max(found)) < 3 for found in best.values())
    behind = [gap("digit-five-cut", "FADA", target) for target in best]
    assert (round(min(behind)), round(max(behind))) == (11, 36)
    said("digit-five", "SFDA", "it has 13.7 points less on MNIST-M, and up to 1.6 less on the others")
    less = {t: cell("digit-five", "SFDA", t)[0] - cell("digit-five-cut", "SFDA", t)[0] for t in targets}
    assert f"{less.pop('mnistm'):.1f}" == "13.7"
    assert min(less.values()) > 0
    assert f"{max(less.values()):.1f}" == "1.6"
    said("digit-five", "SFDA", "On SVHN adaptation gains 7 points in two rounds and 0.4 in the others")
    first, _, third, *_, last = course("digit-five", "sfda", "svhn")
    assert (round(third - first), f"{last - third:.1f}") == (7, "0.4")
    said("digit-five-cut", "SFDA", "On SVHN it is best in round 4, with 81.8")
    found = course("digit-five-cut", "sfda", "svhn")
    assert (1 + found.index(max(found)), f"{max(found):.1f}") == (4, "81.8")


def test_the_share_of_a_gap_that_the_oracle_explains_on_the_first_digits() -> None:
    said(
        FIRST,
        "FACT",
        "SYN is regenerated, and the oracle is lower on it too; on USPS the oracle explains most",
    )
    said(
        FIRST,
        "GALA",
        "the second edition closes 1.0 of the 2.6 points",
        "though the oracle gains 1.5 by it",
        "of the paper's Table 1 is 0.4 above ours, that of its Table 3 below",
    )
    assert round(gap(FIRST, "GALA", "usps"), 1) == 2.6
    assert round(gap(FIRST, "GALA", "usps") - gap("digit-five", "GALA", "usps"), 1) == 1.0
    assert round(gap(FIRST, "oracle", "usps") - gap("digit-five", "oracle", "usps"), 1) == 1.5
    assert gap(FIRST, "oracle", "syn") > 1
    assert gap(FIRST, "oracle", "usps") / gap(FIRST, "FACT", "usps") > 0.6
    assert round(gap(FIRST, "oracle", "svhn"), 1) == 0.4
    assert published.DIGIT_18["oracle"]["svhn"] < cell(FIRST, "oracle", "svhn")[0]


def test_kd3a_with_the_network_of_its_authors() -> None:
    said(
        FIRST,
        "KD3A",
        "within 1 point of that row on mnist and mnistm in the same 40 rounds, above it on svhn",
    )
    said(FIRST, "KD3A", "below it on syn and usps", "on usps more than here")
    gaps = {
        target: gap("digit-five-cut-first", "KD3A", target) for target in ("mnist", "mnistm", "svhn", "syn", "usps")
    }
    assert abs(gaps["mnist"]) <= 1
    assert abs(gaps["mnistm"]) <= 1
    assert gaps["svhn"] < -1
    assert gaps["syn"] > 1
    assert gaps["usps"] > gap(FIRST, "KD3A", "usps") > 1
    said("digit-five-cut-first", "KD3A", "below what it has with the network of", "gains nothing in the last quarter")
    found = course("digit-five-cut-first", "kd3a", "usps")
    assert len(found) == 40
    assert found[-1] <= found[29]


def test_what_adaptation_of_frozen_predictors_loses_on_digit_five() -> None:
    said(
        FIRST,
        "SHOT, labels by features",
        "On SVHN and SYN accuracy falls from the second round on",
        "16 of 31 rounds",
    )
    said(
        FIRST,
        "SHOT, labels by features",
        "loses 5 points by adaptation on SVHN and 12 on SYN, 23 and 26 here",
    )
    courses = [course(s, "shot", target) for s in ("digit-five-cut-first", FIRST) for target in ("svhn", "syn")]
    assert [round(found[0] - found[-1]) for found in courses] == [5, 12, 23, 26]
    assert {len(found) for found in courses} == {16}
    for target in ("svhn", "syn"):
        found = course(FIRST, "shot", target)
        assert max(found) == found[0]
    said(
        FIRST,
        "SFDA, labels by features",
        "its first round, before any, has 71 on SVHN, 66 on SYN and 68 on MNIST-M",
    )
    assert [round(course(FIRST, "sfda", target)[0]) for target in ("svhn", "syn", "mnistm")] == [
        71,
        66,
        68,
    ]
    for target in ("svhn", "syn", "mnistm"):
        assert course(FIRST, "sfda", target)[-1] < course(FIRST, "sfda", target)[0] - 20


def test_what_central_systems_gain_on_usps() -> None:
    said(FIRST, "MDAN", "On USPS it gains nothing over source-only, where DSBN", "gains 12 points")
    said(FIRST, "CMSS", "on USPS it gains nothing over source-only, as MDAN")
    plain = cell(FIRST, "source-only", "usps")[0]
    gains = {row: cell(FIRST, row, "usps")[0] - plain for row in ("MDAN", "CMSS", "DSBN")}
    assert max(gains["MDAN"], gains["CMSS"]) < 0.1
    assert round(gains["DSBN"]) == 12
    said(FIRST, "DSBN", "the oracle is lower on it too, by half as much")
    assert 0.45 < gap(FIRST, "oracle", "syn") / gap(FIRST, "DSBN", "syn") < 0.6


def test_fada_rises_and_falls_on_digit_five() -> None:
    said(FIRST, "FADA", "accuracy rises for six to twelve rounds and then falls")
    said(FIRST, "FADA", "in its best rounds FADA is within 3 points of the paper on mnist and mnistm")
    for target in ("mnist", "mnistm", "svhn", "syn"):
        found = course(FIRST, "fada", target)
        assert 6 <= 1 + found.index(max(found)) <= 12
        assert found[-1] < max(found) - 10
    for target in ("mnist", "mnistm"):
        paper = cell(FIRST, "FADA", target)[1]
        assert paper is not None
        assert abs(max(course(FIRST, "fada", target)) - paper) < 3


def test_four_sources_are_also_in_other_tables() -> None:
    page = (RESULTS / "source-count/table.md").read_text(encoding="utf-8")
    assert "With four sources and 100 rounds instead of 60 FACT is within a point everywhere" in page
    for target in ("mnist", "mnistm", "svhn", "syn", "usps"):
        assert abs(cell(FIRST, "GALA", target)[0] - cell(FIRST, "FACT", target)[0]) < 1, target
    assert "on mnistm, svhn and syn it was still rising, with every number of sources" in page
    few, more = runs(FIRST, "kd3a"), runs("source-count", "kd3a")
    assert {run["target"] for run in few if late_rise(run) > 1} == {"mnistm", "svhn", "syn"}
    assert sorted(len(run["sources"]) for run in more) == [6] * 5 + [9] * 5
    assert all(late_rise(run) > 1 for run in more if run["target"] in ("mnistm", "svhn", "syn"))
    assert "syn has 0.34 with four sources, and with nine 0.14, the others 0.08 to 0.13" in page
    (four,) = [run for run in few if run["target"] == "svhn"]
    (nine,) = [run for run in more if run["target"] == "svhn" and len(run["sources"]) == 9]
    assert [f"{run['relevance'].pop('syn'):.2f}" for run in (four, nine)] == ["0.34", "0.14"]
    assert [f"{choose(nine['relevance'].values()):.2f}" for choose in (min, max)] == ["0.08", "0.13"]
    assert cell("similarity", "syn", "svhn")[0] > 3 * max(cell("similarity", s, "svhn")[0] for s in nine["relevance"])
    assert "has 82.9 on syn, more than GALA here, and less than GALA with 100 rounds, 83.3" in page
    theirs, here, longer = (
        cell(study, row, column)[0]
        for study, row, column in (
            ("digit-five-cut-first", "KD3A", "syn"),
            ("source-count", "GALA", "syn, 4"),
            (FIRST, "GALA", "syn"),
        )
    )
    assert (f"{theirs:.1f}", f"{longer:.1f}") == ("82.9", "83.3")
    assert theirs > here


def test_the_last_round_of_fact_on_syn_tells_little() -> None:
    page = (RESULTS / "source-count/table.md").read_text(encoding="utf-8")
    assert "with up to 13 sources, FACT moves by 2 to 3 points a round in the last twenty" in page
    assert "over the last ten GALA is ahead by 1.0 with 6 sources and behind by 0.3 with 17" in page
    late = {
        (algorithm, len(run["sources"])): 100 * np.array(run["kept"]["accuracy"][-20:])
        for algorithm in ("fact", "gala")
        for study in ("source-count", "digit-18-first")
        for run in runs(study, algorithm, "syn")
    }
    moves = [np.abs(np.diff(late["fact", count])).mean() for count in (4, 6, 9, 13)]
    assert (round(min(moves)), round(max(moves))) == (2, 3)
    ahead = [(late["gala", count] - late["fact", count])[-10:].mean() for count in (6, 17)]
    assert [f"{points:+.1f}" for points in ahead] == ["+1.0", "-0.3"]


def test_what_is_said_of_digit_18() -> None:
    def above(row: str, target: str) -> float:
        return -gap("digit-18", row, target)

    said("digit-18", "oracle", "92.3 in its Table 1 and 88.4 in this one; ours is like the former", "further above")
    assert abs(cell("digit-18", "oracle", "svhn")[0] - 92.3) < 1
    assert min(above("oracle", target) for target in ("svhnxs", "svhnstack")) > above("oracle", "svhn")
    said(
        "digit-18", "oracle", "SYNM, made of a regenerated SYN, is much easier", "with the first edition it was harder"
    )
    assert gap("digit-18-first", "oracle", "synm") > 1
    assert above("oracle", "synm") > 5
    said("digit-18", "FACT", "by four fifths as much or more; on MNISTM it explains a quarter")
    shares = {t: above("oracle", t) / above("FACT", t) for t in ("syn", "synm", "uspsm", "mnistm")}
    assert 0.22 < shares.pop("mnistm") < 0.29
    assert min(shares.values()) >= 0.8
    said("digit-18", "GALA", "there the oracle is above the paper's by more than GALA is")
    assert all(above("oracle", target) > above("GALA", target) > 1 for target in ("synm", "uspsm"))
    said("digit-18", "GALA", "GALA has 95.2 on average (95.0), without USPSM too 95.1 (95.4)")
    some = [cell("digit-18", "GALA", t) for t in published.DIGIT_18["GALA"] if t not in ("syn", "synm", "uspsm")]
    assert [f"{fmean(values):.1f}" for values in zip(*some, strict=True)] == ["95.1", "95.4"]
    others = [
        cell("digit-18", "GALA", target) for target in published.DIGIT_18["GALA"] if target not in ("syn", "synm")
    ]
    assert [f"{fmean(values):.1f}" for values in zip(*others, strict=True)] == ["95.2", "95.0"]
    said(
        "digit-18",
        "GALA",
        "On both it rose, by 0.6 and 0.7, in the last quarter of the rounds",
        "six tenths of the relevance",
        "within a point of the paper on both",
    )
    for target, rise in (("svhn", "0.6"), ("svhnstack", "0.7")):
        (run,) = runs("digit-18", "gala", target)
        assert f"{late_rise(run):.1f}" == rise
        assert round(sum(share for name, share in run["relevance"].items() if name.startswith("syn")), 1) == 0.6
        assert round(abs(gap("digit-18-first", "GALA", target)), 1) <= 1
    said("digit-18", "GALA", "FACT is ahead by 0.2; 9000 images have a standard error of 0.1")
    assert round(cell("digit-18", "FACT", "syn")[0] - cell("digit-18", "GALA", "syn")[0], 1) == 0.2
    assert round(100 * (0.985 * 0.015 / 9000) ** 0.5, 1) == 0.1


def test_what_the_pairs_of_fact_have_to_do_with_its_seeds() -> None:
    said("digit-18", "FACT", "On SVHNXS its seeds have 86.5, 86.9 and 61.0", "was in 9, 8 and 2 of the 60 pairs")
    seeds = runs("digit-18", "fact", "svhnxs")
    assert [f"{100 * run['accuracy']['last']:.1f}" for run in seeds] == ["86.5", "86.9", "61.0"]
    assert [sum("synxs" in pair for pair in run["kept"]["pair"]) for run in seeds] == [9, 8, 2]
    assert {len(run["kept"]["pair"]) for run in seeds} == {60}
    known = {source: cell("similarity", source, "svhnxs")[0] for source in seeds[0]["sources"]}
    assert known.pop("synxs") > max(known.values()) + 25


def test_what_other_readings_give() -> None:
    said(
        "digit-five", "GALA", "predictors that keep the sources' BatchNorm statistics 97.9, within a point of the paper"
    )
    said(
        "digit-five",
        "GALA",
        "but τ = 1 has 95.7",
        "statistics 95.3, and to these two 11.5 and 11.6 of 100 train images",
    )
    ends = (
        cell("digit-five-open", TAU, "usps"),
        *(cell("digit-five-rounds", r, "usps") for r in (AS_BYTES_SAY, FACT_HALF)),
    )
    assert [f"{mean:.1f}" for mean, _ in ends] == ["95.7", "95.3", "98.1"]
    said("digit-five-open", STATISTICS, "97.7 there, and the same seed of the first row 97.3")
    assert f"{cell('digit-five-open', STATISTICS, 'usps')[0]:.1f}" == "97.9"
    assert min(gap("digit-five-open", row, "svhn") for row in (STATISTICS, TAU)) > 1
    assert gap("digit-five-open", TAU, "usps") > 1
    every = runs("digit-five-open", "gala", "usps") + runs("digit-five-open", "gala", "svhn")
    by_tau = {(run["target"], run["config"]["gala"]["tau"]): run for run in every}
    (first, *_), keeping = runs("digit-five", "gala", "usps"), by_tau["usps", 0.2]
    late = [f"{100 * np.mean(run['kept']['accuracy'][-10:]):.1f}" for run in (keeping, first)]
    assert (first["seed"], keeping["seed"], late) == (0, 0, ["97.7", "97.3"])
    said("digit-five-open", TAU, "11.5 are sevens to it and 6.4 nines, where 8.6 and 8.9 are")
    assert of_hundred(by_tau["usps", 1.0]) == ["11.5", "6.4"]
    said("digit-five-open", TAU, "SYN's, 0.40 with τ = 0.2 and 0.90 with τ = 1")
    (*_, table) = runs("digit-five", "gala", "svhn")
    assert [f"{run['relevance']['syn']:.2f}" for run in (table, by_tau["svhn", 1.0])] == ["0.40", "0.90"]
    said("digit-five-open", STATISTICS, "9.6 are sevens to it and 8.0 nines, nearly as many as to FACT, 9.5 and 8.2")
    (*_, fact) = runs("digit-five", "fact", "usps")
    assert [of_hundred(by_tau["usps", 0.2]), of_hundred(fact)] == [["9.6", "8.0"], ["9.5", "8.2"]]
    said("digit-five-open", STATISTICS, "On SVHN 88.4 is a low round: over the last ten it has 89.5, as the first row")
    said("digit-five-open", TAU, "one seed, 88.9 over the last ten rounds against 89.5")
    late = [
        100 * np.mean([run["kept"]["accuracy"][-10:] for run in every])
        for every in ([by_tau["svhn", 0.2]], runs("digit-five", "gala", "svhn"), [by_tau["svhn", 1.0]])
    ]
    assert [f"{value:.1f}" for value in late] == ["89.5", "89.5", "88.9"]
    said("digit-five-open", STATISTICS, "93.0 in the last round and the first row 92.9")
    said(
        "digit-five-open",
        STATISTICS,
        "best round 93.3 and 93.9, the first row 92.7 and 93.5: ahead of it by 0.1 to 0.6",
    )
    means = {row: three_ways("digit-five-open", row) for row in (STATISTICS, AS_IN_TABLE)}
    assert [[f"{mean:.1f}" for mean in found] for found in means.values()] == [
        ["93.0", "93.3", "93.9"],
        ["92.9", "92.7", "93.5"],
    ]
    ahead = [ours - theirs for ours, theirs in zip(*means.values(), strict=True)]
    assert (round(min(ahead), 1), round(max(ahead), 1)) == (0.1, 0.6)
    said("digit-five-open", STATISTICS, "Information and entropy, which know no labels, prefer the first row")
    keeping = [run for run in runs("digit-five-open", "gala") if run["config"]["gala"]["tau"] == 0.2]
    usual = [run for run in runs("digit-five", "gala") if run["target"] in TARGETS]
    for criterion, better in (("information", 1), ("entropy", -1)):
        ends = [fmean(run["kept"][criterion][-1] for run in every) for every in (usual, keeping)]
        assert better * ends[0] > better * ends[1]


def three_ways(study: str, row: str) -> list[float]:
    """Means over targets in the last round, by the label-free pick and in the best round."""
    cells = json.loads((RESULTS / study / "table.json").read_text(encoding="utf-8"))
    ways = ("last", "selected", "best_oracle")
    return [fmean(c["mean"] for c in cells if (c["row"], c["selection"]) == (row, way)) for way in ways]


def test_an_oracle_of_unchanged_images_is_measured_once() -> None:
    first, second = (
        {c.column: archive.recipe(c.run) for c in studies.get(name)().cells() if c.row == "oracle"}  # type: ignore[attr-defined]
        for name in ("digit-18-first", "digit-18")
    )
    assert {target for target in first if first[target] != second[target]} == {"syn", "usps", "synm", "uspsm"}


def test_what_is_said_of_the_first_digit_18() -> None:
    assert (published.DIGIT_FIVE["oracle"]["svhn"], published.DIGIT_18["oracle"]["svhn"]) == (92.3, 88.4)
    said("digit-18-first", "oracle", "92.3 in its Table 1 and 88.4 in this one; ours is like the former")
    assert abs(cell("digit-18-first", "oracle", "svhn")[0] - 92.3) < 1
    said("digit-18-first", "FACT", "On SVHNXS the oracle is above the paper's too, by more than half as much")
    assert gap("digit-18-first", "oracle", "svhnxs") / gap("digit-18-first", "FACT", "svhnxs") > 0.5
    said("digit-18-first", "FACT", "a model of SYNXS alone has 86")
    assert round(cell("similarity", "synxs", "svhnxs")[0]) == 86
    said("digit-18-first", "FACT", "On SYN the oracle explains most, on MNISTM a fifth, on USPSM nothing")
    assert round(gap("digit-18-first", "oracle", "mnistm") / gap("digit-18-first", "FACT", "mnistm"), 1) == 0.2
    assert gap("digit-18-first", "oracle", "syn") / gap("digit-18-first", "FACT", "syn") > 0.6
    assert gap("digit-18-first", "oracle", "uspsm") < 0 < gap("digit-18-first", "FACT", "uspsm")
    said(
        "digit-18-first",
        "GALA",
        "on SYN, and on SYNM, which is made of it, GALA loses more than FACT and the oracle do",
    )
    for target in ("syn", "synm"):
        losses = {row: gap("digit-18-first", row, target) for row in ("GALA", "FACT", "oracle")}
        assert losses["GALA"] > max(losses["FACT"], losses["oracle"])


def test_what_statistics_of_batches_cost_on_photographs() -> None:
    targets = ("amazon", "caltech", "dslr", "webcam")
    fixed, batches = probe("all sources together"), probe("all sources together, statistics of the batch")
    averaged = fmean(probe("each source, parameters averaged").values())
    for row in ("FACT", "GALA"):
        said("office-batch", row, "has more on average (one of each source, averaged, hardly)")
        mean = fmean(cell("office-batch", row, target)[0] for target in targets)
        assert fmean(fixed.values()) > mean + 0.5
        assert abs(averaged - mean) < 0.5
        said("office-batch", row, "Fixed ones give more")
        assert fmean(cell("office-caltech10", row, target)[0] for target in targets) > mean + 1
    said("office-caltech10", "SHOT", "a regression on its frozen features knows 92.4")
    assert round(fixed["caltech"], 1) == 92.4
    said("office-batch", "GALA", "loses six points where BatchNorm takes the statistics of batches")
    lost = {target: fixed[target] - batches[target] for target in targets}
    assert 5.5 < fmean(lost.values()) < 6.5
    said("office-batch", "GALA", "On Caltech, where statistics of batches cost most, GALA has less the slower its")
    assert max(lost, key=lost.__getitem__) == "caltech"
    rates = ("", ", of the extractor 0.002", ", of the extractor 0.0002")
    usual, slower, slowest = (cell("sweep-office", f"lr 0.02, momentum kept{rate}", "caltech")[0] for rate in rates)
    assert fixed["caltech"] > usual > slower > slowest > batches["caltech"]
    decided = (RESULTS.parent / "docs/decisions.md").read_text(encoding="utf-8")
    assert "has {:.1f}, {:.1f}, {:.1f} and {:.1f} % on\nAmazon".format(*(fixed[t] for t in targets)) in decided
    less = {t: fixed[t] - probe("each source, parameters averaged")[t] for t in targets}
    assert f"{less['dslr']:.1f} less on DSLR and {less['webcam']:.1f} on Webcam" in decided
    assert max(less["amazon"], less["caltech"]) < 0.1


def test_what_chose_fixed_statistics_on_photographs_and_what_did_not() -> None:
    targets = ("amazon", "caltech", "dslr", "webcam")
    about = studies.get("office-caltech10")().about  # type: ignore[attr-defined]
    decided = (RESULTS.parent / "docs/decisions.md").read_text(encoding="utf-8")
    assert "With those of batches all but the oracle have less on average" in about
    fixed, batch = (
        {row: fmean(cell(study, row, t)[0] for t in targets) for row in ("oracle", "source-only", "FACT", "GALA")}
        for study in ("office-caltech10", "office-batch")
    )
    assert [row for row in fixed if fixed[row] <= batch[row]] == ["oracle"]
    assert f"GALA has {fixed['GALA']:.1f} on average where it had {batch['GALA']:.1f}" in decided
    for row in ("FACT", "source-only"):
        assert f"{row} {fixed[row]:.1f} instead of {batch[row]:.1f}" in decided

    assert "though the information of GALA's predictions chooses batches, by little" in about
    means = json.loads((RESULTS / "sweep-office/judged.json").read_text())["means"]["information"]
    of_batch, of_fixed = (means[row] for row in ("lr 0.02, momentum kept", FIXED))
    assert 0 < of_batch - of_fixed < 0.05
    assert f"on three targets is {of_fixed:.2f} nats with them and {of_batch:.2f} without" in decided

    alone = "without each source in turn"
    gained = [probe(alone)[t] - probe(f"{alone}, statistics of the batch")[t] for t in targets]
    told = f"gains\n{min(gained):.1f} to {max(gained):.1f} points by fixed statistics, whichever domain is the target"
    assert told in decided


def test_what_lacks_on_caltech() -> None:
    plain = cell("office-caltech10", "source-only", "caltech")[0]
    for row, algorithm in (("FACT", "fact"), ("GALA", "gala")):
        said("office-caltech10", row, "Source-only has 93.0 on Caltech, and 93.7 in SHOT's paper")
        assert round(plain, 1) == 93.0
        said("office-caltech10", row, "GALA and FACT gain 0.4 points here", "are 1.3 and 1.8 above SHOT's source-only")
        assert round(cell("office-caltech10", row, "caltech")[0] - plain, 1) == 0.4
        assert round(published.OFFICE_CALTECH10[row]["caltech"] - 93.7, 1) == {"GALA": 1.3, "FACT": 1.8}[row]
        said("office-caltech10", row, "SHOT gains 0.6 here and 2.5 in its own paper")
        assert round(cell("office-caltech10", "SHOT", "caltech")[0] - plain, 1) == 0.6
        assert round(published.OFFICE_CALTECH10["SHOT"]["caltech"] - 93.7, 1) == 2.5
        said("office-caltech10", row, "GALA has more the higher that rate is", "with fixed ones it has not")
        faster, usual = (cell("office-lite2", f"GALA{rate}", "caltech")[0] for rate in (", extractor 0.005", ""))
        assert faster < usual
        said("office-caltech10", row, "After ten rounds accuracy changes by -0.2 to +0.7 points")
        for run in runs("office-caltech10", algorithm, "caltech"):
            assert -0.2 < 100 * (run["kept"]["accuracy"][-1] - run["kept"]["accuracy"][9]) < 0.75
        said("office-caltech10", row, "1123 images have a standard error of 0.8")
        assert round(100 * (0.93 * 0.07 / 1123) ** 0.5, 1) == 0.8


def test_what_is_said_of_gala_on_small_targets() -> None:
    said("office-caltech10", "GALA", "Its seeds have 95.9, 96.3 and 96.0; 958 images have a standard error of 0.6")
    ends = [100 * run["accuracy"]["last"] for run in runs("office-caltech10", "gala", "amazon")]
    assert [f"{end:.1f}" for end in ends] == ["95.9", "96.3", "96.0"]
    assert round(100 * (0.96 * 0.04 / 958) ** 0.5, 1) == 0.6
    said("office-caltech10", "GALA", "One image of 157 is 0.6 points: one seed has none wrong, two have one")
    said("office-caltech10", "GALA", "One image of 295 is 0.3 points: its seeds have 1, 3 and 5 wrong")
    for target, images, wrong in (("dslr", 157, [0, 1, 1]), ("webcam", 295, [1, 3, 5])):
        ends = [run["accuracy"]["last"] for run in runs("office-caltech10", "gala", target)]
        assert [round(images * (1 - end)) for end in ends] == wrong


@pytest.mark.parametrize("study", published.TABLES)
def test_every_target_on_which_gala_falls_short_has_a_reason_of_its_own(study: str) -> None:
    made = studies.get(study)()
    assert isinstance(made, AccuracyStudy)
    why = made.reasons["GALA"]
    assert not isinstance(why, str)
    told = {target for topic in why for target in topic.split(" and ")}
    short = [t for t in made.published["GALA"] if round(gap(study, "GALA", t), 1) > 0]
    behind = [t for t in made.published["GALA"] if cell(study, "GALA", t)[0] < cell(study, "FACT", t)[0]]
    assert set(short + (behind if study == "digit-18" else [])) <= told


def test_what_the_lower_bound_on_photographs_is_held_against() -> None:
    said(
        "office-caltech10",
        "source-only",
        "SHOT's authors have published 95.4, 93.7, 98.9 and 98.3, and ours is within 1.5",
    )
    for target, theirs in zip(("amazon", "caltech", "dslr", "webcam"), (95.4, 93.7, 98.9, 98.3), strict=True):
        assert abs(cell("office-caltech10", "source-only", target)[0] - theirs) < 1.5


def test_which_statistics_the_sources_alone_choose_on_photographs() -> None:
    script = runpy.run_path(str(RESULTS.parent / "benchmarks/probe.py"))
    found = {
        f"{way}{words}": probe(f"{way}{words}") for way in script["WAYS"] for words in script["STATISTICS"].values()
    }
    page = (RESULTS / "probe/table.md").read_text(encoding="utf-8")
    assert script["verdict"](found) in page
    for way in ("all sources together", "without each source in turn"):
        found[way] = {**found[way], "dslr": 0.0}
    assert "those of the batch for dslr:" in script["verdict"](found)
    assert "the same for 4 of 4" in script["verdict"](found)
    found["all sources together"] = {**found["all sources together"], "dslr": 100.0}
    assert "the same for 3 of 4" in script["verdict"](found)


def test_which_network_the_sources_alone_choose_on_photographs() -> None:
    script = runpy.run_path(str(RESULTS.parent / "benchmarks/probe.py"))
    way = "without each source in turn"
    found = {f"{way}{words}": probe(f"{way}{words}") for words in ("", *script["LARGER"])}
    assert script["larger"](found) in (RESULTS / "probe/table.md").read_text(encoding="utf-8")
    assert "they choose EfficientNet-Lite2 with 224 pixels (" in script["larger"](found)
    found[way] = dict.fromkeys(found[way], 99.0)
    assert "they choose EfficientNet-Lite0 (EfficientNet-Lite0 99.0; " in script["larger"](found)


def test_a_source_is_tested_by_the_other_sources_and_never_by_the_target() -> None:
    without_each = runpy.run_path(str(RESULTS.parent / "benchmarks/probe.py"))["without_each"]
    labels = np.arange(20) % 2
    images = np.stack([10.0 * labels, 10.0 - 10.0 * labels], axis=1)
    turned = (np.tile(images, (3, 1)), np.tile(1 - labels, 3))
    many = (np.tile(images, (9, 1)), np.tile(labels, 9))
    known = {"a": (images, labels), "b": (images, labels), "turned": turned, "many": many}
    # a and b are wrong about what is turned, and it outvotes the one of them that is left; `many` would outvote it.
    assert without_each(known, "many") == 0
    assert without_each(known, "turned") == 100
    assert round(without_each(known, "a")) == 33  # b alone is found, by many; turned and many are not


def test_what_is_said_of_five_more_systems_on_photographs() -> None:
    study = "office-caltech10"
    for row in ("MDAN", "CMSS"):
        said(study, row, "On Webcam source-only, too, is below the paper, by 2.1", "standard error of 0.8")
    assert round(gap(study, "source-only", "webcam"), 1) == 2.1
    assert round(100 * (0.98 * 0.02 / 295) ** 0.5, 1) == 0.8
    said(study, "M³SDA", "below source-only on all four, by 0.6 to 3.2 points")
    said(study, "M³SDA", "gains 0.2 and 0.4 after its first round, on DSLR 2.5, and on Webcam it loses 0.7")
    less = [cell(study, "source-only", t)[0] - cell(study, "M³SDA", t)[0] for t in published.OFFICE_CALTECH10["M³SDA"]]
    assert [f"{choose(less):.1f}" for choose in (min, max)] == ["0.6", "3.2"]
    courses = [course(study, "m3sda", target) for target in ("amazon", "caltech", "dslr", "webcam")]
    assert [f"{found[-1] - found[0]:.1f}" for found in courses] == ["0.2", "0.4", "2.5", "-0.7"]
    said(study, "M³SDA", "Its classifiers differ by 0.01 to 0.07, of at most 2, in the end", "10 of 40 rounds")
    apart = [run["kept"]["discrepancy"][-1] for run in runs(study, "m3sda")]
    assert [f"{choose(apart):.2f}" for choose in (min, max)] == ["0.01", "0.07"]
    said(study, "DSBN", "source-only has 86.9 on Caltech and 98.7 on DSLR", "is +2.1 and -1.9 points")
    for target, plain, gained in (("caltech", 86.9, 2.1), ("dslr", 98.7, -1.9)):
        batches = cell("office-batch", "source-only", target)[0]
        assert round(batches, 1) == plain
        assert round(cell(study, "DSBN", target)[0] - batches, 1) == gained
    said(study, "DSBN", "Its second half, with pseudo-labels, changes less than half a point")
    for target in published.OFFICE_CALTECH10["DSBN"]:
        found = course(study, "dsbn", target)
        assert len(found) == 20
        assert max(abs(value - found[9]) for value in found[10:]) < 0.5
    said(study, "FADA", "ten points below its source-only on DSLR and Webcam", "45 to 60 after the first round")
    said(study, "FADA", "ends below source-only too, by up to a point")
    fada, plain = published.OFFICE_CALTECH10["FADA"], published.OFFICE_CALTECH10["source-only"]
    assert [round(plain[target] - fada[target]) for target in ("dslr", "webcam")] == [11, 11]
    for target in fada:
        assert 45 < course(study, "fada", target)[0] < 60
        assert 0 < cell(study, "source-only", target)[0] - cell(study, "FADA", target)[0] < 1.1


def test_what_a_larger_network_gives_on_photographs() -> None:
    for row in ("FACT", "GALA"):
        said("office-caltech10", row, "GALA has 94.0 after 20 rounds, one seed, and is within a point of the paper")
        said("office-caltech10", row, "with Lite0 its seeds have 93.0 to 93.5 after as many")
    assert round(cell("office-lite2", "GALA", "caltech")[0], 1) == 94.0
    halfway = [100 * run["kept"]["accuracy"][19] for run in runs("office-caltech10", "gala", "caltech")]
    assert [f"{value:.1f}" for value in (min(halfway), max(halfway))] == ["93.0", "93.5"]
    assert all(abs(gap("office-lite2", "GALA", target)) < 1 for target in published.OFFICE_CALTECH10["GALA"])
    said("office-lite2", "GALA", "it has 93.4 on Caltech, 0.7 less, and 96.1 on Amazon, 0.5 more")
    for target, less, points in (("caltech", 93.4, 0.7), ("amazon", 96.1, -0.5)):
        smaller = cell("office-caltech10", "GALA", target)[0]
        assert round(smaller, 1) == less
        assert round(cell("office-lite2", "GALA", target)[0] - smaller, 1) == points


def test_what_a_faster_extractor_gives_on_photographs() -> None:
    row = "GALA, extractor 0.005"
    said("office-lite2", row, "+0.3 on Amazon and -0.3 on Caltech, where a processor did the run")
    for target, points in (("amazon", "+0.3"), ("caltech", "-0.3")):
        assert f"{cell('office-lite2', row, target)[0] - cell('office-lite2', 'GALA', target)[0]:+.1f}" == points
    devices = {run["target"]: run["device"] for run in runs("office-lite2", "gala") if _rate(run) == 0.25}
    assert devices == {"amazon": "cuda", "caltech": "cpu"}


def _rate(run: archive.Summary) -> float:
    rate: float = run["config"]["training"]["extractor_rate"]
    return rate


def _base_rate(run: archive.Summary) -> float:
    rate: float = run["config"]["training"]["lr"]
    return rate


def test_what_a_second_sweep_gives() -> None:
    said(
        "digit-five", "GALA", "Twice and four times the learning rate have less on average over MNIST-M, SVHN and USPS"
    )
    said("digit-five", "GALA", "twice the IGD as much (0.06 points more)", "gains on no target in 100 rounds, one seed")
    said("digit-five", "GALA", "though it was still rising on three")
    assert sum(late_rise(run) > 0.5 for run in runs("digit-five-softmax", "gala") if _base_rate(run) > 0.1) == 3
    said("digit-five", "GALA", "target by target each of them is ahead somewhere")
    for row in ("lr 0.08", "lr 0.16", "IGD 2"):
        ahead = [cell("sweep-second", row, t)[0] - cell("sweep-second", CENTRE, t)[0] for t in TARGETS]
        assert max(ahead) > 0, row
    means = json.loads((RESULTS / "sweep-second/judged.json").read_text())["means"]["accuracy"]
    centre = means.pop(CENTRE)
    assert f"{100 * (means['IGD 2'] - centre):.2f}" == "0.06"
    assert all(value < centre for row, value in means.items() if row != "IGD 2")
    assert centre > means["lr 0.08"] > means["lr 0.16"]  # "Higher ones, tried later, have less"
    for target in published.DIGIT_FIVE["GALA"]:
        once, twice = (cell("digit-five-softmax", row, target)[0] for row in (ONCE, BOTH))
        assert twice < once + 0.1
