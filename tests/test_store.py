"""The array store gives back what was saved, or says that it cannot."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from galafed.benchmarks.store import (
    MANIFEST,
    ArrayStore,
    CachedArrays,
    StoreDamaged,
    StoreMissing,
    cache_folder,
    recipe,
)
from galafed.errors import SaveError

ARRAYS: dict[str, NDArray[Any]] = {
    "images": np.arange(48, dtype=np.uint8).reshape(2, 4, 6),
    "labels": np.array([3, 1], np.int64),
}


@pytest.fixture
def store(tmp_path: Path) -> ArrayStore:
    """A store that holds ARRAYS."""
    store = ArrayStore(tmp_path / "cache" / "thing-v1")
    store.save(ARRAYS, {"benchmark": "thing"})
    return store


def leftovers(store: ArrayStore) -> list[str]:
    """What lies beside the store's folder."""
    return sorted(path.name for path in store.folder.parent.iterdir() if path != store.folder)


@pytest.mark.parametrize("mmap", [False, True])
def test_arrays_come_back_as_saved(store: ArrayStore, mmap: bool) -> None:
    for name, array in ARRAYS.items():
        loaded = store.load(name, mmap=mmap)
        assert np.array_equal(loaded, array)
        assert loaded.dtype == array.dtype
        assert loaded.flags.writeable is not mmap
    assert store.names() == ("images", "labels")
    assert store.info() == {"benchmark": "thing"}
    store.verify()
    assert leftovers(store) == []


def test_manifest_tells_shapes(store: ArrayStore) -> None:
    manifest = json.loads((store.folder / MANIFEST).read_text())
    assert manifest["arrays"]["images"]["shape"] == [2, 4, 6]
    assert manifest["arrays"]["labels"]["dtype"] == "int64"


