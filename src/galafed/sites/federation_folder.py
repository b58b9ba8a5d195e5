"""The folder of a federation, whatever the engine: who belongs to it, and where its server is."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

import tomli_w

from galafed.errors import ConfigError

SETTINGS = "federation.toml"


@dataclass(frozen=True)
class FederationFolder:
    """Where the server is, and who belongs to the federation; an engine adds what is its own."""

    engine: ClassVar[str]

    path: Path
    host: str
    port: int
    sites: tuple[str, ...]
    target: str

    @property
    def address(self) -> str:
        """The server as HOST:PORT."""
        return f"{self.host}:{self.port}"

    @property
    def server(self) -> Path:
        """What the server needs: its key is here."""
        return self.path / "server"

    def kit(self, site: str) -> Path:
        """What a site needs, and nobody else should have."""
        return self.path / "sites" / site

    def write(self) -> None:
        """Write down what `read` reads."""
        values = {"host": self.host, "port": self.port, "sites": list(self.sites), "target": self.target}
        (self.path / SETTINGS).write_text(tomli_w.dumps({"engine": self.engine, **values}))

    @classmethod
    def read(cls, path: Path) -> Self:
        """The federation in a folder, which must be one of this engine."""
        try:
            values = tomllib.loads((path / SETTINGS).read_text(encoding="utf-8"))
            sites, target = tuple(values["sites"]), str(values["target"])
            made = cls(path.resolve(), str(values["host"]), int(values["port"]), sites, target)
        except (OSError, ValueError, KeyError, TypeError):
            raise ConfigError(
                f"{path} is no folder of a federation (no readable {SETTINGS}); 'gala federation init' makes one"
            ) from None
        if values.get("engine") != cls.engine:
            raise ConfigError(f"{path} is a federation of the engine {values.get('engine')!r}: run it with that one")
        return made

    def require(self, names: Sequence[str]) -> None:
        """Refuse a run with a site that does not belong."""
        if strangers := set(names) - set(self.sites):
            raise ConfigError(f"{self.path} has no site called {min(strangers)!r}; it has {', '.join(self.sites)}")


def check_new(path: Path, names: Sequence[str]) -> None:
    """Refuse to make a federation where something is already, or of sites that cannot be told apart."""
    if len(set(names)) < len(names):
        raise ConfigError(f"a site is named twice in {', '.join(names)}; the target is one of its own")
    if path.exists():
        raise ConfigError(f"{path} exists already: name a new folder, or remove it")
