"""The digit benchmarks: exact counts, stand-ins that say so, caches that are never believed wrongly, no leakage."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from numpy.typing import NDArray

from digit_files import COUNTS, RAW, digit_images, photographs, write_all, write_parquet
from galafed.benchmarks.base import benchmarks
from galafed.benchmarks.digit_18 import Digit18, Digit18Settings
from galafed.benchmarks.digit_five import DigitFive
from galafed.benchmarks.store import ArrayStore, StoreDamaged
from galafed.config import resolve
from galafed.digits.benchmark import DigitBenchmark, DigitSettings
from galafed.digits.domains import DERIVED, EIGHTEEN, NINETEEN
from galafed.errors import ConfigError, DataError, SaveError
from galafed.readers import parquet
from galafed.reproduction.editions import FIRST
from galafed.runs.folders import CONFIG
from galafed.runs.runner import Observer, resume, start
from galafed.transforms.background import invert_under
from galafed.transforms.colours import to_colour, to_gray
from galafed.transforms.scaling import resize, shrink_on_black
from galafed.transforms.strokes import stroke_mask

ALL = Digit18Settings(all_19=True)
OLD = Digit18Settings(**FIRST)
SHUFFLED = {"train": 72, "test": 18}
"""Four fifths and one fifth of all raw images of a base."""
LARGE = ("mnist", "mnistm", "svhn", "syn")
NOTES = {
    "syn": "regenerated", "synm": "regenerated", "synxs": "regenerated", "synstack": "regenerated",
    "ardis2": "stand-in", "tmnist": "stand-in",
}  # fmt: skip


def silent(domain: str, done: int, total: int) -> None:
    """No progress shown."""


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw files ü")
    write_all(folder)
    return folder


@pytest.fixture(autouse=True)
def place(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small counts, the small files, and an empty cache."""
    monkeypatch.setattr(DigitBenchmark, "counts", COUNTS)
    monkeypatch.setenv("GALAFED_DATA", str(raw))
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "digits"


