"""The verbs of `gala data`: looking at data, making it ready, and checking it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from tyro.conf import Positional, arg

from galafed.benchmarks.base import Benchmark, Progress, benchmarks
from galafed.bounds import at_least
from galafed.config import Run, read_toml, resolve
from galafed.errors import ConfigError, DataError
from galafed.registry import unknown
from galafed.report.console import console
from galafed.report.words import with_note

Json = Annotated[bool, arg(name="json")]
Data = Annotated[Path | None, arg(metavar="FOLDER")]
Benchmark_ = Positional[Annotated[str, arg(metavar="NAME")]]
Picture = Annotated[Path | None, arg(metavar="FILE.png")]
MOST_SAMPLES = 1000
"""Images of a class in one picture."""


def list_(*, as_json: Json = False, data: Data = None) -> None:
    """List the benchmarks: what is present, what is missing, and where to get it.

    Args:
        as_json: Print JSON.
        data: Where the data files are; wins over $GALAFED_DATA.
    """
    from galafed.inspection.presence import presence
    from galafed.inspection.tables import presence_table

    use_data(data)
    records = [presence(name) for name in benchmarks.names()]
    if as_json:
        _print_json(records)
    else:
        console().print(presence_table(records))


def prepare(name: Benchmark_, /, *, download: bool = False, data: Data = None) -> None:
    """Make a benchmark ready, once; what is ready already stays as it is.

    Args:
        name: Which benchmark; or your own folder, CSV or configuration file.
        download: First fetch the missing files that can be fetched.
        data: Where the data files are; wins over $GALAFED_DATA.
    """
    use_data(data)
    _, benchmark = opened(name)
    with shown_progress() as progress:
        if download:
            _fetch_missing(benchmark, progress)
        benchmark.prepare(progress)
    console().print(f"{name} is ready: {len(benchmark.domains)} domains", markup=False)


def verify(name: Benchmark_, /, *, as_json: Json = False, data: Data = None) -> None:
    """Check a benchmark: counts, checksums, class histograms, and that no test image is among the training images.

    Args:
        name: Which benchmark; or your own folder, CSV or configuration file.
        as_json: Print JSON.
        data: Where the data files are; wins over $GALAFED_DATA.
    """
    from galafed.inspection.tables import verification_tables
    from galafed.inspection.verifying import verify as look

    use_data(data)
    _, benchmark = opened(name)
    with shown_progress() as progress:
        record = look(benchmark, progress)
    if as_json:
        _print_json(record)
    else:
        console().print(verification_tables(record))
    faults = [f"{domain}: {fault}" for domain, found in record["domains"].items() for fault in found["wrong"]]
    if faults:
        raise DataError(f"{name} is not sound: " + "; ".join(faults))


def preview(
    name: Benchmark_, /, *, out: Picture = None, samples: int = 3, split: str = "train", data: Data = None
) -> None:
    """Draw a contact sheet: domains as rows, classes as columns.

    Args:
        name: Which benchmark; or your own folder, CSV or configuration file.
        out: The picture; NAME-preview.png if not given.
        samples: How many images of each class.
        split: Which images: train or test.
        data: Where the data files are; wins over $GALAFED_DATA.
    """
    from galafed.report.contact_sheet import contact_sheet, pick
    from galafed.runs.files import write_atomically

    at_least("samples", samples, 1)
    if samples > MOST_SAMPLES:
        raise ConfigError(f"samples = {samples}: must be at most {MOST_SAMPLES}, or the picture cannot be drawn")
    if split not in ("train", "test"):
        raise ConfigError(f"--split {split}: accepted are train, test")
    use_data(data)
    _, benchmark = opened(name)
    path = _picture(out, name, "preview")
    rows: dict[str, Mapping[str, Any]] = {}
    with shown_progress() as progress:
        for number, domain_name in enumerate(benchmark.domains):
            progress(domain_name, number, len(benchmark.domains))
            domain = benchmark.load(domain_name)
            rows[with_note(domain_name, domain.note)] = pick(getattr(domain, split), benchmark.classes, samples)
    title = f"{Path(name).name}: {len(benchmark.domains)} domains, {split} images, {benchmark.image_size} pixels a side"
    write_atomically(path, contact_sheet(title, rows, benchmark.classes, samples))
    console().print(f"wrote {path}", markup=False, soft_wrap=True)


def similarity(
    name: Benchmark_,
    /,
    *,
    epochs: int = 15,
    seed: int = 0,
    device: str = "auto",
    out: Picture = None,
    data: Data = None,
) -> None:
    """Train a model on each domain, test it on all, and draw the matrix of accuracies.

    Args:
        name: Which benchmark; or your own folder, CSV or configuration file.
        epochs: Passes over the training images of a domain.
        seed: The seed of every random draw.
        device: cpu, cuda, cuda:N or auto.
        out: The picture, NAME-similarity.png if not given; the numbers go into a .json file of the same name.
        data: Where the data files are; wins over $GALAFED_DATA.
    """
    at_least("epochs", epochs, 1)
    use_data(data)
    run, benchmark = opened(name, seed=seed, device=device)
    path = _picture(out, name, "similarity")

    from galafed.report.heatmap import heatmap
    from galafed.runs.files import write_atomically
    from galafed.similarity import similarity as measure

    with shown_progress() as progress:
        found = measure(benchmark, run, epochs, progress)
    record = {
        "benchmark": name,
        "network": run.network,
        "epochs": epochs,
        "seed": seed,
        "training": run.to_dict()["training"],
        "domains": list(found.domains),
        "notes": found.notes,
        "rows": "trained on",
        "columns": "tested on",
        "accuracy": found.accuracy,
    }
    numbers = path.with_suffix(".json")
    names = [with_note(domain, found.notes[domain]) for domain in found.domains]
    title = f"{Path(name).name}: {run.network} trained on one domain for {epochs} epochs, seed {seed}"
    write_atomically(numbers, (json.dumps(record, indent=1) + "\n").encode())
    write_atomically(path, heatmap(title, names, found.accuracy))
    console().print(f"wrote {path} and {numbers}", markup=False, soft_wrap=True)


def export(
    name: Benchmark_,
    folder: Positional[Annotated[Path, arg(metavar="FOLDER")]],
    /,
    *,
    domains: Annotated[str, arg(metavar="NAMES")] = "",
    data: Data = None,
) -> None:
    """Write a benchmark's images as files, FOLDER/DOMAIN/{train,test}/CLASS/*.png: how your own may lie.

    Args:
        name: Which benchmark.
        folder: A new folder.
        domains: Which domains, with commas between them; all if not given.
        data: Where the data files are; wins over $GALAFED_DATA.
    """
    from galafed.benchmarks.export import export_images

    use_data(data)
    _, benchmark = opened(name)
    chosen = tuple(filter(None, (part.strip() for part in domains.split(",")))) or benchmark.domains
    with shown_progress() as progress:
        count = export_images(benchmark, folder, chosen, progress)
    console().print(f"wrote {count} images of {len(chosen)} domains into {folder}", markup=False, soft_wrap=True)


def inspect(
    folder: Positional[Annotated[Path, arg(metavar="FOLDER")]],
    /,
    *,
    as_json: Json = False,
    write: Annotated[Path | None, arg(metavar="FILE.toml")] = None,
) -> None:
    """Look at your own images and tell what is there; with --write, also write the configuration that runs them.

    Args:
        folder: A folder DOMAIN/CLASS/* or DOMAIN/{train,test}/CLASS/*, or a CSV with the columns path,label,domain.
        as_json: Print JSON.
        write: The configuration file to write.
    """
    from galafed.inspection.configuration import check_writable, write_configuration
    from galafed.inspection.inspecting import inspect_images
    from galafed.inspection.report import describe

    if write is not None:
        check_writable(write)
    with shown_progress() as progress:
        record = inspect_images(folder, progress)
    if record["usable"] and write is not None:
        write_configuration(record, write)
    if as_json:
        _print_json(record | {"written": str(write) if record["usable"] and write is not None else None})
    else:
        screen = console()
        for piece in describe(record):
            screen.print(piece, soft_wrap=True)
        if record["usable"]:
            screen.print(_next(folder, write), markup=False, soft_wrap=True)
    if not record["usable"]:
        raise DataError(f"{folder} cannot be used yet: " + "; ".join(record["problems"]))


VERBS: dict[str, Callable[..., None]] = {
    "list": list_,
    "prepare": prepare,
    "verify": verify,
    "preview": preview,
    "similarity": similarity,
    "export": export,
    "inspect": inspect,
}


def opened(name: str, **values: Any) -> tuple[Run, Benchmark]:
    """How a run would use a benchmark, given by name or, of own images, by folder, CSV or TOML; and the benchmark."""
    if name in benchmarks.names():
        settings: dict[str, Any] = {"benchmark": name}
    elif name.endswith(".toml"):
        settings = read_toml(Path(name))
    elif Path(name).exists():
        settings = {"benchmark": "folder", "folder": {"path": name}}
    else:
        raise ConfigError(
            unknown("benchmark", name, benchmarks.names()) + " Or give the folder, CSV or TOML file of your own images."
        )
    run = resolve(settings | values)
    return run, benchmarks.get(run.benchmark)(run.benchmark_settings)


def use_data(folder: Path | None) -> None:
    """Have data files looked up in a folder, whatever $GALAFED_DATA says."""
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError(f"--data {folder}: there is no such folder")
        os.environ["GALAFED_DATA"] = str(folder.absolute())


@contextlib.contextmanager
def shown_progress() -> Iterator[Progress]:
    """A bar in a terminal; in a pipe a line for each new thing. On standard error, so that output stays clean."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    screen = Console(stderr=True)
    if not screen.is_terminal:
        told: set[str] = set()

        def tell(what: str, done: int, total: int) -> None:
            if what and what not in told:
                told.add(what)
                screen.print(f"{what} …", markup=False, highlight=False)

        yield tell
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, TimeRemainingColumn(), console=screen, transient=True) as bar:
        task = bar.add_task("", total=None)

        def move(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield move


def _fetch_missing(benchmark: Benchmark, progress: Progress) -> None:
    """Fetch the files of missing domains, of those data sets that have an address."""
    from galafed.downloads import SOURCES, fetch

    missing = benchmark.missing()
    for name, source in SOURCES.items():
        if name in missing and source.files:
            fetch(name, progress=progress)


def _picture(out: Path | None, name: str, what: str) -> Path:
    """Where a picture goes; found out before the work is done."""
    path = out or Path(f"{Path(name).stem or 'data'}-{what}.png")
    if path.suffix.lower() != ".png":
        raise ConfigError(f"--out {path}: must end in .png")
    if not path.parent.is_dir():
        raise ConfigError(f"--out {path}: the folder {path.parent} does not exist")
    return path


def _next(folder: Path, written: Path | None) -> str:
    """What to do next."""
    if written is None:
        return f"write the configuration that runs it: gala data inspect {folder} --write FILE.toml"
    return f"wrote {written}; run it: gala run --config {written}"


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
