"""The embedded benchmark keeps its promises: balanced, separate, the same every time, never in the way."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import ImageFont

from galafed.benchmarks import mini
from galafed.benchmarks.base import benchmarks
from galafed.benchmarks.mini import Mini
from galafed.benchmarks.store import ArrayStore
from galafed.errors import ConfigError, DataError

SIZE = mini.IMAGE_SIZE


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Mini:
    """The benchmark, built once into a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GALAFED_CACHE", str(tmp_path_factory.mktemp("cache")))
        benchmark = Mini()
        benchmark.load("hand")
    return benchmark


def test_it_is_registered_under_its_name() -> None:
    assert benchmarks.get("mini") is Mini
    assert Mini.name == "mini"
    assert "store" not in benchmarks.names()
    assert Mini.default_target in Mini.domains


@pytest.mark.parametrize("domain", Mini.domains)
def test_domain_is_balanced(built: Mini, domain: str) -> None:
    loaded = built.load(domain)
    assert loaded.name == domain
    for part, split in (("train", loaded.train), ("test", loaded.test)):
        count = 10 * mini.PER_CLASS[part]
        assert split.images.shape == (count, SIZE, SIZE, 3)
        assert split.images.dtype == np.uint8
        assert split.labels.dtype == np.int64
        assert np.bincount(split.labels).tolist() == [mini.PER_CLASS[part]] * 10
        # Sorted labels would make a run's first batches one class each.
        assert len(np.unique(split.labels[:100])) == 10


def test_no_base_is_in_two_domains_or_parts(built: Mini) -> None:
    parts = {}
    for domain in Mini.domains:
        for part, ids in zip(("train", "test"), built.bases(domain), strict=True):
            assert ids.dtype == np.int64
            assert len(ids) == 10 * mini.PER_CLASS[part]
            parts[domain, part] = set(ids.tolist())
    for one, other in combinations(parts, 2):
        assert parts[one].isdisjoint(parts[other]), (one, other)
    handwritten = set().union(*(ids for (domain, _), ids in parts.items() if domain.startswith("hand")))
    assert handwritten == set(range(1797))


def test_typeset_base_is_used_once(built: Mini) -> None:
    for domain in Mini.domains[4:]:
        for ids in built.bases(domain):
            assert len(np.unique(ids)) == len(ids)
            assert ids.min() >= mini.FIRST_TYPESET_BASE


def test_base_of_an_image_has_its_label(built: Mini) -> None:
    from sklearn.datasets import load_digits

    _, labels = load_digits(return_X_y=True)
    for domain in Mini.domains[:4]:
        loaded = built.load(domain)
        for split, ids in zip((loaded.train, loaded.test), built.bases(domain), strict=True):
            assert np.array_equal(labels[ids], split.labels)


def test_no_picture_occurs_twice(built: Mini) -> None:
    pictures = []
    for domain in Mini.domains:
        loaded = built.load(domain)
        pictures += [image.tobytes() for split in (loaded.train, loaded.test) for image in split.images]
    assert len(set(pictures)) == len(pictures)


def test_dresses_look_as_they_should(built: Mini) -> None:
    margin = (SIZE - mini.SMALL_SIZE) // 2
    for kind in ("hand", "type"):
        plain, small, shift = (built.load(f"{kind}{dress}").train.images for dress in ("", "-small", "-shift"))
        assert np.array_equal(plain[..., 0], plain[..., 1])
        assert np.array_equal(plain[..., 0], plain[..., 2])
        assert plain[:, : margin - 1].any()
        assert not small[:, :margin].any()
        assert not small[:, :, :margin].any()
        assert not small[:, SIZE - margin :].any()
        step = 2 * mini.CHANNEL_SHIFT
        assert np.array_equal(shift[:, :, :-step, 0], shift[:, :, step:, 2])
        assert not np.array_equal(shift[..., 0], shift[..., 2])


def test_both_kinds_have_comparable_ink(built: Mini) -> None:
    hand, typed = (built.load(kind).train.images[..., 0] for kind in ("hand", "type"))
    assert 0.6 < hand.mean() / typed.mean() < 1.6
    heights = [float((images.max(axis=2) > 64).sum(axis=1).mean()) for images in (hand, typed)]
    assert abs(heights[0] - heights[1]) < 2
    assert min(heights) > 0.6 * SIZE


def test_nearest_neighbour_reads_the_plain_digits(built: Mini) -> None:
    for domain in ("hand", "type"):
        loaded = built.load(domain)
        train, test = (
            split.images[..., 0].reshape(len(split), -1).astype(np.float64) for split in (loaded.train, loaded.test)
        )
        nearest = (np.square(train).sum(axis=1) - 2 * test @ train.T).argmin(axis=1)
        assert np.mean(loaded.train.labels[nearest] == loaded.test.labels) > 0.85


