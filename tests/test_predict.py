"""Predicting with a finished run: from the command, from Python, with what it knows and what it says it does not."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

import galafed
from galafed.algorithms.base import algorithms
from galafed.benchmarks.base import benchmarks
from galafed.errors import CheckpointError, ConfigError, DataError
from galafed.familiarity import LEVELS, distances, profile_from, unfamiliarity, usual
from in_process import gala, pictures, toy_run

TOY = benchmarks.get("toy")()


def copied(tmp_path: Path) -> Path:
    """A run whose folder a test may change."""
    return Path(shutil.copytree(toy_run().folder, tmp_path / "copy"))


@pytest.mark.parametrize("algorithm", algorithms.names())
def test_predictions_of_test_images_have_the_accuracy_of_the_summary(algorithm: str) -> None:
    result = toy_run(algorithm)
    test = TOY.load("noisy").test
    found = galafed.load(result.folder).predict(test.images)
    right = [TOY.classes.index(row.label) == truth for row, truth in zip(found, test.labels, strict=True)]
    assert sum(right) / len(right) == pytest.approx(result.accuracy)
    assert all(sum(row.probabilities) == pytest.approx(1, abs=1e-5) for row in found)
    assert all(row.confidence == max(row.probabilities) for row in found)
    assert found.tells_unlike


def test_a_run_whose_settings_have_moved_since_predicts(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(toy_run("shot").folder, tmp_path / "old"))
    now = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(now.replace("[shot]", "[shot]\nextractor_rate = 1.0"))
    images = TOY.load("noisy").test.images[:20]
    before, after = (galafed.load(place).predict(images) for place in (toy_run("shot").folder, folder))
    assert [row.probabilities for row in after] == [row.probabilities for row in before]


def test_files_folders_arrays_and_pillow_images_are_the_same_pictures(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "noisy", "noisy")
    model = galafed.load(toy_run().folder)
    files = sorted(folder.rglob("*.png"))
    from_folder = model.predict(folder)
    assert [row.image for row in from_folder] == [str(path) for path in files]
    opened = [Image.open(path) for path in files]
    arrays = [numpy.asarray(image) for image in opened]
    for other in (
        model.predict(files),
        model.predict(opened),
        model.predict(arrays),
        model.predict(numpy.stack(arrays)),
    ):
        assert [row.probabilities for row in other] == [row.probabilities for row in from_folder]
    assert model.predict(files[0])[0].probabilities == pytest.approx(from_folder[0].probabilities, abs=1e-6)
    assert len(model.predict(arrays[0])) == 1


def test_the_command_tells_classes_writes_csv_and_the_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, table = pictures(tmp_path / "noisy", "noisy"), tmp_path / "out.csv"
    answer = gala(capsys, "predict", toy_run().folder, folder, "--csv", table, "--labelled")
    assert answer.code == 0, answer.err
    assert "accuracy 100.0 % of 6 pictures" in answer.out
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == 6
    assert {row["prediction"] for row in rows} == set(TOY.classes)
    for row in rows:
        shares = [float(row[f"p({name})"]) for name in TOY.classes]
        assert sum(shares) == pytest.approx(1, abs=1e-4)
        assert float(row["confidence"]) == max(shares)
        assert row["unlike_anything_seen"] == str(float(row["distance"]) > 1).lower()
    records = json.loads(gala(capsys, "predict", toy_run().folder, folder, "--json").out)
    assert [record["prediction"] for record in records] == [row["prediction"] for row in rows]


def test_what_is_unlike_anything_seen_is_flagged_and_the_targets_own_images_are_not() -> None:
    model = galafed.load(toy_run().folder)
    own = model.predict(TOY.load("noisy").test.images)
    strange = model.predict(numpy.full((20, 8, 8, 3), 255, numpy.uint8))
    other = model.predict(TOY.load("dark").test.images)
    assert sum(bool(row.unlike) for row in own) <= 0.1 * len(own)
    assert all(row.unlike for row in strange)
    assert sum(bool(row.unlike) for row in other) > 0.5 * len(other)


def test_a_run_without_a_profile_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = copied(tmp_path)
    (run / "profile.safetensors").unlink()
    summary = json.loads((run / "summary.json").read_text())
    del summary["classes"], summary["image_size"]  # as an earlier version wrote it
    (run / "summary.json").write_text(json.dumps(summary))
    folder = pictures(tmp_path / "noisy", "noisy")
    answer = gala(capsys, "predict", run, folder)
    assert answer.code == 0
    assert "kept no profile" in answer.out
    assert all(row.unlike is None for row in galafed.load(run).predict(folder))


@pytest.mark.parametrize("content", [b"", b"not a tensor file", None])
def test_a_damaged_or_foreign_profile_is_not_believed(tmp_path: Path, content: bytes | None) -> None:
    run = copied(tmp_path)
    foreign = (toy_run("fact").folder / "profile.safetensors").read_bytes()
    (run / "profile.safetensors").write_bytes(foreign if content is None else content)
    assert not galafed.load(run).classifier.knows_target


def test_predicting_needs_nothing_but_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = pictures(tmp_path / "noisy", "noisy")
    monkeypatch.setattr(type(TOY), "load", lambda *_: pytest.fail("the benchmark's data was read"))
    assert len(galafed.load(toy_run().folder).predict(folder)) == 6


# ------------------------------------------------------------------------------------------------------- bad input


def test_bad_input_ends_with_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, folder = toy_run().folder, pictures(tmp_path / "noisy", "noisy")
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "strange").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "strange" / "a.png")
    Image.new("F", (8, 8)).save(tmp_path / "float.tiff")
    wrong: list[tuple[list[object], int, str]] = [
        (["predict", run, tmp_path / "text.png"], 3, "not a picture of a known format"),
        (["predict", run, tmp_path / "float.tiff"], 3, "floating-point pixels"),
        (["predict", run, tmp_path / "none.png"], 3, "does not exist"),
        (["predict", run, tmp_path / "empty"], 3, "holds no picture"),
        (["predict", run, tmp_path / "strange", "--labelled"], 3, "class 'strange' is not known"),
        (["predict", run], 2, "name at least one picture"),
        (["predict", tmp_path / "nowhere", folder], 2, "holds no run"),
        (["predict", run, folder, "--csv", tmp_path / "no" / "where.csv"], 1, "could not be written"),
    ]
    for arguments, code, words in wrong:
        answer = gala(capsys, *arguments)
        assert (answer.code, words in answer.err) == (code, True), (arguments, answer)
        assert "Traceback" not in answer.err


def test_a_run_that_never_finished_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = copied(tmp_path)
    (run / "done").unlink()
    for verb in (["predict", run, pictures(tmp_path / "noisy", "noisy")], ["export", run]):
        answer = gala(capsys, *verb)
        assert answer.code == 2
        assert "is not finished" in answer.err
        assert "gala resume" in answer.err


def test_a_model_that_is_not_the_one_of_the_summary_is_refused(tmp_path: Path) -> None:
    run = copied(tmp_path)
    newest = max((run / "checkpoints").iterdir())
    (newest / "model.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="is damaged"):
        galafed.load(run)


@pytest.mark.parametrize(
    "image", [numpy.zeros((8, 8, 4), numpy.uint8), numpy.zeros((8, 8, 3)), numpy.zeros((0, 8, 3), numpy.uint8)]
)
def test_an_array_of_the_wrong_kind_is_refused(image: numpy.ndarray) -> None:
    with pytest.raises(DataError, match="uint8"):
        galafed.load(toy_run().folder).predict([image])


def test_no_picture_is_refused() -> None:
    with pytest.raises(DataError, match="no picture"):
        galafed.load(toy_run().folder).predict([])


def test_an_unknown_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="holds no run"):
        galafed.load("nowhere")


# ----------------------------------------------------------------------------------------------------- familiarity


@settings(max_examples=60)
@example(2, 1, 2, 5)  # not one feature is positive
@given(st.integers(2, 60), st.integers(1, 6), st.integers(2, 5), st.integers(0, 10**6))
def test_a_profile_is_finite_and_its_levels_rise(count: int, size: int, classes: int, seed: int) -> None:
    rng = torch.Generator().manual_seed(seed)
    features = torch.randn(count, size, generator=rng).relu()
    probabilities = torch.randn(count, classes, generator=rng).softmax(dim=-1)
    profile = profile_from(features, probabilities, torch.float32)
    assert profile["levels"].shape == (2, LEVELS)
    assert all(bool(value.isfinite().all()) for value in profile.values())
    assert bool((profile["levels"].diff(dim=1) >= 0).all())
    assert bool((profile["spread"] > 0).all())
    score = unfamiliarity(features, profile["means"], profile["spread"], usual(profile))
    assert bool(score.isfinite().all())


def test_distances_are_those_of_the_definition() -> None:
    features = torch.tensor([[3.0, 0.0], [0.0, 2.0]])
    means, spread = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]), torch.tensor([1.0, 2.0])
    angle, length = distances(features, means, spread)
    assert angle.tolist() == pytest.approx([0.0, 1 - 2**-0.5])
    # (3, 0) to (1, 0): 2 / 1; (0, 2) to (1, 1): (1 / 1, 1 / 2); each over the root of two dimensions.
    assert length.tolist() == pytest.approx([2 / 2**0.5, (1.25 / 2) ** 0.5])


def test_a_class_without_images_attracts_nothing() -> None:
    features = torch.eye(4).repeat(5, 1)
    probabilities = torch.zeros(20, 3)
    probabilities[:, 0] = 1
    profile = profile_from(features, probabilities, torch.float32)
    assert profile["means"][1:].abs().sum() == 0
    far = unfamiliarity(torch.zeros(1, 4), profile["means"], profile["spread"], usual(profile))
    assert bool(far.isfinite().all())
