"""The Python way in: `galafed.run(...)` does what `gala run` does, `galafed.load(run)` what `gala predict` needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.config import resolve

if TYPE_CHECKING:
    from galafed.runs.runner import Observer, Result
    from galafed.trained.loading import Trained


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


def load(run: str | Path) -> Trained:
    """The classifier a finished run ended with: `galafed.load("runs/x").predict(["a.png", "folder"])`."""
    from galafed.trained.loading import load as trained

    return trained(run)
