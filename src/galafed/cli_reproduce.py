"""The verb `gala reproduce`: the tables and figures of the paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from galafed.cli_data import use_data
from galafed.config import set_value
from galafed.report.console import console

RUNS = Path("runs")


def reproduce(
    study: Positional[str] = "",
    /,
    *,
    list_: Annotated[bool, arg(name="list")] = False,
    summary: bool = False,
    table: bool = False,
    minutes: float = 0.0,
    jobs: int = 1,
    device: str | None = None,
    engine: str | None = None,
    rows: tuple[str, ...] = (),
    columns: tuple[str, ...] = (),
    check: Annotated[int | None, arg(metavar="SEED")] = None,
    settings: Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="KEY=VALUE")] = (),
    data: Annotated[Path | None, arg(metavar="FOLDER")] = None,
    out: Path = Path("results"),
    work: Path = RUNS,
) -> None:
    """Run, or go on with, the runs of a study, and write its table and pictures.

    Several of these commands may share the folder of runs, for example one for the GPU and one for the processor's
    cores: each run is done once. Runs whose summaries are in the study's runs.jsonl are not repeated.

    Args:
        study: Which study; --list shows all.
        list_: Show the studies and how much of each was measured.
        summary: Write README.md, the state of all studies on one page, into the folder of results.
        table: Write the table and pictures of what was measured, here or in the folder of runs, and measure nothing.
        minutes: Start no further run after this many minutes; 0 runs to the end.
        jobs: How many runs at a time.
        device: Where to run, if not where the study says.
        engine: What to run on, if not what the study says.
        rows: Run these rows of the table only, for example FACT GALA; the table still shows all there is.
        columns: Run these columns of the table only, for example mnistm svhn.
        check: Run what was measured once more with this seed, and tell how far that is off; results stay as they are.
        settings: A setting of the study, for example sources=[3,5]; may be repeated. Few studies have any.
        data: Where data files are looked up; wins over $GALAFED_DATA.
        out: Where the study's table goes, in a folder of its name.
        work: Where its runs are kept.
    """
    from galafed.studies import base

    if summary:
        from galafed.reproduction.overview import write_overview

        console().print(f"wrote {write_overview(out)}", markup=False, soft_wrap=True)
        return
    if list_ or not study:
        from galafed.report.tables import listing

        console().print(listing(base.progress(out)))
        return
    use_data(data)
    place = {key: value for key, value in (("device", device), ("engine", engine)) if value}
    chosen: dict[str, Any] = {}
    for assignment in settings:
        set_value(chosen, assignment)
    where: dict[str, Any] = {
        "minutes": minutes,
        "jobs": jobs,
        "place": place,
        "out": out,
        "work": work,
        "rows": rows,
        "columns": columns,
        "say": lambda text: console().print(text, markup=False, highlight=False),
    }
    if check is not None:
        from galafed.report.tables import checked_table
        from galafed.reproduction import checking

        found = checking.check(base.study_of(study, chosen), check, base.Desk(**where))
        console().print(checked_table(found, check))
        return
    for path in base.reproduce(study, settings=chosen, table=table, **where):
        console().print(f"wrote {path}", markup=False, soft_wrap=True)


VERBS: dict[str, Callable[..., None]] = {"reproduce": reproduce}
