"""The documentation: it builds without a warning, and what the tutorial and the README tell to type is typed here."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from galafed.runs.runner import start
from galafed.tuning.searching import candidates
from in_process import ROOT, gala, pictures, toy_run

BIN = Path(sys.executable).parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", flags=re.DOTALL)


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of every block, in order."""
    return [(match.group(1), match.group(2)) for match in BLOCK.finditer(text)]


def console(words: str) -> list[str]:
    """The lines, without their remarks, of the one console block of the README that has these words."""
    (found,) = [content for language, content in blocks(README) if language == "console" and words in content]
    return [line.partition("#")[0].strip() for line in found.splitlines()]


def short(line: str) -> str:
    """The same with a single round."""
    return re.sub(r"--rounds \d+", "--rounds 1", line)


def typed(line: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line as a user types it, with our own `gala` first on the path."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=os.environ | {"PATH": path} | environment, capture_output=True, text=True,
        check=False, timeout=280,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore")  # of exporters and trackers about their own future
def test_the_tutorial_works_word_by_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, in one folder; the runs are cut to one round, and the installation is that of the test itself."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    monkeypatch.chdir(tmp_path)
    found = blocks(TUTORIAL)
    assert found[0][1].split("\n")[:2] == ["make .venv/dev", "source .venv/bin/activate"]
    assert {language for language, _ in found} == {"bash", "python"}
    names: dict[str, Any] = {}
    for language, content in found[1:]:
        if language == "python":
            exec(compile(content, "tutorial.md", "exec"), names)  # noqa: S102
            continue
        for line in content.splitlines():
            answer = gala(capsys, *shlex.split(short(line))[1:])
            assert answer.code == 0, (line, answer.err)
    made = ("first/report.html", "both.html", "predictions.csv", "first/export-safetensors", "first-onnx/model.onnx")
    assert [path for path in made if not (tmp_path / path).exists()] == []


@pytest.mark.filterwarnings("ignore")
def test_what_the_readme_tells_to_type_about_seeing_and_using(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("tensorboard", "onnxruntime", "onnxscript"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    lines = console("gala report")
    assert [shlex.split(line)[1] for line in lines] == ["report", "run", "predict", "export", "tune", "run"]
    shutil.copytree(toy_run().folder, tmp_path / "my-run")
    pictures(tmp_path / "pictures", "noisy")
    for candidate in candidates({"benchmark": "toy", "rounds": 1, "threads": 1}, [0.5, 2], [1]):
        start(candidate.run, tmp_path / "runs" / candidate.run.run_name)  # here rather than in processes of their own
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] in ("run", "tune"):  # on the benchmark for tests, and short
            words = [words[0], "toy", *words[1:], "--set", "rounds=1", "--set", "threads=1"]
        answer = gala(capsys, *words)
        assert answer.code == 0, (words, answer.err)


def test_what_the_readme_tells_to_type_about_data(tmp_path: Path) -> None:
    for domain in ("noisy", "dark", "bright"):
        pictures(tmp_path / "photos" / domain, domain, count=24)
    (tmp_path / "data").mkdir()
    for words in console("gala data list"):
        whole = f"{words} --rounds 1" if words.startswith("gala run --config") else words
        done = typed(whole, tmp_path, HOME=str(tmp_path), GALAFED_CACHE=str(tmp_path / "cache"))
        # The published files cannot be had here: a sentence says so.
        assert done.returncode == (3 if "digit-" in words else 0), (words, done.stderr)
        assert "Traceback" not in done.stderr


def test_the_engines_of_the_readme_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GALAFED_DATA", str(tmp_path))
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path))
    for words in console("--engine stacked"):
        published = "digit-five" in words
        arguments = shlex.split(words)[1:] if published else ["run", "toy", "--rounds", "1", *shlex.split(words)[2:]]
        assert gala(capsys, *arguments).code == (3 if published else 0), words


def test_what_the_readme_tells_to_type_about_sites(tmp_path: Path) -> None:
    """Runs between sites are tried in test_nvflare.py and, from nothing to the end, by the page docs/deploy.md."""
    flare, init, check, between, audit, half = console("gala federation")
    assert flare.startswith("gala run --engine nvflare")
    assert between == f"{flare} --federation consortium"
    for line in (init, f"{half} --rounds 1 --out my-run", audit):
        done = typed(line, tmp_path)
        assert done.returncode == 0, (line, done.stderr)
    done = typed(check, tmp_path)
    assert (done.returncode, "a.toml: cannot be read" in done.stderr) == (2, True)  # `gala site init` writes it


def test_what_the_readme_tells_to_make_is_in_the_makefile() -> None:
    for line in console("make run"):
        goal = shlex.split(line)[1]
        done = subprocess.run(["make", "--dry-run", goal], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert {"run": "gala run", "test": "pytest"}[goal] in done.stdout


def test_every_block_of_the_readme_is_tried() -> None:
    """Those above and in test_docs.py; a new one needs a test."""
    all_of_them = [content for language, content in blocks(README) if language == "console"]
    tried = ("make run", "gala reproduce mini", "gala data list", "gala report", "--engine stacked", "gala federation")
    assert [sum(words in content for words in tried) for content in all_of_them] == [1] * len(all_of_them)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a warning is an error."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_builds_and_holds_every_page(site: Path) -> None:
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    sources = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    expected = {path.with_suffix(".html").as_posix().replace("README", "index") for path in sources}
    assert expected <= pages


def test_the_reference_tells_every_verb_and_setting(site: Path) -> None:
    from galafed.cli import VERBS

    command = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    assert all(f"gala {verb}" in command for verb in VERBS if verb != "data")
    assert "gala data inspect" in command
    settings = (site / "reference" / "configuration.html").read_text(encoding="utf-8")
    assert all(key in settings for key in ("evaluate_every", "persistent_momentum", "igd_scale"))
    python = (site / "reference" / "api.html").read_text(encoding="utf-8")
    assert all(name in python for name in ("Predictions", "QuorumError", "round_done"))


def test_the_site_asks_no_host_for_style_or_script(site: Path) -> None:
    html = (site / "index.html").read_text(encoding="utf-8")
    assert not re.findall(r"<(?:script|link)[^>]+(?:src|href)=\"(?:https?:)?//(?!squidfunk)", html)
