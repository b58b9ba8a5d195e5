"""The verbs of `gala federation`: bringing sites together."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import tomli_w
from tyro.conf import Positional, arg

from galafed.benchmarks.sites import SitesSettings
from galafed.errors import ConfigError
from galafed.report.console import console
from galafed.runs.files import write_atomically
from galafed.sites.extras import require
from galafed.typed import build

RUN_FILE = "run.toml"
PORTS = {"nvflare": 8002, "flower": 9092}
MAKERS = {"nvflare": "galafed.flare.kits", "flower": "galafed.flower.folder"}

NEXT = """made {folder}: what the server needs, and a kit for each of {count} sites

hand each site its folder, over a channel you trust, and nothing else:
{kits}
each site then makes its own file and joins:
  gala site init NAME --kit KIT --role source --data IMAGES
  gala site check NAME.toml
  gala site start NAME.toml
and you run it:
  gala run --engine {engine} --federation {folder} ...
the server will listen at {address}; {open}."""


def init(
    folder: Positional[Annotated[Path, arg(metavar="FOLDER")]],
    /,
    *,
    sites: str,
    target: str,
    host: str = "127.0.0.1",
    port: int = 0,
    classes: str = "",
    image_size: int = 32,
    engine: Literal["nvflare", "flower"] = "nvflare",
) -> None:
    """Make keys, certificates and start-up kits for named sites.

    Args:
        folder: The new folder of the federation; it holds private keys.
        sites: The labelled sites, with commas between them.
        target: The site without labels.
        host: The name or address under which sites reach the server.
        port: The port the server listens on; 8002 or, of Flower, 9092 if not given.
        classes: What the images show, as all sites name it, with commas; writes run.toml, for sites with own images.
        image_size: To how many pixels a side every site stretches its images.
        engine: Which engine the kits are for.
    """
    require(engine)
    make_federation = importlib.import_module(MAKERS[engine]).make_federation
    port = port or PORTS[engine]
    if not 0 < port < 2**16:
        raise ConfigError(f"--port {port}: must be from 1 to 65535")
    sources = [name for name in _names(sites) if name != target]
    run = _run_file((*sources, target), target, _names(classes), image_size, engine) if classes else ""
    made = make_federation(folder, sources, target, host=host, port=port)
    if run:
        write_atomically(folder / RUN_FILE, run.encode())
        (folder / RUN_FILE).chmod(0o600)
    kits = "\n".join(f"  {name}: {folder / 'sites' / name}" for name in made.sites)
    told = {
        "folder": folder,
        "kits": kits,
        "engine": engine,
        "address": made.address,
        "open": f"ports {port} and {port + 1} have to be open there",
    }
    text = NEXT.format(count=len(made.sites), **told)
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def _run_file(sites: Sequence[str], target: str, classes: Sequence[str], image_size: int, engine: str) -> str:
    """The configuration of runs on the sites' own images."""
    table = {"domains": list(sites), "classes": list(classes), "image_size": image_size}
    build(SitesSettings, table, "sites.")
    values = {"benchmark": "sites", "target": target, "engine": engine, "timeout": 600.0, "sites": table}
    return tomli_w.dumps(values)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


VERBS: dict[str, Callable[..., None]] = {"init": init}