@pytest.fixture(scope="module")
def built(raw: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with all nineteen domains."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DigitBenchmark, "counts", COUNTS)
        patch.setenv("GALAFED_DATA", str(raw))
        patch.setenv("GALAFED_CACHE", str(cache))
        Digit18(ALL).prepare(silent)
    return cache


@pytest.fixture
def whole(built: Path, monkeypatch: pytest.MonkeyPatch) -> Digit18:
    monkeypatch.setenv("GALAFED_CACHE", str(built))
    return Digit18(ALL)


def own_copy(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The raw files, to be changed."""
    copy = tmp_path / "data"
    shutil.copytree(raw, copy)
    monkeypatch.setenv("GALAFED_DATA", str(copy))
    return copy


def part_of(benchmark: DigitBenchmark, domain: str, part: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    loaded = benchmark.load(domain)
    split = loaded.train if part == "train" else loaded.test
    return np.asarray(split.images), split.labels


def test_names_and_recommendations() -> None:
    assert len(NINETEEN) == 19
    assert set(NINETEEN) - set(EIGHTEEN) == {"ardisxs"}
    assert benchmarks.get("digit-five")().domains == ("mnist", "mnistm", "svhn", "syn", "usps")
    assert benchmarks.get("digit-18")().domains == EIGHTEEN
    five, eighteen = resolve({"benchmark": "digit-five"}), resolve({"benchmark": "digit-18"})
    assert (five.settings.tau, eighteen.settings.tau) == (0.2, 1.0)
    assert (five.target, five.network, five.rounds, five.training.lr) == ("mnistm", "digit_cnn", 100, 0.04)
    assert len(eighteen.sources) == 17
    assert len(resolve({"benchmark": "digit-18", "digit-18": {"all_19": True}}).sources) == 18


@pytest.mark.parametrize("benchmark", ["digit-five", "digit-18"])
@pytest.mark.parametrize(("key", "accepted"), [("syn", ("legible", "wild")), ("usps", ("shuffled", "original"))])
def test_data_of_an_unknown_edition_are_refused(benchmark: str, key: str, accepted: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve({"benchmark": benchmark, benchmark: {key: "published"}})
    message = str(caught.value)
    assert message.startswith(f"{benchmark}.{key} = 'published'")
    assert all(name in message for name in accepted)


def test_domain_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="ardisxs"):
        Digit18().load("ardisxs")
    with pytest.raises(ConfigError, match="synm"):
        DigitFive().store("synm")


def test_importing_is_cheap() -> None:
    heavy = "{'torch', 'sklearn', 'PIL', 'pyarrow', 'scipy', 'numpy'}"
    code = f"import sys, galafed.benchmarks.digit_18 as d; d.Digit18(); assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("domain", NINETEEN)
def test_every_domain_has_its_images(whole: Digit18, domain: str) -> None:
    loaded = whole.load(domain)
    base = DERIVED[domain][0] if domain in DERIVED else domain
    counts = COUNTS if base in LARGE else SHUFFLED if base == "usps" else RAW
    for split, part in ((loaded.train, "train"), (loaded.test, "test")):
        assert split.images.shape == (counts[part], 32, 32, 3)
        assert split.images.dtype == np.uint8
        assert split.labels.dtype == np.int64
        assert set(split.labels.tolist()) <= set(range(10))
        assert not split.images.flags.writeable
    assert (loaded.name, loaded.note) == (domain, NOTES.get(domain, ""))


def test_notes_need_no_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "read", lambda path: pytest.fail("an image was read"))
    assert {domain: note for domain, note in Digit18(ALL).notes().items() if note} == NOTES
    assert Digit18().missing() == {}


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("base", ["mnist", "svhn", "usps"])
def test_base_images_are_those_of_the_file(raw: Path, base: str, part: str) -> None:
    file = parquet.read(raw / base / f"{part}.parquet")
    benchmark = Digit18(OLD)
    images, labels = part_of(benchmark, base, part)
    rows = benchmark.bases(base)[part == "test"] - (RAW["train"] if part == "test" else 0)
    assert len(np.unique(rows)) == len(rows) == (COUNTS if base in LARGE else RAW)[part]
    assert np.array_equal(labels, file.labels[rows])
    assert np.array_equal(images, to_colour(resize(np.asarray(file.images)[rows], 32)))


def test_usps_is_divided_anew_whichever_file_an_image_is_in(raw: Path, whole: Digit18) -> None:
    files = [parquet.read(raw / "usps" / f"{part}.parquet") for part in ("train", "test")]
    images, labels = np.concatenate([file.images for file in files]), np.concatenate([file.labels for file in files])
    train, test = whole.bases("usps")
    assert sorted([*train, *test]) == list(range(90))
    assert train.max() >= RAW["train"] > test.min()
    for part, rows in (("train", train), ("test", test)):
        assert len(rows) == SHUFFLED[part]
        found, names = part_of(whole, "usps", part)
        assert np.array_equal(names, labels[rows])
        assert np.array_equal(found, to_colour(resize(images[rows], 32)))


def test_editions_lie_side_by_side_and_leave_each_other_alone(place: Path) -> None:
    domains = ("syn", "synxs", "usps", "uspsm")
    new, old = Digit18(), Digit18(OLD)
    images = {domain: part_of(new, domain, "train")[0] for domain in domains}
    made = {path: path.stat().st_ino for path in place.glob("*/manifest.json")}
    for domain, before in images.items():
        first, _ = part_of(old, domain, "train")
        assert not np.array_equal(first[:40], before[:40])
        assert np.array_equal(part_of(new, domain, "train")[0], before)
    assert {path: path.stat().st_ino for path in made} == made
    assert sorted(path.name for path in place.iterdir()) == [
        "syn-legible", "syn-wild", "synxs-legible", "synxs-wild",
        "usps-original", "usps-shuffled", "uspsm-original", "uspsm-shuffled",
    ]  # fmt: skip
    for benchmark in (new, old):
        for own, theirs in zip(benchmark.bases("uspsm"), benchmark.bases("usps"), strict=True):
            assert np.array_equal(own, theirs)
        assert not any(benchmark.facts("uspsm")["leakage"].values())


@pytest.mark.parametrize("domain", sorted(DERIVED))
def test_derived_images_are_made_of_their_base_part_by_part(whole: Digit18, domain: str) -> None:
    base, dress = DERIVED[domain]
    for part, own, theirs in zip(("train", "test"), whole.bases(domain), whole.bases(base), strict=True):
        assert np.array_equal(own, theirs)
        images, labels = part_of(whole, domain, part)
        before, names = part_of(whole, base, part)
        assert np.array_equal(labels, names)
        if dress == "small":
            expected = to_colour(shrink_on_black(to_gray(before), 20, 32))
            assert not images[:, :6].any()
            assert not images[:, :, 26:].any()
        elif dress == "stack":
            expected = np.zeros_like(before)
            gray = to_gray(before)
            expected[:, :, :-3, 0], expected[:, 3:, :, 1], expected[:, :, 3:, 2] = (
                gray[:, :, 3:],
                gray[:, :-3],
                gray[:, :, :-3],
            )
        else:
            # Photographs of one colour tell which part a crop is from, and leave nothing to chance.
            crops = np.broadcast_to(photographs(part)[0, 0, 0], before.shape)
            mask = to_gray(before) >= 128 if base == "usps" else stroke_mask(before)
            assert mask.any()
            assert not mask.all()
            expected = invert_under(mask, crops)
        assert np.array_equal(images, expected)


def test_small_images_keep_their_colours_if_asked(whole: Digit18) -> None:
    coloured = Digit18(Digit18Settings(xs_gray=False))
    images, _ = part_of(coloured, "svhnxs", "train")
    base, _ = part_of(coloured, "svhn", "train")
    assert np.array_equal(images, shrink_on_black(base, 20, 32))
    gray, _ = part_of(whole, "svhnxs", "train")
    assert not np.array_equal(images, gray)


def test_facts_tell_counts_checksums_and_no_leakage(whole: Digit18) -> None:
    facts = whole.facts("synm")
    assert (facts["train"], facts["test"], facts["note"], facts["base"]) == (40, 20, "regenerated", "syn")
    assert sum(facts["histogram"].values()) == 40
    assert sum(facts["test_histogram"].values()) == 20
    assert [entry["file"] for entry in facts["sources"]] == [
        "glyphs/train.parquet", "glyphs/test.parquet", "photos/train.parquet", "photos/test.parquet",
    ]  # fmt: skip
    assert len(facts["checksum"]) == 64
    for domain in NINETEEN:
        assert not any(whole.facts(domain)["leakage"].values()), domain


def test_leakage_is_found(whole: Digit18, raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = digit_images(RAW["train"], 16, colour=False, seed=1)
    data = own_copy(raw, tmp_path, monkeypatch)
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "cache"))
    for part in ("train", "test"):
        write_parquet(data / "usps" / f"{part}.parquet", images[: RAW[part]], labels[: RAW[part]])
    assert Digit18(OLD).facts("usps")["leakage"]["identical_images"] == RAW["test"]
    store = Digit18(OLD).store("usps")
    arrays = {name: np.array(array) for name, array in store.map_all().items()}
    arrays["test.bases"][:3] = arrays["train.bases"][:3]
    store.save(arrays, store.info())
    assert Digit18(OLD).facts("usps")["leakage"]["test_bases_in_train"] == 3


def test_same_files_give_the_same_bytes(whole: Digit18, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {domain: whole.store(domain).checksum() for domain in ("syn", "synm", "ardis2", "mnist", "usps")}
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path))
    again = Digit18(ALL)
    for domain, checksum in before.items():
        again.load(domain)
        assert again.store(domain).checksum() == checksum


def test_loading_prepares_only_what_it_needs_and_both_benchmarks_share_it(place: Path) -> None:
    Digit18().load("mnistxs")
    assert sorted(path.name for path in place.iterdir()) == ["mnist", "mnistxs"]
    before = (place / "mnist" / "manifest.json").stat()
    DigitFive().load("mnist")
    after = (place / "mnist" / "manifest.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_interrupted_preparation_goes_on(place: Path) -> None:
    def interrupt(domain: str, done: int, total: int) -> None:
        assert total == 5
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DigitFive().prepare(interrupt)
    assert sorted(path.name for path in place.iterdir()) == ["mnist", "mnistm"]
    first = (place / "mnist" / "manifest.json").stat().st_ino
    seen: list[tuple[str, int]] = []
    DigitFive().prepare(lambda domain, done, total: seen.append((domain, done)))
    assert seen == [("mnist", 0), ("mnistm", 1), ("svhn", 2), ("syn", 3), ("usps", 4), ("usps", 5)]
    assert (place / "mnist" / "manifest.json").stat().st_ino == first
    assert sorted(path.name for path in place.iterdir()) == ["mnist", "mnistm", "svhn", "syn-legible", "usps-shuffled"]


def test_prepared_domain_outlives_its_files(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = own_copy(raw, tmp_path, monkeypatch)
    before = np.array(Digit18().load("synxs").train.images)
    shutil.rmtree(data)
    data.mkdir()
    loaded = Digit18().load("synxs")
    assert np.array_equal(loaded.train.images, before)
    assert loaded.note == Digit18().notes()["synxs"] == "regenerated"
    assert "synxs" not in Digit18().missing()
    assert "mnist" in Digit18().missing()


def test_other_files_of_the_same_size_give_other_images(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = own_copy(raw, tmp_path, monkeypatch)
    before, derived = (np.array(Digit18().load(domain).train.images) for domain in ("usps", "uspsm"))
    images, labels = digit_images(RAW["train"], 16, colour=False, seed=99)
    write_parquet(data / "usps" / "train.parquet", 255 - images, labels)
    assert not np.array_equal(Digit18().load("usps").train.images, before)
    assert not np.array_equal(Digit18().load("uspsm").train.images, derived)


def test_damaged_cache_is_built_again(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = np.array(DigitFive().load("usps").train.images)
    path = place / "usps-shuffled" / "train.images.npy"
    path.write_bytes(path.read_bytes()[:-1000])
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(DigitFive().load("usps").train.images, before)
    assert "built again" in caplog.text


def test_changed_byte_is_found_by_facts(place: Path) -> None:
    DigitFive().load("usps")
    path = place / "usps-shuffled" / "train.images.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"train\.images"):
        DigitFive().facts("usps")


def test_full_disk_ends_preparation_but_not_a_run(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = ArrayStore.save

    def save(store: ArrayStore, arrays: object, info: object) -> None:
        if store.folder.name != "mnist":
            raise SaveError(f"{store.folder} could not be written (No space left on device); free some space there.")
        kept(store, arrays, info)  # type: ignore[arg-type]

    monkeypatch.setattr(ArrayStore, "save", save)
    with pytest.raises(DataError, match=r"mnistm.*No space.*prepare again") as caught:
        DigitFive().prepare(silent)
    assert caught.value.exit_code == 3
    assert [path.name for path in place.iterdir()] == ["mnist"]
    with caplog.at_level(logging.WARNING):
        loaded = Digit18().load("uspsm")
    assert len(loaded.train) == SHUFFLED["train"]
    assert "from memory" in caplog.text


def test_missing_files_are_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GALAFED_DATA", str(tmp_path))
    for domain, words in {
        "mnist": ["mnist", "train-images-idx3-ubyte.gz", "GALAFED_DATA", "http"],
        "synm": ["syn", "synth_train_32x32.mat", "glyphs", "photos"],
        "ardis2": ["ARDIS_train_2828.csv"],
        "tmnist": ["TMNIST_Data.csv"],
        "uspsm": ["usps.bz2"],
    }.items():
        with pytest.raises(DataError) as caught:
            Digit18().load(domain)
        assert all(word in str(caught.value) for word in words), str(caught.value)
    assert set(Digit18().missing()) == set(EIGHTEEN)
    assert set(Digit18().notes().values()) == {""}


def test_fonts_of_which_none_is_like_another_make_a_wild_syn_alone(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = own_copy(raw, tmp_path, monkeypatch)
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 40)).astype(np.uint8)
    names = [f"font {number // 10}" for number in range(40)]
    write_parquet(data / "glyphs" / "test.parquet", noise, [*range(10)] * 4, font=names)
    with pytest.raises(DataError, match=r'no font.*set syn = "wild"'):
        DigitFive().load("syn")
    assert len(DigitFive(DigitSettings(syn="wild")).load("syn").test) == COUNTS["test"]


class Interrupts(Observer):
    """Somebody who loses patience after the first round."""

    def round_done(self, line: Any) -> None:
        if line["round"] == 1:
            raise KeyboardInterrupt


def test_run_of_an_earlier_version_goes_on_with_its_data(place: Path, tmp_path: Path) -> None:
    values = {"benchmark": "digit-five", "target": "mnist", "sources": ["usps"], "digit-five": FIRST}
    small = {"algorithm": "source_only", "network": "small_cnn", "rounds": 2, "device": "cpu", "threads": 1}
    config = resolve(values | small)
    whole = start(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        start(config, tmp_path / "cut", Interrupts())
    told = config.to_dict()
    assert told.pop("digit-five") == FIRST  # it was no setting then
    (tmp_path / "cut" / CONFIG).write_text(tomli_w.dumps(told))
    assert resume(tmp_path / "cut").summary["digest"] == whole.summary["digest"]
    assert sorted(path.name for path in place.iterdir()) == ["mnist", "usps-original"]


def test_half_of_the_files_is_not_silently_replaced(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = own_copy(raw, tmp_path, monkeypatch)
    shutil.copytree(data / "svhn", data / "syn")
    (data / "syn" / "test.parquet").unlink()
    with pytest.raises(DataError, match=r"train\.parquet but not test\.parquet"):
        DigitFive().load("syn")


def test_real_files_win_over_stand_ins(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = own_copy(raw, tmp_path, monkeypatch)
    assert Digit18().load("syn").note == "regenerated"
    for real, copy in (("syn", "svhn"), ("tmnist", "mnist"), ("ardis2", "mnistm")):
        shutil.copytree(data / copy, data / real)
    assert set(Digit18().notes().values()) == {""}
    loaded = Digit18().load("syn")
    assert loaded.note == ""
    assert len(np.unique(np.concatenate([loaded.train.images, loaded.test.images]), axis=0)) == 60


def test_too_few_images_and_absent_classes_are_refused(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = own_copy(raw, tmp_path, monkeypatch)
    images, labels = digit_images(COUNTS["train"] - 1, 28, colour=False, seed=3)
    write_parquet(data / "mnist" / "train.parquet", images, labels)
    with pytest.raises(DataError, match="mnist has 39 train images, fewer than the 40"):
        DigitFive().load("mnist")
    write_parquet(data / "usps" / "test.parquet", images, [min(label, 8) for label in labels])
    with pytest.raises(DataError, match=r"usps.*test\.parquet.*no image of 9"):
        DigitFive().load("usps")
    write_parquet(data / "svhn" / "train.parquet", images, [10, *labels[1:]])
    with pytest.raises(DataError, match=r"svhn.*label"):
        DigitFive().load("svhn")
