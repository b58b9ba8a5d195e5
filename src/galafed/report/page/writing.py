"""From what the user names to a page in a file: a run, a study's folder or name, or several runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from galafed.errors import ConfigError, DataError
from galafed.report.page.run import run_page
from galafed.runs.files import write_atomically
from galafed.runs.folders import CONFIG
from galafed.runs.records import finished

PAGE = "report.html"
RESULTS = Path("results")


def write_report(what: Path, out: Path | None, before: Path | None) -> tuple[Path, str]:
    """Write the page of a run or a study; returns its path and, where something could not be shown, a sentence."""
    if (what / CONFIG).is_file():
        return _run(what, out or what / PAGE, before)
    folder = next((place for place in (what, RESULTS / what) if (place / "table.json").is_file()), None)
    if folder is None:
        raise ConfigError(
            f"{what}: is neither a run (no {CONFIG}) nor a study (no table.json, here or in {RESULTS}); "
            "'gala ls runs' lists the runs there are"
        )
    from galafed.report.page.study import study_page

    path = out or folder / PAGE
    write_atomically(path, study_page(folder).html().encode())
    return path, ""


def _run(folder: Path, path: Path, before: Path | None) -> tuple[Path, str]:
    finished(folder)
    if before is not None:
        finished(before)

    from galafed.report.page.insight import look

    try:
        insight, missing = look(folder, before), ""
    except (ConfigError, DataError) as error:  # the images of a user's own folder may be gone, or at another site
        insight = None
        missing = f"Mistakes, images and the map of features are not shown: {error}"
    write_atomically(path, run_page(folder, insight, missing=missing).html().encode())
    return path, missing


def write_comparison(folders: Sequence[Path], out: Path) -> None:
    """Write the page of several finished runs."""
    from galafed.report.page.comparison import comparison_page

    write_atomically(out, comparison_page(folders).html().encode())
