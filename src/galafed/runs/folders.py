"""A run's folder: the names in it, and whether a run may begin there. Needs no torch."""

from __future__ import annotations

import os
from pathlib import Path

from galafed.config import Run, read_toml, resolve
from galafed.errors import ConfigError
from galafed.former import as_it_was

CONFIG, METRICS, SUMMARY, DONE, LOCK = "config.toml", "metrics.jsonl", "summary.json", "done", "lock"
LEDGER, CHECKPOINTS = "ledger", "checkpoints"


def load_config(folder: Path) -> Run:
    """The configuration of the run in a folder."""
    if not (folder / CONFIG).is_file():
        raise ConfigError(f"{folder}: holds no run (no {CONFIG}); 'gala ls runs' lists the runs there are")
    return resolve(as_it_was(read_toml(folder / CONFIG)))


def holds_run(folder: Path) -> bool:
    """Whether a folder with a config.toml was made by a run: other programs have such a file, and checkpoints, too."""
    try:
        settings = read_toml(folder / CONFIG)
    except ConfigError:
        return False
    made = any((folder / name).exists() for name in (CHECKPOINTS, METRICS, SUMMARY, DONE))
    return made and {"benchmark", "target", "algorithm"} <= settings.keys()


def check_free(folder: Path, config: Run, *, overwrite: bool) -> None:
    """Refuse, before any work, a folder that cannot be written or that holds something else."""
    here, there = Path.cwd(), folder.resolve()
    if here == there or (overwrite and here.is_relative_to(there)):
        raise ConfigError(f"--out {folder}: is the folder you are in, or around it; name a new one")
    if (folder / CONFIG).is_file():
        if overwrite and (folder.is_symlink() or not holds_run(folder)):
            raise ConfigError(
                f"--out {folder}: is a link, or holds no run that could be overwritten; name a new folder"
            )
        if not overwrite and load_config(folder).hash() != config.hash():
            raise ConfigError(f"--out {folder}: holds a run of another configuration; name another, or --overwrite")
    elif folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"--out {folder}: is not empty and holds no run; name a new folder")
    elif folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out {folder}: is a file; name a folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        probe = folder.parent / f".{folder.name}.{os.getpid()}.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"--out {folder}: cannot be written ({error.strerror}); name a folder that can") from None
