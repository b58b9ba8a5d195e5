"""Office-Caltech10 is read from either layout, squeezed to a square, kept, and refused with a reason."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from galafed.benchmarks.base import benchmarks
from galafed.benchmarks.office_caltech10 import COUNTS, OfficeCaltech10, OfficeSettings
from galafed.benchmarks.store import ArrayStore
from galafed.config import resolve
from galafed.errors import ConfigError, DataError, SaveError

CLASSES = OfficeCaltech10.classes
PUBLISHED = (
    "backpack", "bike", "calculator", "headphones", "keyboard", "laptop", "monitor", "mouse", "mug", "projector",
)  # fmt: skip
OFFICE31 = (
    "back_pack", "bike", "calculator", "headphones", "keyboard", "laptop_computer", "monitor", "mouse", "mug",
    "projector",
)  # fmt: skip
CALTECH256 = (
    "003.backpack", "224.touring-bike", "027.calculator", "101.head-phones", "045.computer-keyboard",
    "127.laptop-101", "046.computer-monitor", "047.computer-mouse", "041.coffee-mug", "238.video-projector",
)  # fmt: skip


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for Office's files, in a data folder of the test's own, with a cache of its own."""
    monkeypatch.setenv("GALAFED_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data" / "office_caltech10"
    folder.mkdir(parents=True)
    return folder


def picture(red: int, width: int = 40, height: int = 50) -> Image.Image:
    """One colour, whose red tells pictures apart."""
    return Image.new("RGB", (width, height), (red, 100, 200))


def encoded(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def write_parquet(
    path: Path, images: Sequence[Image.Image | bytes], labels: Sequence[int], names: Sequence[str] | None = PUBLISHED
) -> None:
    """A file in the layout of Hugging Face's image data sets."""
    rows = [{"bytes": i if isinstance(i, bytes) else encoded(i), "path": None} for i in images]
    table = pa.table({"image": rows, "label": pa.array(labels, pa.int64())})
    if names is not None:
        features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": list(names)}}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, path)


def ten(data: Path, domain: str = "dslr") -> Path:
    """A domain of ten pictures, one a class, the red of each ten times its class."""
    path = data / f"{domain}.parquet"
    write_parquet(path, [picture(10 * number) for number in range(10)], range(10))
    return path


def office(size: int = 32) -> OfficeCaltech10:
    return OfficeCaltech10(OfficeSettings(image_size=size))


# What it is


def test_it_is_the_published_benchmark() -> None:
    assert benchmarks.get("office-caltech10") is OfficeCaltech10
    assert COUNTS == {"amazon": 958, "caltech": 1123, "dslr": 157, "webcam": 295}
    assert OfficeCaltech10.domains == ("amazon", "caltech", "dslr", "webcam")
    assert CLASSES == PUBLISHED


def test_recommended_settings_are_the_papers_and_what_it_leaves_open_is_as_measured() -> None:
    run = resolve({"benchmark": "office-caltech10"})
    training = run.training
    assert (run.target, run.rounds, run.network, run.settings.tau) == ("amazon", 40, "efficientnet_lite0_fixed", 1.0)
    assert (training.schedule, training.decay, training.mixup) == ("exponential", 0.9, 0.2)
    assert (training.momentum, training.weight_decay, training.batch_size) == (0.9, 5e-4, 128)
    assert (training.lr, training.extractor_rate, training.persistent_momentum) == (0.02, 0.1, True)
    assert run.sources == ("caltech", "dslr", "webcam")


def test_image_size_is_a_setting_with_a_least_value() -> None:
    assert OfficeCaltech10().image_size == 224
    values = {"benchmark": "office-caltech10", "office-caltech10": {"image_size": 300}}
    assert OfficeCaltech10(resolve(values).benchmark_settings).image_size == 300
    with pytest.raises(ConfigError, match=r"office-caltech10\.image_size = 8"):
        resolve({"benchmark": "office-caltech10", "office-caltech10": {"image_size": 8}})


def test_naming_it_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'numpy', 'PIL', 'pyarrow', 'sklearn', 'scipy'}"
    program = (
        "import sys; from galafed.benchmarks.office_caltech10 import OfficeCaltech10; OfficeCaltech10();"
        f"sys.exit(','.join({heavy} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_unknown_domain_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'amazone'.*'amazon'"):
        office().load("amazone")


# Parquet


def test_all_images_are_train_and_test_images(data: Path) -> None:
    ten(data)
    domain = office().load("dslr")
    assert domain.train is domain.test
    assert domain.train.images.shape == (10, 32, 32, 3)
    assert domain.train.images.dtype == np.uint8
    assert isinstance(domain.train.images, np.memmap)
    assert domain.train.labels.tolist() == list(range(10))
    assert domain.train.labels.dtype == np.int64
    for number, image in enumerate(domain.train.images):
        assert (image == (10 * number, 100, 200)).all()


def test_images_are_squeezed_to_a_square_and_not_cropped(data: Path) -> None:
    images = [picture(0) for _ in range(10)]
    # Stripes of a tenth at the short ends: a crop to the middle would lose them.
    images[0] = Image.new("RGB", (400, 100))
    images[0].paste((255, 0, 0), (0, 0, 40, 100))
    images[0].paste((0, 0, 255), (360, 0, 400, 100))
    write_parquet(data / "dslr.parquet", images, range(10))
    image = office(40).load("dslr").train.images[0]
    assert (image[:, :3] == (255, 0, 0)).all()
    assert (image[:, -3:] == (0, 0, 255)).all()
    assert (image[:, 6:-6] == 0).all()


def test_grey_images_get_three_equal_channels(data: Path) -> None:
    images = [Image.new("L", (30, 60), 10 * number) for number in range(10)]
    write_parquet(data / "dslr.parquet", images, range(10))
    images_read = office().load("dslr").train.images
    assert (images_read == 10 * np.arange(10)[:, None, None, None]).all()


def test_labels_follow_the_names_in_the_file(data: Path) -> None:
    names = tuple(reversed(OFFICE31))
    write_parquet(data / "dslr.parquet", [picture(10 * number) for number in range(10)], range(10), names)
    split = office().load("dslr").train
    assert split.labels.tolist() == list(range(9, -1, -1))
    assert split.images[:, 0, 0, 0].tolist() == [10 * number for number in range(10)]


def test_labels_without_names_are_in_the_published_order(data: Path) -> None:
    write_parquet(data / "dslr.parquet", [picture(0)] * 10, range(9, -1, -1), None)
    assert office().load("dslr").train.labels.tolist() == list(range(9, -1, -1))


# Folders


def write_folders(root: Path, names: Sequence[str], suffix: str = "png") -> None:
    for number, name in enumerate(names):
        (root / name).mkdir(parents=True)
        picture(10 * number).save(root / name / f"image 1ü.{suffix}")


@pytest.mark.parametrize(
    ("domain", "folder", "names"),
    [
        ("amazon", "amazon", PUBLISHED),
        ("amazon", "amazon/images", OFFICE31),
        ("webcam", "Webcam", [name.upper() for name in OFFICE31]),
        ("caltech", "caltech", OFFICE31),
        ("caltech", "Caltech10", PUBLISHED),
        ("caltech", "256_ObjectCategories", CALTECH256),
    ],
)
def test_published_folders_are_read(data: Path, domain: str, folder: str, names: Sequence[str]) -> None:
    write_folders(data / folder, names)
    split = office().load(domain).train
    assert split.labels.tolist() == list(range(10))
    assert split.images[:, 0, 0, 0].tolist() == [10 * number for number in range(10)]


def test_other_classes_and_other_files_are_passed_over(data: Path) -> None:
    write_folders(data / "dslr", [*OFFICE31, "desk_lamp", "desktop_computer"])
    (data / "dslr" / "mug" / "Thumbs.db").write_bytes(b"no picture")
    (data / "dslr" / "mug" / "._image.png").write_bytes(b"no picture either")
    assert len(office().load("dslr").train) == 10


def test_the_folder_itself_may_be_spelled_otherwise(data: Path) -> None:
    write_folders(data.parent / "OfficeCaltech10" / "dslr", OFFICE31)
    shutil.rmtree(data)
    assert len(office().load("dslr").train) == 10


def test_a_file_that_is_no_picture_is_named(data: Path) -> None:
    write_folders(data / "dslr", OFFICE31)
    (data / "dslr" / "mug" / "broken.jpg").write_bytes(encoded(picture(0))[:60])
    with pytest.raises(DataError, match=r"broken\.jpg"):
        office().load("dslr")


# Bad files


def test_missing_files_say_where_to_get_and_put_them(data: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        office().load("caltech")
    message = str(caught.value)
    assert "caltech" in message
    assert "https://" in message
    assert str(tmp_path / "data" / "office_caltech10") in message
    assert caught.value.exit_code == 3
    ten(data)
    assert set(office().missing()) == {"amazon", "caltech", "webcam"}


def test_missing_class_is_named(data: Path) -> None:
    write_parquet(data / "dslr.parquet", [picture(0)] * 8, range(8))
    with pytest.raises(DataError, match=r"dslr\.parquet.*no image of mug, projector"):
        office().load("dslr")
    write_folders(data / "webcam", OFFICE31)
    (data / "webcam" / "mouse" / "image 1ü.png").unlink()
    with pytest.raises(DataError, match="no image of mouse"):
        office().load("webcam")


@pytest.mark.parametrize("names", [PUBLISHED, None])
@pytest.mark.parametrize("label", [-1, 10])
def test_label_outside_the_classes_is_refused(data: Path, names: Sequence[str] | None, label: int) -> None:
    write_parquet(data / "dslr.parquet", [picture(0)] * 11, [*range(10), label], names)
    with pytest.raises(DataError, match=rf"dslr\.parquet.*{label}"):
        office().load("dslr")


def test_unknown_class_name_is_refused(data: Path) -> None:
    write_parquet(data / "dslr.parquet", [picture(0)] * 10, range(10), [*PUBLISHED[:9], "stapler"])
    with pytest.raises(DataError, match=r"dslr\.parquet.*'stapler'"):
        office().load("dslr")


def test_truncated_file_is_refused_and_nothing_is_kept(data: Path, tmp_path: Path) -> None:
    path = ten(data)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"dslr\.parquet"):
        office().load("dslr")
    assert not list((tmp_path / "cache").rglob("*.npy"))


# The cache


def test_what_is_prepared_outlives_its_files(data: Path) -> None:
    path = ten(data)
    before = np.array(office().load("dslr").train.images)
    path.unlink()
    assert (office().load("dslr").train.images == before).all()


def test_each_size_has_its_own_copy(data: Path) -> None:
    ten(data)
    assert office(32).load("dslr").train.images.shape[1:] == (32, 32, 3)
    assert office(40).load("dslr").train.images.shape[1:] == (40, 40, 3)
    assert office(32).load("dslr").train.images.shape[1:] == (32, 32, 3)


@pytest.mark.parametrize("layout", ["parquet", "folder"])
def test_other_files_make_other_images(data: Path, layout: str) -> None:
    for red in (0, 90):
        if layout == "parquet":
            write_parquet(data / "dslr.parquet", [picture(red)] * 10, range(10))
        else:
            shutil.rmtree(data / "dslr", ignore_errors=True)
            write_folders(data / "dslr", OFFICE31)
            picture(red).save(data / "dslr" / "back_pack" / "image 1ü.png")
        assert int(office().load("dslr").train.images[0, 0, 0, 0]) == red


def test_damaged_cache_is_made_again(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    ten(data)
    benchmark = office()
    before = np.array(benchmark.load("dslr").train.images)
    stored = benchmark.store("dslr").folder / "images.npy"
    content = bytearray(stored.read_bytes())
    content[-5] ^= 1
    stored.write_bytes(content)
    assert (office().load("dslr").train.images == before).all()
    assert "damaged" in caplog.text


def test_full_disk_stops_preparing_but_not_running(
    data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for domain in COUNTS:
        ten(data, domain)

    def full(self: ArrayStore, arrays: object, info: object) -> None:
        raise SaveError("no space left")

    monkeypatch.setattr(ArrayStore, "save", full)
    assert len(office().load("dslr").train) == 10
    assert "no space left" in caplog.text
    with pytest.raises(DataError, match="no space left"):
        office().prepare(lambda what, done, total: None)


def test_preparing_tells_how_far_it_is_and_does_nothing_twice(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for domain in COUNTS:
        ten(data, domain)
    told: list[tuple[str, int, int]] = []
    office().prepare(lambda what, done, total: told.append((what, done, total)))
    assert [what for what, done, total in told if done == total] == list(COUNTS)
    assert all(0 <= done <= total for _, done, total in told)

    def again(*arguments: object) -> None:
        raise AssertionError("built a second time")

    monkeypatch.setattr(OfficeCaltech10, "_build", again)
    office().prepare(lambda what, done, total: None)


# What is told


def test_incomplete_domain_says_so(data: Path) -> None:
    ten(data)
    benchmark = office()
    assert benchmark.notes() == dict.fromkeys(COUNTS, "")
    assert benchmark.load("dslr").note == "10 of 157 images"
    assert benchmark.notes()["dslr"] == "10 of 157 images"


def test_complete_domain_has_nothing_to_say(data: Path) -> None:
    write_parquet(data / "dslr.parquet", [picture(0, 8, 8)] * 157, [n % 10 for n in range(157)])
    assert office().load("dslr").note == ""


def test_facts_count_what_is_there(data: Path) -> None:
    images = [picture(0, 64, 64) for _ in range(12)]
    images[3] = picture(0, 64, 20)  # lower than the square it becomes
    write_parquet(data / "dslr.parquet", images, [*range(10), 8, 8])
    facts = office().facts("dslr")
    assert (facts["train"], facts["test"], facts["expected"], facts["test_is_train"]) == (12, 12, 157, True)
    assert facts["histogram"] == {**dict.fromkeys(CLASSES, 1), "mug": 3}
    assert facts["enlarged"] == 1
    assert facts["note"] == "12 of 157 images"
    first = facts["checksum"]
    images[0] = picture(1, 64, 64)
    write_parquet(data / "dslr.parquet", images, [*range(10), 8, 8])
    assert office().facts("dslr")["checksum"] != first
