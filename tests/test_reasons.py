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
from galafed.studies.digit_five_rounds import AS_BYTES_SAY, FACT_HALF, LOWER, row_of
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
    said("digit-five", "GALA", "with the paper's 500 one seed has 89.5", "the run with the paper's 500 rounds, 97.5")
    row = "GALA, 500 rounds"
    assert [f"{cell('digit-five-rounds', row, t)[0]:.1f}" for t in ("svhn", "usps")] == ["89.5", "97.5"]
    said("digit-five-rounds", row, "it has 89.6 on average, that of 100 rounds 89.6 over its last 10")
    said("digit-five-rounds", row, "On USPS they may help a little: 97.8 and 97.3")
    for target, means in (("svhn", ["89.6", "89.6"]), ("usps", ["97.8", "97.3"])):
        long, short = course("digit-five-rounds", "gala", target, 500), runs("digit-five", "gala", target)[0]
        assert (len(long), short["seed"]) == (500, 0)
        assert [f"{np.mean(long[-50:]):.1f}", f"{100 * np.mean(short['kept']['accuracy'][-10:]):.1f}"] == means


def late(kept: list[float], rounds: int = 10) -> float:
    """The mean of the last test accuracies, in percent."""
    return 100 * fmean(kept[-rounds:])


def information(run: archive.Summary) -> float:
    """What the predictions of the last round tell."""
    return float(run["kept"]["information"][-1])


def cut_off() -> dict[str, archive.Summary]:
    """By target, the curves of the runs that were cut off."""
    lines = (RESULTS / "digit-five-rounds/cut-off.jsonl").read_text(encoding="utf-8").splitlines()
    return {run["target"]: run for run in map(json.loads, lines)}


def test_what_half_the_rate_and_twice_the_rounds_give() -> None:
    """The new runs over their last ten rounds beside the seeds of the table."""

    def settled(algorithm: str, *targets: str) -> list[str]:
        found = [r for t in targets for r in runs("digit-five-rounds", algorithm, t) if r["rounds"] == 200]
        return [f"{late(run['kept']['accuracy']):.1f}" for run in found]

    def seed(number: int, algorithm: str, *targets: str) -> list[str]:
        return [f"{late(runs('digit-five', algorithm, t)[number]['kept']['accuracy']):.1f}" for t in targets]

    three = ("svhn", "mnistm", "usps")
    assert settled("fact", *three) == ["89.9", "92.7", "97.9"]
    assert [seed(0, "fact", *three), seed(1, "fact", *three)] == [["88.8", "92.0", "97.7"], ["88.9", "92.7", "97.8"]]
    said(
        "digit-five-rounds",
        FACT_HALF,
        "it has 89.9 on SVHN, 92.7 on MNIST-M and 97.9 on USPS, and the same seed",
        "88.8, 92.0 and 97.7; the other seed of 100 rounds has 88.9, 92.7 and 97.8",
        "It has more information than the same seed on all three",
    )
    for run in runs("digit-five-rounds", "fact"):
        assert information(run) > information(runs("digit-five", "fact", run["target"])[0])
    four = ("mnistm", "svhn", "syn", "usps")
    assert settled("gala", *four) == ["93.4", "90.2", "96.7", "95.6"]
    assert seed(0, "gala", *four) == ["92.7", "89.6", "96.3", "97.3"]
    said(
        "digit-five-rounds",
        AS_BYTES_SAY,
        "it has 93.4 on MNIST-M, 90.2 on SVHN and 96.7 on SYN, and the same seed",
        "92.7, 89.6 and 96.3; but 95.6 on USPS where that has 97.3",
        "11.6 are sevens to it and 6.4 nines, where 8.6 and 8.9 are",
        "it has 93.0, 89.5 and 97.7 on MNIST-M, SVHN and USPS: beside these it gains 0.3 and 0.7, and loses 2.1",
    )
    new = {run["target"]: run for run in runs("digit-five-rounds", "gala") if run["rounds"] == 200}
    assert {run["config"]["gala"]["head_statistics"] for run in new.values()} == {"source"}
    assert of_hundred(new["usps"]) == ["11.6", "6.4"]
    alike = {
        run["target"]: run
        for run in runs("digit-five-open", "gala")
        if run["config"]["gala"]["head_statistics"] == "source"
    }
    before, after = (
        {target: late(found[target]["kept"]["accuracy"]) for target in ("mnistm", "svhn", "usps")}
        for found in (alike, new)
    )
    assert [f"{value:.1f}" for value in before.values()] == ["93.0", "89.5", "97.7"]
    assert [f"{after[target] - before[target]:+.1f}" for target in before] == ["+0.3", "+0.7", "-2.1"]
    said("digit-five-rounds", AS_BYTES_SAY, "It has less information than the row of 100 rounds on every target")
    said("digit-five-rounds", AS_BYTES_SAY, "statistics: with the same ones 100 rounds have less still")
    for target, run in new.items():
        assert information(run) < information(runs("digit-five", "gala", target)[0])
    assert all(information(alike[target]) < information(new[target]) for target in ("mnistm", "svhn"))
    said("digit-five", "GALA", "it has 95.0, as the first seed of this row (95.1), more of it on MNIST-M and SYN, less")
    ends, first = (
        {t: cell("digit-five-rounds", row, t)[0] for t in published.DIGIT_FIVE["GALA"]}
        for row in (AS_BYTES_SAY, "GALA, 100 rounds")
    )
    assert [f"{fmean(row.values()):.1f}" for row in (ends, first)] == ["95.0", "95.1"]
    assert [target for target in ends if ends[target] > first[target] + 0.1] == ["mnistm", "syn"]
    assert ends["usps"] < first["usps"] - 1


