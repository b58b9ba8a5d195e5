"""One file, one entry: the name of a file in a folder is the name of what it registers.

Names are listed from file names alone, so an unknown name is refused before anything heavy is imported. Another
distribution adds entries without touching this one, by an entry point in the group of the folder's name:

    [project.entry-points."galafed.algorithms"]
    consensus = "galafed_consensus"
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from galafed.errors import ConfigError

T = TypeVar("T")

NOT_ENTRIES = {
    "base", "benchmarks.export", "benchmarks.store", "engines.remote",
    "networks.heads", "networks.layers", "networks.parts", "networks.residual", "networks.weights",
}  # fmt: skip
"""Files beside entries that register nothing, with the folder they are in, or in any folder."""


class Registry(Generic[T]):
    """The entries of one kind, for example every algorithm; loaded one at a time, when asked for."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[type], type]:
        """Class decorator: enter the class under `name`, which must be the name of its file."""

        def enter(cls: type) -> type:
            if name in self._entries:
                raise ValueError(f"two {self.kind}s are called {name!r}")
            self._entries[name] = cls  # type: ignore[assignment]
            cls.name = name  # type: ignore[attr-defined]
            return cls

        return enter

    def names(self) -> tuple[str, ...]:
        """Every entry's name, from the names of files and entry points, sorted."""
        found = {file.replace("_", self._separator) for file in entries(self._package)}
        return tuple(sorted(found | set(self._entries) | plugins(self._package).keys()))

    @property
    def _separator(self) -> str:
        return "-" if self.kind in ("benchmark", "study") else "_"

    def get(self, name: str) -> T:
        """The entry called `name`; an unknown name is an error that lists the known ones."""
        if name not in self._entries:
            if name not in self.names():
                raise ConfigError(unknown(self.kind, name, self.names()))
            self._load(name)
        return self._entries[name]

    def _load(self, name: str) -> None:
        file = name.replace("-", "_")
        if file in entries(self._package):  # ours: a plug-in of the same name does not take its place
            importlib.import_module(f"{self._package}.{file}")
            return
        plugin = plugins(self._package)[name]
        whose = f"the plug-in {name!r} ({plugin.value})"
        try:
            plugin.load()
        except Exception as error:  # whatever somebody else's module raises
            raise ConfigError(f"{whose} cannot be loaded: {error!r}; repair or uninstall it") from error
        if name not in self._entries:
            raise ConfigError(f"{whose} registers no {self.kind} of that name; repair or uninstall it")


@cache
def plugins(package: str) -> dict[str, EntryPoint]:
    """What other distributions add to a package, by name."""
    return {point.name: point for point in entry_points(group=package)}


@cache  # thousands of configurations ask for it, and files do not come while a program runs
def entries(package: str) -> tuple[str, ...]:
    """The file names of a package that are entries, sorted."""
    path, folder = importlib.import_module(package).__path__, package.rpartition(".")[2]
    files = (module.name for module in pkgutil.iter_modules(path))
    return tuple(sorted(file for file in files if not {file, f"{folder}.{file}"} & NOT_ENTRIES))


def unknown(what: str, name: str, accepted: tuple[str, ...]) -> str:
    """A sentence that refuses a name, suggests the nearest one and lists what is accepted."""
    near = difflib.get_close_matches(name, accepted, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"{what} {name!r} is not known.{hint} Accepted: {', '.join(map(in_a_list, accepted))}."


def in_a_list(name: str) -> str:
    """A name in a list of names; in quotes where it has a comma itself."""
    return repr(name) if "," in name else name
