"""Exports: loaded by other programs in processes of their own, they answer as the original does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch

import galafed
from galafed.benchmarks.base import benchmarks
from galafed.errors import DataError
from galafed.registry import entries
from in_process import gala, toy_run

TOY = benchmarks.get("toy")()

LOADERS = {
    "onnx": """
import json, sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1] + "/model.onnx")
found = session.run(None, {"images": numpy.load(sys.argv[2])})
assert "torch" not in sys.modules and "galafed" not in sys.modules
print(json.dumps([part.tolist() for part in found]))
""",
    "torch": """
import json, sys, numpy, torch
model = torch.export.load(sys.argv[1] + "/model.pt2").module()
found = model(torch.from_numpy(numpy.load(sys.argv[2])))
assert "galafed" not in sys.modules
print(json.dumps([part.tolist() for part in found]))
""",
    "safetensors": """
import json, sys, numpy, galafed
found = galafed.load(sys.argv[1]).predict(numpy.load(sys.argv[2]))
print(json.dumps([[row.probabilities for row in found], [row.distance for row in found]]))
""",
}


def test_every_format_is_tried() -> None:
    assert set(LOADERS) == set(entries("galafed.trained.formats"))


@pytest.mark.parametrize("algorithm", ["gala", "m3sda"])
@pytest.mark.parametrize("name", sorted(LOADERS))
def test_an_export_answers_as_the_original_does(
    name: str, algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    run, folder = toy_run(algorithm).folder, tmp_path / "export"
    answer = gala(capsys, "export", run, "--format", name, "--out", folder)
    assert answer.code == 0, answer.err
    images = TOY.load("dark").test.images[:5]
    numpy.save(tmp_path / "images.npy", images)
    command = [sys.executable, "-c", LOADERS[name], str(folder), str(tmp_path / "images.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    probabilities, distance = json.loads(done.stdout)
    with torch.no_grad():
        expected = galafed.load(run).classifier(torch.from_numpy(images))
    assert numpy.allclose(probabilities, expected[0].numpy(), atol=1e-4)
    assert numpy.allclose(distance, expected[1].numpy(), atol=1e-4)
    card = (folder / "README.md").read_text()
    assert "horizontal, vertical, diagonal" in card
    assert toy_run(algorithm).summary["digest"] in card
    assert json.loads((folder / "model.json").read_text())["classes"] == list(TOY.classes)


def test_an_export_that_differs_is_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    monkeypatch.setattr("galafed.trained.formats.onnx.TOLERANCE", -1.0)
    answer = gala(capsys, "export", toy_run().folder, "--format", "onnx", "--out", tmp_path / "export")
    assert answer.code == 1
    assert "differs from the original" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_exported_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = toy_run().folder
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("")
    wrong: list[tuple[list[object], int, str]] = [
        (["export", run, "--format", "onx"], 2, "Did you mean 'onnx'?"),
        (["export", tmp_path / "nowhere"], 2, "holds no run"),
        (["export", run, "--out", tmp_path / "full"], 2, "no earlier export"),
        (["export", run, "--out", tmp_path / "file"], 2, "no earlier export"),
        (["export", run, "--out", tmp_path / "file" / "export"], 1, "could not be written"),
    ]
    for arguments, code, words in wrong:
        answer = gala(capsys, *arguments)
        assert (answer.code, words in answer.err) == (code, True), (arguments, answer)
    assert (tmp_path / "full" / "thesis.txt").read_text() == "years of work"


def test_a_second_export_replaces_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert gala(capsys, "export", toy_run().folder, "--out", tmp_path / "export").code == 0
    assert sorted(path.name for path in (tmp_path / "export").iterdir()) == [
        "README.md", "model.json", "model.safetensors",
    ]  # fmt: skip


def test_a_missing_extra_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    answer = gala(capsys, "export", toy_run().folder, "--format", "onnx", "--out", tmp_path / "export")
    assert answer.code == 2
    assert "pip install 'galafed[onnx]'" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["model.json", "model.safetensors"])
def test_a_damaged_export_is_refused(damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gala(capsys, "export", toy_run().folder, "--out", tmp_path / "export")
    (tmp_path / "export" / damage).write_text("{}")
    with pytest.raises(DataError, match="no exported model"):
        galafed.load(tmp_path / "export")
