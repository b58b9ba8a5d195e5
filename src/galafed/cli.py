"""The verbs of `gala`. Each is a few lines that call the library; heavy modules are imported when a verb needs them."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import tyro
from tyro.conf import Positional, UseAppendAction, arg

from galafed import __version__, cli_data, cli_federation, cli_reproduce, cli_site, cli_use
from galafed.cli_data import use_data
from galafed.cli_federation import RUN_FILE
from galafed.config import read_toml, resolve, set_value
from galafed.errors import ConfigError, DataError, GalafedError
from galafed.report.console import complain, console
from galafed.report.watching import Shown, check_trackers, watched
from galafed.runs.folders import check_free, load_config

RUNS = Path("runs")

Name = Annotated[str | None, arg(metavar="NAME")]
Number = Annotated[str | None, arg(metavar="NUMBER")]
Folder = Annotated[Path | None, arg(metavar="FOLDER")]
Trackers = UseAppendAction[Annotated[tuple[str, ...], arg(metavar="NAME")]]
File = Annotated[Path | None, arg(metavar="FILE.toml")]


def run(
    benchmark: Positional[Annotated[str | None, arg(metavar="BENCHMARK")]] = None,
    /,
    *,
    target: Name = None,
    algorithm: Name = None,
    engine: Name = None,
    rounds: Number = None,
    seed: Number = None,
    device: Name = None,
    precision: Name = None,
    max_clients_at_once: Number = None,
    participation: Number = None,
    federation: Folder = None,
    out: Folder = None,
    config: File = None,
    settings: Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="KEY=VALUE")] = (),
    overwrite: bool = False,
    data: Folder = None,
    track: Trackers = (),
    live: bool = False,
    port: int = 0,
) -> None:
    """Run an algorithm on a benchmark; alone, GALA on the embedded benchmark `mini`.

    Args:
        benchmark: Which benchmark (gala ls benchmarks).
        target: The domain without labels.
        algorithm: Which algorithm (gala ls algorithms).
        engine: Where client work is done (gala ls engines).
        rounds: How many rounds.
        seed: The seed of every random draw.
        device: cpu, cuda, cuda:N or auto.
        precision: float32, bfloat16 (products alone) or float64.
        max_clients_at_once: How many clients the engine `stacked` trains together; what fits, if not given.
        participation: Share of the sources that take part in each round.
        federation: Folder made by 'gala federation init', of an engine with real sites.
        out: The run's folder; runs/NAME if not given.
        config: A TOML file with settings; flags win over it.
        settings: Any other setting, for example gala.tau=0.5 or training.lr=0.02; may be repeated.
        overwrite: Start again even if the folder holds this run already.
        data: Where data files are looked up; wins over $GALAFED_DATA.
        track: Also write the run to tensorboard, mlflow or wandb; may be repeated.
        live: Serve a page about the run on this machine, which follows it.
        port: Of that page; any free one if 0.
    """
    use_data(data)
    if federation is not None and config is None and benchmark is None and (federation / RUN_FILE).is_file():
        config = federation / RUN_FILE
    names = {"benchmark": benchmark, "target": target, "algorithm": algorithm, "engine": engine, "device": device}
    named = names | {"precision": precision}
    flags: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    if federation is not None:
        flags["federation"] = str(federation.absolute() if federation.exists() else federation)
    numbers = {"rounds": rounds, "seed": seed, "max_clients_at_once": max_clients_at_once}
    numbers |= {"participation": participation}
    settings = (*(f"{key}={value}" for key, value in numbers.items() if value is not None), *settings)
    resolved = resolve(_values(config, flags, settings))
    folder = out or RUNS / resolved.run_name
    check_free(folder, resolved, overwrite=overwrite)
    check_trackers(track)

    from galafed.runs.runner import start

    shown = Shown(track=track, live=live, port=port)
    watched(lambda observer: start(resolved, folder, observer, overwrite=overwrite), folder, shown)


def resume(run: Positional[Path], /, *, track: Trackers = (), live: bool = False, port: int = 0) -> None:
    """Go on with an interrupted run, from its newest valid checkpoint.

    Args:
        run: The run's folder.
        track: Also write the run to tensorboard, mlflow or wandb; may be repeated.
        live: Serve a page about the run on this machine, which follows it.
        port: Of that page; any free one if 0.
    """
    load_config(run)
    check_trackers(track)

    from galafed.runs.runner import resume as go_on

    watched(lambda observer: go_on(run, observer), run, Shown(track=track, live=live, port=port))


def show(run: Positional[Path], /, *, as_json: Annotated[bool, arg(name="json")] = False) -> None:
    """Show a run: its summary, or how far it is.

    Args:
        run: The run's folder.
        as_json: Print JSON.
    """
    from galafed.report.tables import summary_table
    from galafed.runs.records import record

    found = record(run)
    if as_json:
        _print_json(found)
    elif found["done"]:
        console().print(summary_table(found))
    else:
        progress = f"{found['rounds_done']} of {found['rounds']} rounds done"
        console().print(f"{run}: {progress}; go on with 'gala resume {run}'", markup=False, highlight=False)


def compare(
    runs: Positional[tuple[Path, ...]],
    /,
    *,
    as_json: Annotated[bool, arg(name="json")] = False,
    html: cli_use.HtmlFile = None,
) -> None:
    """Put runs side by side.

    Args:
        runs: The runs' folders.
        as_json: Print JSON.
        html: Also write a page with curves to this file.
    """
    from galafed.report.tables import comparison_table
    from galafed.runs.records import finished

    if not runs:
        raise ConfigError("compare: name at least one run folder; 'gala ls runs' lists them")
    rows = [finished(run) for run in runs]
    if html is not None:
        from galafed.report.page.writing import write_comparison

        write_comparison(runs, html)
    if as_json:
        _print_json(rows)
    else:
        screen = console()
        screen.print(comparison_table(rows, screen.width))


def audit(run: Positional[Path], /, *, as_json: Annotated[bool, arg(name="json")] = False) -> None:
    """What left each site in a run, and what came in: every payload, by task.

    Args:
        run: The run's folder.
        as_json: Print every payload as JSON: round, task, direction, tensors, bytes, sha256.
    """
    from galafed.report.audit import audit_table, by_site, ledgers, left_out

    found = ledgers(run)
    sites = by_site(found)
    if as_json:
        _print_json(sites)
    else:
        console().print(audit_table(sites))
    for sentence in left_out(found, "cut"):
        complain(f"{sentence}, cut short, as by a kill")
    if damaged := left_out(found, "damaged"):  # programs are to see that the audit is not whole
        raise DataError("\n".join(f"{sentence}; restore the file from a copy" for sentence in damaged))


def ls(
    what: Positional[Literal["algorithms", "benchmarks", "engines", "networks", "runs"]],
    /,
    *,
    as_json: Annotated[bool, arg(name="json")] = False,
    folder: Path = RUNS,
) -> None:
    """List what there is.

    Args:
        what: Which kind of thing.
        as_json: Print JSON.
        folder: Where to look for runs.
    """
    from galafed.report.tables import listing
    from galafed.runs.records import catalogue

    rows = catalogue(what, folder)
    if as_json:
        _print_json(rows)
    else:
        console().print(listing(rows))


def data() -> None:
    """Look at data, prepare and check it: list, prepare, verify, preview, similarity, inspect ('gala data --help')."""


def site() -> None:
    """A site's day: init, check, start ('gala site --help')."""


