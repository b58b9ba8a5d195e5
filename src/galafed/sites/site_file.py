"""Writing a site's own file, with a word on each line that invites a choice."""

from __future__ import annotations

import os
from pathlib import Path

import tomli_w

from galafed.errors import ConfigError
from galafed.runs.files import write_atomically
from galafed.sites.policy import PARTS, TASKS, Role
from galafed.sites.settings import read_settings

TEXT = """\
# The file of one site. The server cannot read or change it.
{name}
{role}  # source: has labels; target: has none, or keeps them for testing alone
{data}  # a folder CLASS/*.png, {{train,test}}/CLASS/*.png, or a CSV path,label,domain; empty: the run's benchmark
{kit}  # the key and certificate of this site; keep them to yourself

[allow]
# Whatever the server asks, only these tasks are done, and only these parts of what they make leave the site:
# parameters and statistics of a model, class means of features, and sums. No task sends an image or a label.
{tasks}
{parts}
megabytes_a_round = 0  # of what leaves; 0 sets no limit
"""


def write_site_file(path: Path, *, name: str, role: Role, kit: Path, data: str) -> None:
    """Write the file; one that is there already is not replaced."""
    if path.suffix != ".toml":
        raise ConfigError(f"--out {path}: must end in .toml")
    if path.exists():
        raise ConfigError(f"{path} is there already; remove it, or name another with --out")
    if not path.absolute().parent.is_dir():
        raise ConfigError(f"--out {path}: the folder {path.absolute().parent} does not exist; make it or name another")
    if not kit.is_dir():
        raise ConfigError(f"--kit {kit}: there is no such folder; it comes from whoever made the federation")
    text = TEXT.format(
        name=_line("name", name),
        role=_line("role", role),
        data=_line("data", _from_here(path, data) if data else ""),
        kit=_line("kit", _from_here(path, str(kit))),
        tasks=_line("tasks", list(TASKS[role])),
        parts=_line("parts", list(PARTS)),
    )
    write_atomically(path, text.encode())
    try:
        read_settings(path)
    except ConfigError:
        path.unlink()
        raise


def _from_here(file: Path, path: str) -> str:
    """A path as the file will read it: relative to the file's own folder."""
    return os.path.relpath(Path(path).expanduser().absolute(), file.absolute().parent)


def _line(key: str, value: object) -> str:
    return tomli_w.dumps({key: value}).strip()
