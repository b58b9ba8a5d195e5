"""The verbs that make use of runs: report, watch, predict, export, tune."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape
from tyro.conf import Positional, UseAppendAction, arg

from galafed.bounds import at_least
from galafed.config import set_value
from galafed.errors import ConfigError
from galafed.registry import entries, plugins, unknown
from galafed.report.console import console
from galafed.report.words import percent
from galafed.runs.files import write_atomically
from galafed.runs.records import finished, record
from galafed.tuning.searching import CRITERION, SCALES, TAUS, candidates, check_criterion
from galafed.tuning.searching import tune as search

if TYPE_CHECKING:
    from galafed.trained.prediction import Predictions

Json = Annotated[bool, arg(name="json")]
Folder = Annotated[Path | None, arg(metavar="FOLDER")]
HtmlFile = Annotated[Path | None, arg(metavar="FILE.html")]
FormatName = Annotated[str, arg(name="format", metavar="NAME")]
CsvFile = Annotated[Path | None, arg(metavar="FILE.csv")]

SHOWN = 40
"""So many predictions are printed; all of them go into a CSV or JSON."""

NO_PROFILE = (
    "this run was made by an earlier version and kept no profile of the target's images: what is unlike anything seen "
    "cannot be told; run it again to know"
)


def predict(
    run: Positional[Path],
    images: Positional[tuple[Path, ...]],
    /,
    *,
    csv: CsvFile = None,
    as_json: Json = False,
    labelled: bool = False,
) -> None:
    """Predict the class of pictures with the model a run ended with.

    Args:
        run: The run's folder.
        images: Picture files, or folders with pictures.
        csv: Write every prediction with all probabilities to this file.
        as_json: Print JSON.
        labelled: Each picture lies in a folder named after its true class: tell the accuracy.
    """
    if not images:
        raise ConfigError("predict: name at least one picture or folder of pictures after the run")
    if not (run / "model.json").is_file():  # an export needs no run beside it
        finished(run)

    from galafed.trained.loading import load

    found = load(run).predict(images)
    accuracy = found.accuracy() if labelled else None
    if csv is not None:
        write_atomically(csv, found.csv().encode())
    if as_json:
        records = found.records()
        sys.stdout.write(json.dumps(records, indent=2) + "\n")
        return
    _show(found, accuracy, csv)


def export(run: Positional[Path], /, *, format_: FormatName = "safetensors", out: Folder = None) -> None:
    """Export the model a run ended with, together with a model card.

    Args:
        run: The run's folder.
        format_: safetensors, onnx, or torch (a torch.export program).
        out: Where to; RUN/export-FORMAT if not given.
    """
    known = tuple(sorted({*entries("galafed.trained.formats"), *plugins("galafed.trained.formats")}))
    if format_ not in known:
        raise ConfigError(unknown("--format", format_, known))
    finished(run)

    from galafed.trained.export import export as write

    folder = write(run, format_, out)
    console().print(f"wrote {folder} ({', '.join(names_in(folder))})", markup=False, highlight=False, soft_wrap=True)


def report(what: Positional[Path], /, *, out: HtmlFile = None, before: Folder = None) -> None:
    """Write a page about a run or a study: one HTML file that needs no network.

    Args:
        what: A run's folder, a study's folder, or a study's name.
        out: Where to; report.html in the folder if not given.
        before: A run whose final model stands for "before adaptation" on the map of features, for example source-only.
    """
    from galafed.report.page.writing import write_report

    path, missing = write_report(what, out, before)
    screen = console()
    if missing:
        screen.print(f"note: {missing}", markup=False, highlight=False, soft_wrap=True)
    screen.print(f"wrote {path}; open it in a browser", markup=False, highlight=False, soft_wrap=True)


def watch(run: Positional[Path], /, *, port: int = 0) -> None:
    """Serve a page about a run on this machine until Ctrl-C; of a run that goes on, the page follows it.

    Args:
        run: The run's folder.
        port: Where to serve it; any free one if 0.
    """
    record(run)

    from galafed.report.serving import PageServer

    server = PageServer(run, port)
    console().print(f"watch it at {server.address} (this machine only); Ctrl-C ends", highlight=False, soft_wrap=True)
    try:
        server.serve()
    except KeyboardInterrupt:
        console().print("no longer served")


def tune(
    benchmark: Positional[Annotated[str, arg(metavar="BENCHMARK")]] = "mini",
    /,
    *,
    target: Annotated[str | None, arg(metavar="NAME")] = None,
    taus: tuple[float, ...] = TAUS,
    scales: tuple[float, ...] = SCALES,
    criterion: Annotated[str, arg(metavar="NAME")] = CRITERION,
    settings: Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="KEY=VALUE")] = (),
    jobs: int = 1,
    out: Folder = None,
    work: Path = Path("runs"),
) -> None:
    """Pick GALA's tau and IGD scale without target labels: run every combination, then ask a label-free criterion.

    Args:
        benchmark: Which benchmark.
        target: The domain without labels.
        taus: Sharpness of the relevance softmax, the values to try.
        scales: Weight of the discrepancy, the values to try.
        criterion: Which criterion picks; all of them are shown.
        settings: Any other setting, as for gala run; may be repeated.
        jobs: How many runs at a time.
        out: Where tune.json and best.toml go; runs/tune-BENCHMARK-TARGET if not given.
        work: Where the runs are kept.
    """
    at_least("--jobs", jobs, 1)
    check_criterion(criterion)
    values: dict[str, Any] = {"benchmark": benchmark} | ({"target": target} if target else {})
    for assignment in settings:
        set_value(values, assignment)
    tried = candidates(values, taus, scales)
    folder = out or work / f"tune-{benchmark}-{tried[0].run.target}"
    path = search(tried, criterion=criterion, work=work, out=folder, jobs=jobs, say=_say)

    from galafed.report.tables import tuning_table

    console().print(tuning_table(json.loads(path.read_bytes())))
    _say(f"picked by {criterion}; go on with 'gala run --config {folder / 'best.toml'}'")


def _say(text: str) -> None:
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def names_in(folder: Path) -> list[str]:
    """The files of a folder, in order of name."""
    return sorted(path.name for path in folder.iterdir())


def _show(found: Predictions, accuracy: float | None, csv: Path | None) -> None:
    from rich.table import Table

    screen = console()
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("image", overflow="fold")
    table.add_column("prediction")
    table.add_column("confidence", justify="right")
    table.add_column("")
    for row in found.rows[:SHOWN]:
        flag = "[yellow]unlike anything seen[/]" if row.unlike else ""
        table.add_row(escape(row.image), escape(row.label), percent(row.confidence), flag)
    screen.print(table)
    if len(found) > SHOWN:
        screen.print(f"… and {len(found) - SHOWN} more; --csv FILE writes all of them", highlight=False)
    unlike = sum(bool(row.unlike) for row in found)
    if not found.tells_unlike:
        screen.print(f"note: {NO_PROFILE}", highlight=False)
    elif unlike:
        screen.print(f"{unlike} of {len(found)} are unlike anything seen: do not rely on these", highlight=False)
    if accuracy is not None:
        screen.print(f"accuracy {percent(accuracy)} of {len(found)} pictures", highlight=False)
    if csv is not None:
        screen.print(f"wrote {csv}", markup=False, highlight=False, soft_wrap=True)


VERBS: dict[str, Callable[..., None]] = {
    "report": report,
    "watch": watch,
    "predict": predict,
    "export": export,
    "tune": tune,
}