def test_what_is_said_of_the_runs_that_were_cut_off() -> None:
    found = cut_off()
    lengths = sorted(len(run["kept"]["accuracy"]) for run in found.values())
    assert (lengths[0], lengths[-1]) == (292, 327)
    row = row_of("GALA", 500, LOWER)
    cells = {c.column: c.run for c in studies.get("digit-five-rounds")().cells() if c.row == row}
    for target, run in found.items():
        assert archive.recipe(resolve(run["config"])) == archive.recipe(cells[target])
    means = {target: late(run["kept"]["accuracy"]) for target, run in found.items()}
    told = " ".join(studies.get("digit-five-rounds").about.split())  # type: ignore[attr-defined]
    assert "cut off after 292 to 327 of them" in told
    words = (
        "they have {mnist:.1f} on MNIST, {mnistm:.1f} on MNIST-M, {svhn:.1f} on SVHN, {syn:.1f}* on SYN and "
        "{usps:.1f} on USPS, {mean:.1f}* on average, where the first seed of 100 rounds has {first:.1f}* over its last"
    )
    seeds = [
        {t: late(runs("digit-five", "gala", t)[number]["kept"]["accuracy"]) for t in published.DIGIT_FIVE["GALA"]}
        for number in (0, 1, 2)
    ]
    of_seeds = [fmean(values.values()) for values in seeds]
    assert words.format(mean=fmean(means.values()), first=of_seeds[0], **means) in told
    training = resolve(found["svhn"]["config"]).training
    assert [f"{training.rate(number, 500):.4f}" for number in (lengths[-1], lengths[0])] == ["0.0022", "0.0024"]
    assert "where the rate has fallen to 0.0022 to 0.0024" in told
    assert (
        "They have more information than all three seeds of 100 rounds end with, on USPS too, where they have less"
        in told
    )
    for target, run in found.items():
        assert information(run) > max(map(information, runs("digit-five", "gala", target)))
    assert sum(values["usps"] > means["usps"] for values in seeds) == 2  # "less accuracy than two of these"
    for target, more in (("svhn", True), ("usps", False)):  # "more information on SVHN, and less on USPS, as they have
        (long,) = (run for run in runs("digit-five-rounds", "gala", target) if run["rounds"] == 500)  # accuracy"
        assert (information(found[target]) > information(long)) == more
        assert (means[target] > late(long["kept"]["accuracy"])) == more

    def without_syn(values: dict[str, float]) -> float:
        return fmean(value for target, value in values.items() if target != "syn")

    said(
        "digit-five",
        "GALA",
        "they have {:.1f}, where the seeds of this row have {:.1f}, {:.1f} and {:.1f} over theirs, and without".format(
            fmean(means.values()), *of_seeds
        ),
        "SYN {:.1f}, where these have {:.1f}, {:.1f} and {:.1f}.".format(*map(without_syn, (means, *seeds))),
    )
    page = (RESULTS.parent / "docs/accuracy.md").read_text(encoding="utf-8")
    words = "they have {:.1f}* on average, where the seeds of the table have {:.1f}*, {:.1f}* and {:.1f}* over theirs"
    assert words.format(fmean(means.values()), *of_seeds) in page
    said(
        "digit-18", "GALA", "over its last ten 0.6 more after 200 with half of it and the sources' BatchNorm statistics"
    )
    said("digit-18", "GALA", "1.1 more after 293 of 500 with a quarter, where it was cut off")
    half = fmean(course("digit-five-rounds", "gala", "svhn", 200)[-10:])
    assert [f"{value - seeds[0]['svhn']:.1f}" for value in (half, means["svhn"])] == ["0.6", "1.1"]


