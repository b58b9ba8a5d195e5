"""Entries that other distributions add: the example is installed as a user would, and galafed is not touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from galafed.errors import ConfigError
from galafed.registry import Registry, plugins
from in_process import ROOT

EXAMPLE = ROOT / "examples" / "consensus"


def gala(*arguments: str, cwd: Path, path: Path | str) -> subprocess.CompletedProcess[str]:
    """The command with another place to import from."""
    command = [sys.executable, "-m", "galafed", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=os.environ | {"PYTHONPATH": str(path)}, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's distribution, built and installed by pip into a folder of its own, from a copy."""
    pytest.importorskip("setuptools")
    place = tmp_path_factory.mktemp("plugin")
    source = place / "source"
    source.mkdir()
    for name in ("pyproject.toml", "galafed_consensus.py"):
        (source / name).write_bytes((EXAMPLE / name).read_bytes())
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
               "--disable-pip-version-check", "--target", str(place / "site"), str(source)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return place / "site"


def test_the_example_is_found_listed_and_run(installed: Path, tmp_path: Path) -> None:
    listed = gala("ls", "algorithms", "--json", cwd=tmp_path, path=installed)
    (found,) = [row for row in json.loads(listed.stdout) if row["name"] == "consensus"]
    assert found["kind"] == "federated"
    done = gala(
        "run", "toy", "--algorithm", "consensus", "--set", "consensus.tau=2", "--rounds", "4", "--out", "run",
        cwd=tmp_path, path=installed,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["algorithm"] == "consensus"
    assert summary["accuracy"]["last"] > 0.5
    refused = gala("run", "toy", "--algorithm", "consensus", "--set", "consensus.tau=-1", cwd=tmp_path, path=installed)
    assert (refused.returncode, "consensus.tau" in refused.stderr) == (2, True)
    without = gala("resume", "run", cwd=tmp_path, path=tmp_path)
    assert (without.returncode, "algorithm 'consensus' is not known" in without.stderr) == (2, True)


def test_the_how_to_shows_the_file_itself() -> None:
    text = (ROOT / "docs" / "add-a-method.md").read_text(encoding="utf-8")
    assert (EXAMPLE / "galafed_consensus.py").read_text(encoding="utf-8") in text
    project = (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")
    (points,) = re.findall(r"\[project.entry-points.*\n.*\n", project)
    assert points in text


def test_the_study_of_the_how_to_is_run_as_a_plug_in(installed: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "add-a-method.md").read_text(encoding="utf-8")
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "AccuracyStudy" in block]
    assert len(code.splitlines()) < 40
    small = {'"mini"': '"toy"', '"hand-photo", "type-photo"': '"dark", "faint"', ": 30": ": 2", ": 3": ": 2"}
    for theirs, ours in small.items():
        assert theirs in code
        code = code.replace(theirs, ours)
    (tmp_path / "its_module.py").write_text(code)
    (point,) = re.findall(r"`(consensus-on-mini = .*?)` under `galafed.studies`", text)
    distribution(tmp_path, point.replace('"', ""), group="galafed.studies")
    (command,) = re.findall(r"^gala (reproduce consensus-on-mini .*)$", text, re.MULTILINE)
    done = gala(*command.split(), cwd=tmp_path, path=f"{installed}{os.pathsep}{tmp_path}")
    assert done.returncode == 0, done.stderr
    table = (tmp_path / "my-results" / "consensus-on-mini" / "table.md").read_text(encoding="utf-8")
    assert "2 rounds, 2 seeds a cell" in table
    assert re.search(r"\| dark \| faint \|\n.*\n\| consensus \| [+-]\d+\.\d \| [+-]\d+\.\d \|", table)
    assert (tmp_path / "my-results" / "consensus-on-mini" / "consensus-on-mini.png").read_bytes().startswith(b"\x89PNG")


def distribution(place: Path, points: str, *, group: str = "galafed.algorithms") -> None:
    """A distribution that consists of its entry points."""
    folder = place / "somebody-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[{group}]\n{points}\n")


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("import nothing_of_this_name", "cannot be loaded"),
        ("1 / 0", "cannot be loaded"),
        ("", "registers no algorithm"),
    ],
)
def test_a_bad_plug_in_is_named(module: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"somebodys_{abs(hash(module))}"
    (tmp_path / f"{name}.py").write_text(module)
    distribution(tmp_path, f"mine = {name}")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.cache_clear()
    try:
        registry: Registry[type] = Registry("algorithm", "galafed.algorithms")
        assert "mine" in registry.names()
        with pytest.raises(ConfigError, match=f"the plug-in 'mine' .{name}. {words}"):
            registry.get("mine")
    finally:
        plugins.cache_clear()


def test_a_plug_in_does_not_take_the_place_of_what_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "thief.py").write_text("raise SystemExit('stolen')")
    distribution(tmp_path, "gala = thief")
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.cache_clear()
    try:
        from galafed.algorithms.base import algorithms

        assert algorithms.get("gala").__module__ == "galafed.algorithms.gala"
    finally:
        plugins.cache_clear()
