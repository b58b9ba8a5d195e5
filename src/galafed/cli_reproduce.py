"""The verb `gala reproduce`: the tables and figures of the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from galafed.bounds import at_least, check_device, check_engine
from galafed.cli_data import use_data
from galafed.config import set_value
from galafed.errors import ConfigError
from galafed.report.console import console

RUNS = Path("runs")
NAME_ONE = "belongs to a study, and none is named; --list shows which there are"


def reproduce(
    names: Annotated[Positional[tuple[str, ...]], arg(metavar="STUDY")] = (),
    /,
    *,
    list_: Annotated[bool, arg(name="list")] = False,
    all_: Annotated[bool, arg(name="all")] = False,
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
    """Run, or go on with, the runs of studies, and write their tables and pictures.

    Runs of several studies share one queue, and each is put down in the results as soon as it is done. Several of these
    commands may share the folder of runs, for example one for the GPU and one for the processor's cores: each run is
    done once. Runs whose summaries are in the study's runs.jsonl are not repeated.

    Args:
        names: Which studies; --list shows all.
        list_: Show the studies and how much of each was measured.
        all_: Every study that lacks anything; with --table, every study.
        summary: Write README.md, the state of all studies on one page, into the folder of results.
        table: Write the table and pictures of what was measured, here or in the folder of runs, and measure nothing.
        minutes: Start no further run after this many minutes; 0 runs to the end.
        jobs: How many runs at a time.
        device: Where to run, if not where the study says; a run that was begun goes on where it was.
        engine: What to run on, if not what the study says; a run that was begun goes on with its own.
        rows: Run these rows of the tables only, for example FACT GALA; a table still shows all there is.
        columns: Run these columns of the tables only, for example mnistm svhn.
        check: Run what was measured once more with this seed, and tell how far that is off; results stay as they are.
        settings: A setting of the study, for example sources=[3,5]; may be repeated. Few studies have any.
        data: Where data files are looked up; wins over $GALAFED_DATA.
        out: Where the study's table goes, in a folder of its name.
        work: Where its runs are kept.
    """
    from galafed.studies import base

    # A slip is told even where nothing is left to do, and before a study that would not mind it has begun.
    at_least("--minutes", minutes, 0)
    at_least("--jobs", jobs, 1)
    check_device("--device", device or "auto")
    check_engine("--engine", engine or "serial")
    asked = {"--all": all_, "--check": check, "--table": table, "--rows": rows, "--columns": columns, "--set": settings}
    for option, given in (("--summary", summary), ("--list", list_)):
        if given:
            _refuse(
                {"STUDY": names, **asked}, f"has nothing to do with {option}, which is of all studies: leave one out"
            )
    if summary and list_:
        raise ConfigError("--summary writes a page and --list shows what it would tell: give one of them")
    if summary:
        from galafed.reproduction.overview import write_overview

        console().print(f"wrote {write_overview(out)}", markup=False, soft_wrap=True)
        return
    names = tuple(dict.fromkeys(names))
    if not (list_ or names or all_):
        _refuse({option: given for option, given in asked.items() if option != "--all"}, NAME_ONE)
    if list_ or not (names or all_):
        from galafed.report.tables import listing

        console().print(listing(base.progress(out)))
        return
    if all_:
        from galafed.reproduction.agenda import lacking

        names = tuple(base.studies.names() if table else lacking(out))
        if not names:
            console().print("every study is whole: there is nothing to do")
            return
    for name in names:
        base.studies.get(name)  # a slip is told before the work of the others
    if len(names) != 1:
        _refuse({"--set": settings, "--check": check}, f"belongs to one study, and here are {len(names)}: name one")
    use_data(data)
    place = {key: value for key, value in (("device", device), ("engine", engine)) if value}
    chosen: dict[str, Any] = {}
    for assignment in settings:
        set_value(chosen, assignment)
    say = partial(console().print, markup=False, highlight=False, soft_wrap=True)
    where: dict[str, Any] = {
        "jobs": jobs,
        "place": place,
        "out": out,
        "work": work,
        "rows": rows,
        "columns": columns,
        "say": say,
    }
    if check is not None:
        if table:
            raise ConfigError("--table measures nothing, and --check measures: give one of them")
        from galafed.report.tables import checked_table
        from galafed.reproduction import checking

        found, problem = checking.check(base.study_of(names[0], chosen), check, base.Desk(minutes=minutes, **where))
        console().print(checked_table(found, check))
        if problem:
            raise problem
        return

    def together(some: Sequence[str], left: float) -> Sequence[Path]:
        return base.reproduce(*some, settings=chosen, table=table, minutes=left, **where)

    from galafed.reproduction.agenda import turns, work_through

    for path in work_through(turns(names, out), together, minutes=minutes, say=say):
        say(f"wrote {path}")


def _refuse(given: Mapping[str, object], why: str) -> None:
    """Refuse the first option of these that was given; where it would mean nothing it is not left aside."""
    for option, value in given.items():
        if value is not None and value is not False and value != ():
            raise ConfigError(f"{option} {why}")


VERBS: dict[str, Callable[..., None]] = {"reproduce": reproduce}
