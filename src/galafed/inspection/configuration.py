"""The configuration file that runs a user's images, written from an inspection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from galafed.errors import ConfigError
from galafed.inspection.listing import few
from galafed.runs.files import write_atomically

FIRST_LINE = "# Written by 'gala data inspect'."


def configuration(record: Mapping[str, Any]) -> str:
    """The TOML text, with a word on each line that invites a choice."""
    settings = record["recommended"]
    others = [name for name in record["domains"] if name != settings["target"]]
    folder: list[tuple[str, Any, str]] = [
        ("path", record["path"], ""),
        ("image_size", settings["folder.image_size"], "pixels a side; images are stretched to it"),
    ]
    if any(domain["split"] == "drawn" for domain in record["domains"].values()):
        folder.append(("test_share", 0.25, "of each class, where a domain is not split into train and test"))
    if record["unreadable"]:
        unread = f"{len(record['unreadable'])} files; without this line they are refused"
        folder.append(("unreadable", "skip", unread))
    lines = [
        FIRST_LINE,
        _line("benchmark", "folder", ""),
        _line("target", settings["target"], f"the domain without labels; the other domains are {few(others)}"),
        _line("network", settings["network"], "'gala ls networks' lists them"),
        _line("rounds", settings["rounds"], ""),
        "",
        "[training]",
        _line("batch_size", settings["training.batch_size"], ""),
        _line("lr", settings["training.lr"], ""),
        "",
        "[folder]",
        *(_line(*entry) for entry in folder),
    ]
    return "\n".join(lines) + "\n"


def check_writable(path: Path) -> None:
    """Find out before the work whether the file can be written; one that was not written here is not replaced."""
    refused = f"--write {path}:"
    if path.suffix.lower() != ".toml":
        raise ConfigError(f"{refused} must end in .toml")
    try:
        if path.exists() and not path.read_bytes().startswith(FIRST_LINE.encode()):
            raise ConfigError(f"{refused} is there already and not from an inspection; name another file")
    except OSError as error:
        raise ConfigError(f"{refused} cannot be written ({error.strerror}); name another file") from None
    if not path.parent.is_dir():
        raise ConfigError(f"{refused} the folder {path.parent} does not exist; make it or name another")


def write_configuration(record: Mapping[str, Any], path: Path) -> None:
    """Write the file."""
    write_atomically(path, configuration(record).encode())


def _line(key: str, value: Any, comment: str) -> str:
    line = tomli_w.dumps({key: value}).strip()
    # A domain may be called anything, but a comment ends with its line.
    return f"{line}  # {' '.join(comment.split())}" if comment else line