def numbered(height: int, width: int) -> NDArray[np.int64]:
    """A photograph [height, width, 3] with a number of its own in every pixel."""
    return np.repeat(np.arange(height * width).reshape(height, width, 1), 3, axis=2)


def test_photographs_are_cut_without_overlap() -> None:
    photographs = [numbered(30, 40), numbered(20, 33)]
    for whole, train, test in zip(photographs, *mini.photograph_parts(photographs), strict=True):
        assert set(train.flat).isdisjoint(set(test.flat))
        assert set(train.flat) | set(test.flat) == set(whole.flat)
        assert 0 < test.size < train.size


def test_train_and_test_crops_come_from_different_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    photograph = np.full((60, 100, 3), 10, np.uint8)
    photograph[:, 75:] = 60
    monkeypatch.setattr(mini, "load_photographs", lambda: [photograph, photograph])
    arrays = mini.build()
    for kind in ("hand", "type"):
        assert set(np.unique(arrays[f"{kind}-photo.train.images"])) == {10, 245}
        assert set(np.unique(arrays[f"{kind}-photo.test.images"])) == {60, 195}


def test_every_font_has_ten_digits_of_its_own() -> None:
    for path in mini.font_files():
        font = ImageFont.truetype(str(path), 40, layout_engine=ImageFont.Layout.BASIC)
        drawn = {bytes(font.getmask(text)) for text in (*Mini.classes, "\U0010ffff")}
        assert len(drawn) == 11, path.name
        assert all(frame.max() == 255 for frame in mini.render(path))


def test_missing_font_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mini, "FONTS", ("NoSuchFont",))
    with pytest.raises(DataError, match=r"NoSuchFont\.ttf is missing; reinstall matplotlib"):
        mini.font_files()


def test_unknown_domain_is_refused_with_a_suggestion(built: Mini) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'hand-photo'"):
        built.load("hand-foto")
    with pytest.raises(ConfigError, match="Accepted: hand, "):
        built.bases("svhn")


BUILDER = "from galafed.benchmarks.mini import Mini; m = Mini(); m.load('type'); print(m.store().checksum())"


def test_two_processes_build_the_same_at_once(built: Mini, tmp_path: Path) -> None:
    environment = {**os.environ, "GALAFED_CACHE": str(tmp_path), "PYTHONHASHSEED": "7"}
    builders = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", BUILDER],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for builder in builders:
        printed, errors = builder.communicate(timeout=120)
        assert builder.returncode == 0, errors
        assert errors == ""
        assert printed.strip() == built.store().checksum()
    ArrayStore(tmp_path / mini.CACHE).verify()
    assert [path.name for path in tmp_path.iterdir()] == [mini.CACHE]


def test_second_use_reads_the_cache(built: Mini, monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(mini, "build", never)
    monkeypatch.setenv("GALAFED_CACHE", str(built.store().folder.parent))
    again = Mini()
    for domain in Mini.domains:
        assert np.array_equal(again.load(domain).test.images, built.load(domain).test.images)


def test_damaged_cache_is_rebuilt(
    built: Mini, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    arrays = {name: built.store().load(name) for name in built.store().names()}
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path))
    monkeypatch.setattr(mini, "build", lambda: arrays)  # what is tested is that it is called
    benchmark = Mini()
    benchmark.store().save(arrays, built.store().info())
    path = benchmark.store().folder / "type-shift.train.images.npy"
    content = bytearray(path.read_bytes())
    content[1000] ^= 4
    path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        loaded = benchmark.load("type-shift")
    assert np.array_equal(loaded.train.images, built.load("type-shift").train.images)
    assert len(caplog.messages) == 1
    benchmark.store().verify()
    assert benchmark.store().checksum() == built.store().checksum()


def test_without_a_writable_cache_it_works_from_memory(
    built: Mini, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "file"))
    benchmark = Mini()
    for domain in ("hand", "type-photo"):
        assert np.array_equal(benchmark.load(domain).train.images, built.load(domain).train.images)
    assert len(caplog.messages) == 1
    assert "Working from memory" in caplog.messages[0]


def test_importing_it_imports_nothing_heavy() -> None:
    program = (
        "import sys, json; from galafed.benchmarks.mini import Mini; Mini(); "
        "heavy = {'torch', 'sklearn', 'PIL', 'matplotlib', 'numpy'}; "
        "print(json.dumps(sorted(heavy.intersection(sys.modules))))"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert json.loads(printed.stdout) == []
