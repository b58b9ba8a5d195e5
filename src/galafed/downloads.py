"""The public files: where each comes from, its checksum, where it is looked for, and fetching it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from galafed.benchmarks.base import Progress
from galafed.benchmarks.store import cache_folder
from galafed.errors import ConfigError, DataError
from galafed.registry import unknown
from galafed.transfer import RemoteFile, fetch_file


@dataclass(frozen=True, kw_only=True)
class Source:
    """A public data set: files that can be fetched or, without them, what to get by hand from `page`."""

    title: str
    page: str
    licence: str
    files: tuple[RemoteFile, ...] = ()
    by_hand: str = ""
    """What to take from the page, where nothing can be fetched."""


def _mnist(name: str, sha256: str, size: int) -> RemoteFile:
    mirrors = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
    return RemoteFile(name=name, urls=tuple(mirror + name for mirror in mirrors), sha256=sha256, size=size)


def _svhn(name: str, sha256: str, size: int) -> RemoteFile:
    return RemoteFile(name=name, urls=(f"http://ufldl.stanford.edu/housenumbers/{name}",), sha256=sha256, size=size)


def _usps(name: str, sha256: str) -> RemoteFile:
    url = f"https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/{name}"
    return RemoteFile(name=name, urls=(url,), sha256=sha256)


SOURCES: dict[str, Source] = {
    "mnist": Source(
        title="MNIST",
        page="http://yann.lecun.com/exdb/mnist/",
        licence="CC BY-SA 3.0",
        files=(
            _mnist(
                "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                9912422,
            ),
            _mnist(
                "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                28881,
            ),
            _mnist(
                "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                1648877,
            ),
            _mnist(
                "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                4542,
            ),
        ),
    ),
    "svhn": Source(
        title="SVHN, cropped digits",
        page="http://ufldl.stanford.edu/housenumbers/",
        licence="non-commercial use only",
        files=(
            _svhn("train_32x32.mat", "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8", 182040794),
            _svhn("test_32x32.mat", "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b", 64275384),
        ),
    ),
    "usps": Source(
        title="USPS",
        page="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#usps",
        licence="none stated",
        files=(
            _usps("usps.bz2", "3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f"),
            _usps("usps.t.bz2", "a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e"),
        ),
    ),
    "mnistm": Source(
        title="MNIST-M",
        page="http://yaroslav.ganin.net/",
        licence="none stated",
        by_hand="mnist_m.tar.gz, unpacked: the folders mnist_m_train and mnist_m_test with their _labels.txt",
    ),
    "syn": Source(
        title="Synthetic Digits (SYN)",
        page="http://yaroslav.ganin.net/",
        licence="none stated",
        by_hand="SynthDigits.zip, unpacked: synth_train_32x32.mat and synth_test_32x32.mat; or syn_number.mat",
    ),
    "ardis": Source(
        title="ARDIS",
        page="https://ardisdataset.github.io/ARDIS/",
        licence="research only, no redistribution",
        by_hand="ARDIS_DATASET_IV, unpacked: ARDIS_train_2828.csv, ARDIS_train_labels.csv, ARDIS_test_2828.csv and "
        "ARDIS_test_labels.csv",
    ),
    "tmnist": Source(
        title="TMNIST (Typeface MNIST)",
        page="https://www.kaggle.com/datasets/nimishmagre/tmnist-typeface-mnist",
        licence="see the page",
        by_hand="TMNIST_Data.csv",
    ),
    "office_caltech10": Source(
        title="Office-Caltech10",
        page="https://faculty.cc.gatech.edu/~judy/domainadapt/",
        licence="none stated",
        by_hand="the images, unpacked as DOMAIN/CLASS/PICTURE with the domains amazon, caltech, dslr and webcam",
    ),
    "photos": Source(
        title="BSDS500 photographs",
        page="https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/resources.html",
        licence="non-commercial research",
        by_hand="BSR_bsds500.tgz, unpacked: the folders train and test of BSR/BSDS500/data/images",
    ),
}
"""By the name of the folder that each is looked for in."""


def raw_folder() -> Path:
    """Where fetched files are kept: the folder `raw` in the cache folder."""
    return cache_folder() / "raw"


def data_folder() -> Path | None:
    """Where the user keeps data: `$GALAFED_DATA`, else the folder of fetched files if there is one."""
    folders = _folders()
    return folders[0] if folders else None


def find(*names: str) -> Path | None:
    """The first of the names (relative paths, such as `mnist/train.parquet`) in `$GALAFED_DATA`, then among the
    fetched files; None if there is none."""
    for folder in _folders():
        for name in names:
            if (folder / name).exists():
                return folder / name
    return None


def _folders() -> list[Path]:
    chosen = os.environ.get("GALAFED_DATA")
    folders = [raw_folder()] if raw_folder().is_dir() else []
    if not chosen:
        return folders
    folder = Path(chosen).expanduser()
    if not folder.is_dir():
        raise DataError(f"GALAFED_DATA is {chosen!r}, which is not a folder; correct it or unset it.")
    return [folder, *folders]


def source(name: str) -> Source:
    """The data set called `name`."""
    if name not in SOURCES:
        raise ConfigError(unknown("data set", name, tuple(SOURCES)))
    return SOURCES[name]


def where_to_get(name: str) -> str:
    """A sentence: which files of a data set to get, from which page, and where to put them."""
    entry = source(name)
    what = ", ".join(file.name for file in entry.files) or entry.by_hand
    chosen = os.environ.get("GALAFED_DATA")
    folder = Path(chosen).expanduser() if chosen else raw_folder()
    self_service = ", or let 'gala data prepare BENCHMARK --download' fetch it" if entry.files else ""
    return (
        f"Get {entry.title} from {entry.page} (licence: {entry.licence}): {what}; put it into {folder / name}"
        f"{self_service}."
    )


def fetch(name: str, folder: Path | None = None, progress: Progress | None = None) -> tuple[Path, ...]:
    """Every file of a data set in `folder` (else `raw/NAME` of the cache), fetched unless it is there and whole."""
    entry = source(name)
    folder = raw_folder() / name if folder is None else folder
    if not entry.files:
        raise DataError(
            f"{entry.title} has no public file that can be fetched. Get it from {entry.page} "
            f"(licence: {entry.licence}): {entry.by_hand}; put it into {folder}."
        )
    return tuple(fetch_file(file, folder, entry.page, progress) for file in entry.files)