def test_nothing_stored_is_told_apart_from_damage(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        ArrayStore(tmp_path / "none").load("images")


def test_checksum_tells_contents_apart(store: ArrayStore) -> None:
    before = store.checksum()
    store.save(ARRAYS, {"benchmark": "thing"})
    assert store.checksum() == before
    store.save({**ARRAYS, "labels": np.array([3, 2], np.int64)}, {"benchmark": "thing"})
    assert store.checksum() != before


def test_saving_replaces_what_was_there(store: ArrayStore) -> None:
    store.save({"other": np.zeros(3)}, {})
    assert store.names() == ("other",)
    assert sorted(path.name for path in store.folder.iterdir()) == [MANIFEST, "other.npy"]
    assert leftovers(store) == []


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def delete(path: Path) -> None:
    path.unlink()


DAMAGES = [cut, empty, flip, delete]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("file", ["images.npy", MANIFEST])
def test_damage_is_detected(store: ArrayStore, damage: Callable[[Path], None], file: str) -> None:
    damage(store.folder / file)
    for mmap in (False, True):
        with pytest.raises(StoreDamaged, match="thing-v1 is damaged: .*" + file):
            store.load("images", mmap=mmap)
    with pytest.raises(StoreDamaged):
        store.verify()


def test_every_flipped_byte_of_the_manifest_is_detected(store: ArrayStore) -> None:
    path = store.folder / MANIFEST
    content = path.read_bytes()
    believed = []
    for place in range(0, len(content), 5):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            store.load("images")
        except StoreDamaged:
            continue
        believed.append(chr(content[place]))
    # White space between the entries carries nothing, so a changed one may be believed.
    assert set(believed) <= {" ", "\n"}


@pytest.mark.parametrize("damage", DAMAGES)
def test_saving_repairs_damage(store: ArrayStore, damage: Callable[[Path], None]) -> None:
    damage(store.folder / "labels.npy")
    store.save(ARRAYS, {"benchmark": "thing"})
    store.verify()
    assert leftovers(store) == []


def test_cached_arrays_are_built_once_then_read(tmp_path: Path) -> None:
    builds = []

    def build() -> dict[str, NDArray[Any]]:
        builds.append(1)
        return ARRAYS

    for _ in range(2):
        cached = CachedArrays(ArrayStore(tmp_path / "thing"), build, {})
        for name, array in ARRAYS.items():
            assert np.array_equal(cached[name], array)
    assert len(builds) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_cached_arrays_are_rebuilt_after_damage_with_one_line(
    store: ArrayStore, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(store.folder / "images.npy")
    cached = CachedArrays(store, lambda: ARRAYS, {"benchmark": "thing"})
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(cached["images"], ARRAYS["images"])
    assert len(caplog.messages) == 1
    assert "built again" in caplog.messages[0]
    assert "\n" not in caplog.messages[0]
    store.verify()


def test_changing_a_built_array_leaves_the_next_one_alone(tmp_path: Path) -> None:
    cached = CachedArrays(ArrayStore(tmp_path / "thing"), lambda: ARRAYS, {})
    cached["labels"][:] = 0
    assert cached["labels"].tolist() == [3, 1]


def test_folder_that_cannot_be_written_is_survived(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # A file where the folder should be stops even the superuser, whom permissions would not.
    (tmp_path / "file").write_text("in the way")
    store = ArrayStore(tmp_path / "file" / "thing")
    with pytest.raises(SaveError, match="GALAFED_CACHE"):
        store.save(ARRAYS, {})
    with caplog.at_level(logging.WARNING):
        assert np.array_equal(CachedArrays(store, lambda: ARRAYS, {})["images"], ARRAYS["images"])
    assert len(caplog.messages) == 1
    assert "Working from memory" in caplog.messages[0]


def test_full_disk_leaves_the_old_arrays_and_no_rubbish(store: ArrayStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SaveError, match="No space left on device"):
        store.save({"images": np.zeros(5)}, {})
    assert np.array_equal(store.load("images"), ARRAYS["images"])
    assert leftovers(store) == []


def test_only_old_abandoned_folders_are_swept(store: ArrayStore) -> None:
    parent = store.folder.parent
    for name, age in ((".thing-v1.dead", 7 * 24 * 3600), (".thing-v1.alive", 60)):
        (parent / name).mkdir()
        os.utime(parent / name, (time.time() - age,) * 2)
    store.save(ARRAYS, {"benchmark": "thing"})
    assert leftovers(store) == [".thing-v1.alive"]


@pytest.mark.parametrize("name", ["", ".hidden", "../escape", "a/b", "a b"])
def test_name_that_is_no_plain_file_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        ArrayStore(tmp_path / "thing").save({name: np.zeros(1)}, {})
    assert list(tmp_path.iterdir()) == []


def test_objects_that_would_need_pickle_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        ArrayStore(tmp_path / "thing").save({"objects": np.array([{}])}, {})


WRITER = """
import sys
from pathlib import Path
import numpy
from galafed.benchmarks.store import ArrayStore
store = ArrayStore(Path(sys.argv[1]))
content = numpy.full((50, 50), int(sys.argv[2]))
for _ in range(15):
    store.save({"content": content}, {})
"""


def test_processes_that_save_at_once_leave_one_sound_store(tmp_path: Path) -> None:
    store = ArrayStore(tmp_path / "thing")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(store.folder), number], stderr=subprocess.PIPE)
        for number in ("1", "1", "2")
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors.decode()
    store.verify()
    assert len(np.unique(store.load("content"))) == 1
    assert leftovers(store) == []


def test_cache_folder_is_the_chosen_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GALAFED_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("GALAFED_CACHE", "~/kept")
    assert cache_folder() == Path.home() / "kept"
    monkeypatch.delenv("GALAFED_CACHE")
    assert cache_folder().name == "galafed"


def test_arrays_of_another_recipe_are_not_believed(tmp_path: Path) -> None:
    store = ArrayStore(tmp_path / "s")
    old = CachedArrays(store, lambda: {"x": np.zeros(3)}, {"recipe": "old"})
    assert old["x"].sum() == 0
    new = CachedArrays(store, lambda: {"x": np.ones(3)}, {"recipe": "new"})
    assert new["x"].sum() == 3
    assert store.load("x").sum() == 3
    again = CachedArrays(store, lambda: {"x": np.full(3, 7.0)}, {"recipe": "new"})
    assert again["x"].sum() == 3


def test_recipe_changes_with_the_text_of_any_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "b.py").write_text("y = 2")
    before = recipe(tmp_path)
    assert before == recipe(tmp_path / "a.py", tmp_path / "b.py")
    (tmp_path / "b.py").write_text("y = 3")
    assert recipe(tmp_path) != before
