"""The verbs of `gala site`: what a site does in its day."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from galafed.errors import ConfigError
from galafed.report.console import console
from galafed.sites.policy import Role

Name = Positional[Annotated[str, arg(metavar="NAME")]]
File = Positional[Annotated[Path, arg(metavar="SITE.toml")]]
Folder = Annotated[Path, arg(metavar="FOLDER")]
Images = Annotated[str, arg(metavar="IMAGES")]


def init(
    name: Name,
    /,
    *,
    kit: Folder,
    role: Role = "source",
    data: Images = "",
    out: Annotated[Path | None, arg(metavar="SITE.toml")] = None,
) -> None:
    """Write a site's own file: who it is, where its images are, and what it allows.

    Args:
        name: The site's name in the federation.
        kit: The folder with its keys, as it came from whoever made the federation.
        role: source (has labels) or target.
        data: A folder of class folders, or a CSV; at a target also a folder of images. If not given, the site has the
            domain of its name in the benchmark of a run, for trying things out.
        out: The file to write; NAME.toml if not given.
    """
    from galafed.sites.site_file import write_site_file

    path = out or Path(f"{name}.toml")
    write_site_file(path, name=name, role=role, kit=kit, data=data)
    _say(f"wrote {path}: read it, for it says what may leave; then 'gala site check {path}'")


def check(site: File, /) -> None:
    """Look at the site's images, try the connection, and say in plain words what would leave the building.

    Args:
        site: The site's file.
    """
    from galafed.sites.checking import check_site
    from galafed.sites.settings import read_settings

    settings = read_settings(site)
    problems = 0
    for line in check_site(settings):
        _say(line.text)
        problems += line.problem
    if problems:
        raise ConfigError(f"{site}: {problems} problem(s) stand above; the site cannot join yet")
    _say(f"all is well; join with 'gala site start {site}'")


def start(site: File, /) -> None:
    """Join: wait for runs and work for them, until stopped with Ctrl-C.

    Args:
        site: The site's file.
    """
    from galafed.sites.settings import read_settings
    from galafed.sites.starting import stay

    stay(site.absolute(), read_settings(site), _say)


VERBS: dict[str, Callable[..., None]] = {"init": init, "check": check, "start": start}


def _say(text: str) -> None:
    console().print(text, markup=False, highlight=False, soft_wrap=True)