def test_two_rates_and_500_rounds() -> None:
    """The same seed with 0.04 and with 0.01, after as many rounds, means over ten."""

    def after(target: str, rounds: int) -> list[float]:
        lower = [100 * value for value in cut_off()[target]["kept"]["accuracy"]]
        return [fmean(kept[rounds - 10 : rounds]) for kept in (lower, course("digit-five-rounds", "gala", target, 500))]

    def told(target: str, rounds: int) -> list[str]:
        return [f"{value:.1f}" for value in after(target, rounds)]

    assert [len(cut_off()[t]["kept"]["accuracy"]) for t in ("svhn", "usps")] == [293, 327]
    assert [told("svhn", 293), told("svhn", 100), told("usps", 327)] == [
        ["90.7", "89.0"],
        ["89.6", "87.9"],
        ["96.2", "97.8"],
    ]
    said("digit-five", "GALA", "has 90.7, and one that began with 0.04 has 89.0; after 100 they have 89.6 and 87.9")
    said("digit-five", "GALA", "after 327 of 500 rounds that with 0.01 has 96.2 and that with 0.04 97.8")
    page, decisions = (
        (RESULTS.parent / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("accuracy", "decisions")
    )
    assert "has 90.7, and one that began with 0.04, the rate of the tables, 89.0 (means over ten rounds)" in page
    assert "that with 0.04 is ahead of that with 0.01 after 20, by 3.5 points, and behind from 40 on" in decisions
    lower, usual = after("svhn", 20)
    assert f"{usual - lower:.1f}" == "3.5"
    assert all(ours > theirs for ours, theirs in (after("svhn", rounds) for rounds in range(40, 293)))
    assert all(ours < theirs for ours, theirs in (after("usps", rounds) for rounds in range(20, 327)))


def test_accuracy_on_svhn_where_the_rate_has_fallen_as_far() -> None:
    def at(rounds: int, number: int) -> str:
        """The mean over five rounds, to that one, of the first seed."""
        kept = course("digit-five-rounds", "gala", "svhn", 500)
        if rounds == 100:
            kept = [100 * value for value in runs("digit-five", "gala", "svhn")[0]["kept"]["accuracy"]]
        return f"{fmean(kept[number - 5 : number]):.1f}"

    (long,) = (run for run in runs("digit-five-rounds", "gala", "svhn") if run["rounds"] == 500)
    training = resolve(long["config"]).training
    for number, rate, ours, short in (
        (300, "0.009", "89.4", "89.3"),
        (500, "0.007", "89.7", "89.6"),
        (100, "0.018", "87.8", "85.6"),
    ):
        assert {f"{training.rate(number, 500):.3f}", f"{training.rate(number // 5, 100):.3f}"} == {rate}
        assert [at(500, number), at(100, number // 5)] == [ours, short]
    usps = course("digit-five-rounds", "gala", "usps", 500)
    assert fmean(usps[495:]) <= fmean(usps[295:300])
    said(
        "digit-five-rounds",
        "GALA, 500 rounds",
        "89.4 and 89.3 at 0.009, 89.7 and 89.6 at 0.007; at 0.018, after 100 rounds, it has 87.8, and the short one",
        "after 20, 85.6 (means over five rounds)",
        "On USPS nothing is gained after 300 rounds",
    )
    said("digit-five", "GALA", "first edition of the data 60 have as much as 100, 90.0 and 90.1 over the last ten")
    first = {"temperature": 60, FIRST: 100}
    for (study, rounds), mean in zip(first.items(), ("90.0", "90.1"), strict=True):
        found = [run for run in runs(study, "gala", "svhn") if run["benchmark"] == "digit-five"]
        same = [run for run in found if run["config"].get("gala", {}).get("tau", 0.2) == 0.2]
        assert {run["rounds"] for run in same} == {rounds}
        assert f"{100 * fmean(value for run in same for value in run['kept']['accuracy'][-10:]):.1f}" == mean


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
    said(
        "digit-five",
        "GALA",
        "High are two seeds of this row, 97.0 and 97.3,",
        "low are the second seed of this row, 95.8,",
    )
    said("digit-five", "GALA", "FACT's end with 97.7 and 97.8, and 98.1 with half")
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
        "digit-five", "GALA", "predictors that keep the sources' BatchNorm statistics, 97.9; low", "95.8, τ = 1, 95.7 ("
    )
    said("digit-five", "GALA", "and those statistics, 95.3, and a quarter of it with 500, where it was cut off, 96.2")
    said(
        "digit-five", "GALA", "To the models of τ = 1 and of half the rate 11.5 and 11.6 of 100 train images are sevens"
    )
    said("digit-five", "GALA", "Its runs end with 97.0 to 97.9 or with 95.3 to 96.2")
    assert f"{100 * cut_off()['usps']['kept']['accuracy'][-1]:.1f}" == "96.2"
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

    said("office-lite2", "FACT", "With EfficientNet-Lite0 it has 93.4 on Caltech", "A processor did the run")
    assert f"{cell('office-caltech10', 'FACT', 'caltech')[0]:.1f}" == "93.4"
    assert abs(cell("office-lite2", "FACT", "caltech")[0] - 93.4) < 0.8  # the standard error
    assert [run["device"] for run in runs("office-lite2", "fact")] == ["cpu"]


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
