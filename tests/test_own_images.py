"""Sites with images of their own: the same numbers as one folder gives a researcher, also where labels are missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from galafed.benchmarks.base import benchmarks
from galafed.benchmarks.export import export_images
from galafed.benchmarks.toy import Toy
from galafed.config import resolve
from galafed.errors import ConfigError, DataError, QuorumError
from galafed.report.audit import audit_table, by_site, ledgers
from galafed.report.console import console
from galafed.report.curves import draw_run
from galafed.report.live import LiveDisplay, PlainDisplay
from galafed.report.page.writing import write_comparison
from galafed.report.tables import comparison_table, summary_table
from galafed.runs.records import catalogue, record
from galafed.runs.runner import resume, start
from galafed.sites.own_images import read_domain
from galafed.sites.settings import SiteSettings
from in_process import toy_run
from loopback_engine import LoopbackEngine
from test_contract import PullThePlug

DOMAINS = ("bright", "dark", "noisy")
COMMON: dict[str, Any] = {"device": "cpu", "threads": 1, "rounds": 2, "target": "noisy", "network": "small_cnn"}
TRAINING = {"training": {"batch_size": 16, "lr": 0.02}}
SITES = {"domains": list(DOMAINS), "classes": ["diagonal", "horizontal", "vertical"], "image_size": 8}


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "images"
    export_images(Toy(), folder, DOMAINS, lambda what, done, total: None)
    LoopbackEngine.folder = tmp_path / "sites"
    LoopbackEngine.data = {name: str(folder / name) for name in DOMAINS}
    yield folder
    LoopbackEngine.folder, LoopbackEngine.data = None, {}


def apart(out: Path, **values: Any) -> Any:
    return start(
        resolve({"benchmark": "sites", "engine": "loopback", "sites": SITES, **COMMON, **TRAINING, **values}), out
    )


@pytest.mark.parametrize("split", ["given", "drawn"])
def test_sites_end_with_the_bits_of_one_folder(split: str, images: Path, tmp_path: Path) -> None:
    if split == "drawn":  # the test images are then drawn by name: the same at a site as in the whole folder
        for domain in DOMAINS:
            for file in (images / domain).glob("*/*/*.png"):
                into = images / domain / file.parent.name / f"{file.parent.parent.name}-{file.name}"
                into.parent.mkdir(exist_ok=True)
                file.rename(into)
            for part in ("train", "test"):
                shutil.rmtree(images / domain / part)
    folder = {"path": str(images), "image_size": 8}
    alone = start(resolve({"benchmark": "folder", "folder": folder, **COMMON, **TRAINING}), tmp_path / "alone")
    found = apart(tmp_path / "apart")
    assert found.summary["digest"] == alone.summary["digest"]
    assert found.accuracy == alone.accuracy


def unlabelled(images: Path) -> None:
    """The target's images in one folder, without classes."""
    loose = images / "loose"
    loose.mkdir()
    for number, file in enumerate(sorted((images / "noisy").rglob("*.png"))):
        file.rename(loose / f"{number:04d}.png")
    shutil.rmtree(images / "noisy")
    loose.rename(images / "noisy")


def test_a_target_without_labels_gives_a_run_without_accuracy(images: Path, tmp_path: Path) -> None:
    unlabelled(images)
    result = apart(tmp_path / "run")
    assert result.accuracy is None
    assert result.summary["accuracy"] == {"last": None, "selected": None, "best_oracle": None}
    assert result.summary["best_oracle_round"] is None
    assert set(result.summary["selection"]) == {"discrepancy", "entropy", "information"}
    screen = console()
    with screen.capture() as captured:
        found = record(tmp_path / "run")
        for piece in (summary_table(found), comparison_table([found]), audit_table(by_site(ledgers(tmp_path / "run")))):
            screen.print(piece)
        assert catalogue("runs", tmp_path)[0]["accuracy"] is None
    assert "accuracy, last round" in captured.get()
    assert draw_run(tmp_path / "run").is_file()


def test_runs_without_accuracy_can_be_compared(images: Path, tmp_path: Path) -> None:
    unlabelled(images)
    apart(tmp_path / "untested")
    tested = toy_run().folder
    for folders, words in (([], "no target has test labels"), ([tested], f"{tested.name} is ahead with ")):
        write_comparison([tmp_path / "untested", *folders], tmp_path / "page.html")
        assert words in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("kind", [LiveDisplay, PlainDisplay])
def test_the_displays_show_a_run_without_accuracy(kind: Any, images: Path, tmp_path: Path) -> None:
    unlabelled(images)
    screen = console()
    display = kind(screen)
    values = {"benchmark": "sites", "engine": "loopback", "sites": SITES, **COMMON, **TRAINING}
    with screen.capture():
        start(resolve(values), tmp_path / "run", display)
        display.close()


def test_a_run_without_accuracy_can_be_resumed(images: Path, tmp_path: Path) -> None:
    unlabelled(images)
    config = resolve({"benchmark": "sites", "engine": "loopback", "sites": SITES, **COMMON, **TRAINING})
    whole = start(config, tmp_path / "whole").summary["digest"]
    with pytest.raises(KeyboardInterrupt):
        start(config, tmp_path / "cut", PullThePlug(1))
    assert resume(tmp_path / "cut").summary["digest"] == whole


def test_a_class_that_is_none_of_the_runs_is_named(images: Path, tmp_path: Path) -> None:
    (images / "dark" / "train" / "diagonal").rename(images / "dark" / "train" / "zigzag")
    with pytest.raises(QuorumError, match=r"dark.*its class 'zigzag' is none of the run's"):
        apart(tmp_path / "run", quorum=2)


def test_a_source_without_labels_is_refused(images: Path) -> None:
    unlabelled(images)
    settings = SiteSettings(name="noisy", role="source", data=str(images / "noisy"))
    with pytest.raises(DataError, match="folders named by class"):
        read_domain(settings, SITES["classes"], 8)  # type: ignore[arg-type]


def test_a_site_with_its_own_images_lends_them_to_no_other_benchmark(images: Path, tmp_path: Path) -> None:
    with pytest.raises(QuorumError, match="images of its own, which only the benchmark 'sites' uses"):
        start(
            resolve({"benchmark": "toy", "sources": ["bright", "dark"], "engine": "loopback", **COMMON}), tmp_path / "r"
        )


def test_the_server_never_chooses_a_path_at_a_site(images: Path, tmp_path: Path) -> None:
    LoopbackEngine.data = {}
    values = {"benchmark": "folder", "folder": {"path": str(images)}, "engine": "loopback", **COMMON}
    with pytest.raises(QuorumError, match="not the server's to say"):
        start(resolve(values), tmp_path / "run")


def test_one_process_does_not_have_the_images_of_sites(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="are at its site"):
        start(resolve({"benchmark": "sites", "sites": SITES, **COMMON}), tmp_path / "run")


@pytest.mark.parametrize("wrong", [{"domains": ["a"]}, {"domains": ["a", "a"]}, {"classes": ["x"]}, {"image_size": 2}])
def test_what_sites_must_agree_on_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"sites.{next(iter(wrong))}"):
        resolve({"benchmark": "sites", "sites": SITES | wrong})


def test_an_export_does_not_write_over_anything(tmp_path: Path) -> None:
    benchmark = benchmarks.get("toy")()
    with pytest.raises(ConfigError, match="exists already"):
        export_images(benchmark, tmp_path, DOMAINS, lambda *told: None)
    with pytest.raises(ConfigError, match="'x' is not known"):
        export_images(benchmark, tmp_path / "new", ["x"], lambda *told: None)
