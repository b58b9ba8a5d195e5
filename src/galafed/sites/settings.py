"""A site's own file: who it is, where its images are, and what it allows. The server cannot change a word of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from galafed.config import read_toml
from galafed.errors import ConfigError
from galafed.sites.policy import Policy, Role
from galafed.typed import build

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
"""It becomes the name of a certificate and of folders."""


@dataclass(frozen=True, kw_only=True)
class SiteSettings:
    """What stands in site.toml."""

    name: str
    role: Role
    data: str = ""
    """A folder CLASS/* or {train,test}/CLASS/*, at a target also one of loose images, or a CSV path,label,domain; if
    empty, the domain of the site's name in the benchmark of the run."""
    test_share: float = 0.25
    """Of each class, where the images are not split into train and test."""
    device: str = ""
    """cpu, cuda, cuda:N; what the run says, if empty."""
    kit: str = ""
    """The folder with the site's key and certificate; relative to this file."""
    allow: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        if not re.fullmatch(NAME, self.name):
            raise ConfigError(f"name = {self.name!r}: letters, digits, dots, dashes and underscores, at most 63")
        if not re.fullmatch(r"|auto|cpu|cuda(:\d+)?", self.device):
            raise ConfigError(f"device = {self.device!r}: accepted are auto, cpu, cuda, cuda:N")
        if not 0 < self.test_share < 1:
            raise ConfigError(f"test_share = {self.test_share}: must lie between 0 and 1")


def state_folder(path: Path) -> Path:
    """Where the site of a file keeps what must not be lost, its ledgers and its logs: beside the file."""
    return path.with_suffix(".state")


def read_settings(path: Path) -> SiteSettings:
    """The settings in a site's file; relative paths in it start at its folder."""
    values = read_toml(path)
    for key in ("name", "role"):
        if key not in values:
            raise ConfigError(f"{path}: lacks {key!r}; 'gala site init' writes a complete file")
    for key in ("data", "kit"):
        if isinstance(values.get(key), str) and values[key]:
            values[key] = str((path.absolute().parent / Path(values[key]).expanduser()).resolve())
    try:
        return build(SiteSettings, values, "")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
