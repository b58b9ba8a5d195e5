"""`gala federation`, `gala site` and `gala audit`: what they write, what they say, and what they refuse."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from galafed.benchmarks.export import export_images
from galafed.benchmarks.toy import Toy
from galafed.config import resolve
from galafed.errors import ConfigError
from galafed.flare.connection import try_connection
from galafed.flare.kits import FlareFolder, make_federation
from galafed.runs.runner import start
from galafed.sites.settings import read_settings

GALA = str(Path(sys.executable).with_name("gala"))


def gala(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([GALA, *arguments], cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a federation and images of its sites."""
    folder = tmp_path_factory.mktemp("sites")
    export_images(Toy(), folder / "images", ("bright", "noisy"), lambda what, done, total: None)
    done = gala(folder, "federation", "init", "fed", "--sites", "bright,dark", "--target", "noisy", "--classes", "a,b")
    assert done.returncode == 0, done.stderr
    assert "hand each site its folder" in done.stdout
    return folder


def test_a_federation_has_a_kit_for_everyone_and_keys_are_their_owners_alone(made: Path) -> None:
    federation = FlareFolder.read(made / "fed")
    assert federation.sites == ("bright", "dark", "noisy")
    for kit in (federation.server, federation.admin, *map(federation.kit, federation.sites)):
        assert (kit / "startup").is_dir()
    for path in (made / "fed").rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    for name in federation.sites:
        allowed = json.loads((federation.kit(name) / "local" / "resources.json").read_text())["class_allow_list"]
        assert allowed == ["nvflare.collab.runtime.", "galafed.flare."]
    assert tomllib.loads((made / "fed" / "run.toml").read_text())["sites"]["classes"] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fed", "--sites", "a", "--target", "t"), "exists already"),
        (("new", "--sites", "a,a", "--target", "t"), "named twice"),
        (("new", "--sites", "a b", "--target", "t"), "cannot be called 'a b'"),
        (("new", "--sites", "../x", "--target", "t"), "cannot be called '../x'"),
        (("new", "--sites", "", "--target", "t"), "at least one site"),
        (("new", "--sites", "a", "--target", "t", "--port", "99999"), "--port 99999"),
        (("new", "--sites", "a", "--target", "t", "--classes", "x"), "sites.classes"),
    ],
)
def test_a_federation_that_cannot_be_is_refused(made: Path, arguments: tuple[str, ...], words: str) -> None:
    done = gala(made, "federation", "init", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (made / "new").exists()


def test_a_sites_file_says_what_it_allows_and_is_not_written_over(made: Path) -> None:
    arguments = ("site", "init", "bright", "--kit", "fed/sites/bright", "--data", "images/bright")
    done = gala(made, *arguments)
    assert done.returncode == 0, done.stderr
    settings = read_settings(made / "bright.toml")
    assert (settings.name, settings.role) == ("bright", "source")
    assert settings.data == str(made / "images" / "bright")
    assert "train" in settings.allow.tasks
    assert "share_features" not in settings.allow.tasks
    assert gala(made, *arguments).returncode == 2
    checked = gala(made, "site", "check", "bright.toml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for words in ("96 in", "diagonal 32", "the certificate is bright's", "nobody listens", "what never leaves: images"):
        assert words in checked.stdout
    assert "sums over the unlabelled" not in checked.stdout  # that is the target's


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name = "bright"\nrole = "source"\nkit = "fed/sites/dark"\n', "is the kit of 'dark'"),
        ('name = "bright"\nrole = "source"\nkit = "nowhere"\n', "no kit of a site"),
        ('name = "bright"\nrole = "source"\n', "names no kit"),
        ('name = "bright"\nrole = "source"\nkit = "fed/sites/bright"\ndata = "no"\n', "no such folder or file"),
    ],
)
def test_a_check_says_what_keeps_a_site_from_joining(made: Path, text: str, words: str) -> None:
    (made / "wrong.toml").write_text(text)
    done = gala(made, "site", "check", "wrong.toml")
    assert done.returncode == 2
    assert words in done.stdout
    assert "1 problem(s)" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('role = "source"\n', "lacks 'name'"),
        ('name = "a"\n', "lacks 'role'"),
        ('name = "a"\nrole = "boss"\n', "role"),
        ('name = "../a"\nrole = "source"\n', "name = '../a'"),
        ('name = "a"\nrole = "source"\nspeed = 3\n', "'speed' is not known"),
        ('name = "a"\nrole = "source"\n[allow]\nmegabytes_a_round = -1\n', "megabytes_a_round"),
        ("nonsense", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_key(made: Path, text: str, words: str) -> None:
    (made / "wrong.toml").write_text(text)
    for verb in ("check", "start"):
        done = gala(made, "site", verb, "wrong.toml")
        assert done.returncode == 2
        assert words in done.stderr


def problems(kit: Path, name: str) -> str:
    return "; ".join(text for text, problem in try_connection(kit, name) if problem)


def test_a_kit_of_another_federation_or_a_damaged_one_is_told(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "fed" / "sites" / "dark", tmp_path / "dark")
    other = make_federation(tmp_path / "other", ["dark"], "noisy")
    assert not problems(tmp_path / "dark", "dark")
    startup = tmp_path / "dark" / "startup"
    shutil.copy(other.kit("dark") / "startup" / "client.key", startup / "client.key")
    assert "does not belong to its certificate" in problems(tmp_path / "dark", "dark")
    shutil.copy(other.kit("dark") / "startup" / "client.crt", startup / "client.crt")
    assert "not signed by its authority" in problems(tmp_path / "dark", "dark")
    (startup / "client.crt").write_text("no certificate")
    assert "is damaged" in problems(tmp_path / "dark", "dark")


def test_a_run_names_the_site_that_a_federation_lacks(made: Path) -> None:
    done = gala(made, "run", "toy", "--engine", "nvflare", "--federation", "fed", "--out", "run")
    assert done.returncode == 2
    assert "has no site called 'faint'" in done.stderr
    assert gala(made, "run", "toy", "--engine", "nvflare", "--federation", "images", "--out", "run").returncode == 2
    assert not (made / "run").exists()


def test_an_audit_of_a_run(tmp_path: Path) -> None:
    start(resolve({"benchmark": "toy", "device": "cpu", "rounds": 1}), tmp_path / "run")
    shown = gala(tmp_path, "audit", "run")
    assert shown.returncode == 0, shown.stderr
    for words in ("extractor; loss", "centroids", "nothing did cross"):
        assert words in shown.stdout
    found = json.loads(gala(tmp_path, "audit", "run", "--json").stdout)
    assert set(found) == set(Toy.domains)
    line = next(line for line in found["dark"] if (line["task"], line["direction"]) == ("train", "out"))
    assert line["round"] == 1
    assert line["tensors"]["extractor|conv1.weight"][0] == "float32"
    assert gala(tmp_path, "audit", "nowhere").returncode == 2


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    from galafed.sites.extras import require

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'galafed\[nvflare\]'"):
        require("nvflare")