def federation() -> None:
    """Keys, certificates and start-up kits for sites: init ('gala federation --help')."""


GROUPS = {"data": cli_data.VERBS, "site": cli_site.VERBS, "federation": cli_federation.VERBS}

VERBS: dict[str, Callable[..., None]] = {
    "run": run,
    "resume": resume,
    "show": show,
    "compare": compare,
    "ls": ls,
    "audit": audit,
    "data": data,
    "site": site,
    "federation": federation,
    **cli_reproduce.VERBS,
    **cli_use.VERBS,
}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The command `gala`: parse, do, and end with a documented exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments == ["--version"]:
        console().print(f"galafed {__version__}")
        sys.exit(0)
    # Two programs on the same cores are slowed down many times over by threads that wait busily.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if arguments and arguments[0] in GROUPS:
            group = arguments[0]
            tyro.extras.subcommand_cli_from_dict(
                GROUPS[group], prog=f"gala {group}", description=VERBS[group].__doc__, args=arguments[1:]
            )
        else:
            tyro.extras.subcommand_cli_from_dict(
                VERBS, prog="gala", description="Federated unsupervised multi-source domain adaptation.", args=arguments
            )
    except GalafedError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        again = shlex.join(["gala", *arguments])
        complain(f"interrupted; what was finished is kept, and the same command goes on where it was: {again}")
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output went away, as in `gala ls runs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if error.errno == errno.ENOSPC:  # what the command had to say had no room
            complain("the output could not be written, for its disk is full; free some space")
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        if error.errno != errno.ENAMETOOLONG:
            raise
        complain(f"{error.filename}: the name is too long for the file system; give a shorter one")
        sys.exit(2)
    sys.exit(0)


def _values(config: Path | None, flags: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Settings from a file, then flags, then --set, each winning over what came before."""
    values = read_toml(config) if config else {}
    chosen: dict[str, Any] = dict(flags)
    for assignment in settings:
        set_value(chosen, assignment)
    before = values.get("algorithm", "gala")
    if isinstance(before, str) and chosen.get("algorithm", before) != before:
        # The file's settings of the algorithm it names do not concern the one that is asked for.
        values.pop(before, None)
    for key, value in chosen.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            values[key] |= value
        else:
            values[key] = value
    return values


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
