"""Folders with keys that live as long as a process; those of killed processes go when the next one is made."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

from galafed.errors import ConfigError

LOCK = "lock"


class TemporaryFolder:
    """A folder of this user's alone, marked as in use by a lock that ends with the process."""

    def __init__(self, prefix: str) -> None:
        clear_stale(prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        new = self.path / "locking"
        self._lock: IO[str] = new.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.replace(new, self.path / LOCK)  # whoever finds the file finds it locked

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def hold(folder: Path) -> IO[str]:
    """Have a folder, which is made where there is none, for this process alone until what is returned is closed."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / LOCK).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise ConfigError(
            "a run of this very configuration is going on on this machine: wait for it to end, or change the seed"
        ) from None
    return lock


def clear_stale(prefix: str) -> None:
    """Remove the folders of this user whose process has ended without doing so."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # another user's, in use, or gone in this moment
            if folder.lstat().st_uid == os.getuid() and not folder.is_symlink():
                with (folder / LOCK).open("r+") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
