"""Writing that survives `kill -9` and a full disk: whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from galafed.errors import ConfigError, SaveError


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file by its new content; a reader sees the old one or the new one, never a part."""
    if not path.name:
        raise ConfigError(f"{path}: is a folder; name a file in it")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with explained(path):
        try:
            _put_down(temporary, content)
            os.replace(temporary, path)
            sync_folder(path.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


def write_durably(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with explained(path):
        _put_down(path, content)


def _put_down(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder that appears under its name, complete, when the block ends; after an error nothing is left of it.

    With `replace` it takes the place of one that is there, which is removed when it has.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    with explained(path):
        _remove_leftovers(path, "part")
        temporary.mkdir(parents=True)
        try:
            yield temporary
            sync_folder(temporary)
            _put(temporary, path, replace=replace)
            sync_folder(path.parent)
            _remove_leftovers(path, "before")  # there is a new one in its place
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _remove_leftovers(path: Path, kind: str) -> None:
    """What processes that were killed have left beside a folder."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.{kind}"):
        if not _is_running(leftover.suffixes[-2][1:]):
            remove(leftover)


def _put(temporary: Path, path: Path, *, replace: bool) -> None:
    """Give a folder its name, which must be free unless what has it is to be replaced."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.before")
    replaced = replace and path.exists()
    if replaced:
        os.replace(path, aside)
    try:
        os.replace(temporary, path)
    except OSError as error:
        if replaced:
            os.replace(aside, path)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            raise ConfigError(f"{path}: another process has made it meanwhile; wait for that one or stop it") from None
        raise
    if replaced:
        shutil.rmtree(aside, ignore_errors=True)  # what is wanted is in its place


def _is_running(pid: str) -> bool:
    """Whether another process of this number is alive; our own number is ours to use."""
    try:
        if int(pid) != os.getpid():
            os.kill(int(pid), 0)
            return True
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return False


def sync_folder(folder: Path) -> None:
    """Wait until the disk has a folder's entries, where the system can; the files themselves are synced."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Let one process at a time work in a folder, made if need be, on whichever machine that shares the folder.

    A file in it is locked: a lock on the folder itself is known to one machine only where the others come by network.
    The file goes with the lock, so who has waited for it looks whether it is still the one that is there.
    """
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    import fcntl

    lock = folder / ".lock"
    while True:
        with explained(folder):
            file = lock.open("a")
        with file:
            with contextlib.suppress(OSError):  # some network file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(lock, file.fileno()):
                try:
                    yield
                finally:
                    lock.unlink(missing_ok=True)
                return


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def claimed(lock: Path) -> Iterator[bool]:
    """Whether this process has the lock now; it goes with the process, however that ends.

    An `OSError` tells that the file system has no locks.
    """
    import fcntl

    with contextlib.ExitStack() as stack:
        with explained(lock):
            file = stack.enter_context(lock.open("a"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def require_writable(folder: Path) -> None:
    """Refuse a folder, made if need be, that takes no file: before the work whose outcome is to go there."""
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


def remove(path: Path) -> None:
    """Remove a file or a folder."""
    with explained(path):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Clear away what interrupted writes left behind."""
    for leftover in folder.glob(".*.part"):
        remove(leftover)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an operating system's refusal into a sentence."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            what = "the disk is full or a size limit is reached; free some space"
        else:
            what = f"{error.strerror or error}; check the folder and its permissions"
        raise SaveError(f"{path} could not be written: {what}. What was saved before is intact") from error
