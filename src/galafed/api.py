"""The Python way in: `galafed.run(...)` does what `gala run` does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.config import resolve

if TYPE_CHECKING:
    from galafed.runs.runner import Observer, Result


def run(
    benchmark: str = "mini",
    /,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    observer: Observer | None = None,
    **settings: Any,
) -> Result:
    """Run an algorithm on a benchmark and return the result; goes on with an unfinished run of the same settings.

    Settings are those of a configuration file: `galafed.run(target="hand", training={"lr": 0.02}, gala={"tau": 0.5})`.
    """
    config = resolve({"benchmark": benchmark, **settings})

    from galafed.runs.runner import start

    return start(config, Path(out) if out else Path("runs") / config.run_name, observer, overwrite=overwrite)
