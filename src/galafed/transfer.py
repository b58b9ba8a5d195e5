"""Fetching a file over HTTP with progress; a transfer that broke off goes on where it ended."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.benchmarks.base import Progress
from galafed.errors import DataError, SaveError
from galafed.runs.files import one_at_a_time

if TYPE_CHECKING:
    import requests

TIMEOUT_SECONDS = (10, 60)
"""To connect, and between two pieces."""

ATTEMPTS = 5
"""A transfer that breaks off is continued so often, as long as each attempt brings something."""

CHUNK = 2**18


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file with a checksum; the addresses are tried in turn."""

    name: str
    urls: tuple[str, ...]
    sha256: str
    size: int | None = None


def fetch_file(file: RemoteFile, folder: Path, page: str, progress: Progress | None = None) -> Path:
    """One file, checked; it appears under its name only whole, and a part that arrived is kept for the next time."""
    transfer = _Transfer(file=file, partial=folder / f".{file.name}.partial", progress=progress)
    failures = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(folder):  # two are not to add to one partial file; its checksum refuses a mixture
            for url in file.urls:
                outcome = _from_one_address(url, file, folder, transfer)
                if isinstance(outcome, Path):
                    return outcome
                failures.append(f"{url}: {outcome}")
            kept = " What arrived is kept; the next attempt goes on from there." if transfer.arrived() else ""
            other = " The file that is there has another checksum." if (folder / file.name).exists() else ""
    except OSError as error:
        raise SaveError(
            f"{folder / file.name} could not be written ({error.strerror or error}); "
            "free some space there or set GALAFED_CACHE to another folder."
        ) from error
    raise DataError(
        f"{file.name} could not be fetched ({'; '.join(failures)}).{other}{kept} "
        f"Try again when online, or get it from {page} and put it into {folder}."
    )


def _from_one_address(url: str, file: RemoteFile, folder: Path, transfer: _Transfer) -> Path | str:
    """The fetched file, or why it could not be had; a transfer that breaks off is continued."""
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")  # progress is ours to show
    why = ""
    for _ in range(ATTEMPTS):
        before = transfer.arrived()
        try:
            return Path(pooch.retrieve(url, f"sha256:{file.sha256}", fname=file.name, path=folder, downloader=transfer))
        except requests.RequestException as error:
            why = _reason(error)
            if transfer.arrived() <= before:
                break
        except ValueError:  # pooch has compared the checksums, and removed what arrived
            why = "what arrived has another checksum and was removed"
            if not transfer.resumed:  # else the part kept from earlier may have been at fault
                break
    return why


@dataclass(kw_only=True)
class _Transfer:
    """A downloader for pooch that goes on where an earlier transfer ended."""

    file: RemoteFile
    partial: Path
    progress: Progress | None
    resumed: bool = field(default=False, init=False)

    def arrived(self) -> int:
        """The bytes that lie here of a transfer that broke off."""
        return self.partial.stat().st_size if self.partial.exists() else 0

    def __call__(self, url: str, output_file: str, _pooch: Any, check_only: bool = False) -> None:
        if self.file.size is not None and self.arrived() > self.file.size:
            self.partial.unlink()
        offset = self.arrived()
        self.resumed = offset > 0
        if self.file.size is None or offset < self.file.size:
            self._check_space(offset)
            self._receive(url, offset)
        os.replace(self.partial, output_file)

    def _check_space(self, offset: int) -> None:
        free, needed = shutil.disk_usage(self.partial.parent).free, (self.file.size or 0) - offset
        if free < needed:
            raise OSError(errno.ENOSPC, f"{needed} bytes are needed, {free} are free")

    def _receive(self, url: str, offset: int) -> None:
        """Add to the partial file what the server still has; all of it, if the server cannot continue."""
        import requests

        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={offset}-"} if offset else {})
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT_SECONDS) as response:
            sent = response.headers.get("Content-Range", "")
            if response.status_code == 416 and sent == f"bytes */{offset}":
                return  # all had arrived
            continues = response.status_code == 206 and sent.startswith(f"bytes {offset}-")
            if offset and (response.status_code == 416 or (response.status_code == 206 and not continues)):
                self._receive(url, 0)
                return
            response.raise_for_status()
            self._write(response, offset if continues else 0)

    def _write(self, response: requests.Response, done: int) -> None:
        import requests

        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else self.file.size or 0
        with self.partial.open("ab" if done else "wb") as file:
            for piece in response.iter_content(CHUNK):
                file.write(piece)
                done += len(piece)
                if self.progress is not None:
                    self.progress(self.file.name, done, total)
            file.flush()
            os.fsync(file.fileno())
        if done < total:
            raise requests.exceptions.ChunkedEncodingError(f"{done} of {total} bytes")


def _reason(error: requests.RequestException) -> str:
    """Why a request failed, in a few words; the library's own messages run over several lines."""
    import requests

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code} {error.response.reason}".strip()
    if isinstance(error, requests.Timeout):
        return "the server does not answer"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the transfer broke off"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return type(error).__name__
