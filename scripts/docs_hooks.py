"""What the documentation is made of besides its pages: the help of every verb, and links that leave the folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?:\.\./)+[^)#]+)(#[^)]*)?\)")
PICTURE = re.compile(r"(!\[[^\]]*\]\()\.\./((?:\.\./)*results/[^)]+\.png\))")
MARKER = "<!-- the help of every verb -->"


def on_files(files: Files, *, config: Any) -> Files:
    """Pictures of results are shown by pages, though they lie beside the documentation: the site has them too."""
    for picture in sorted((ROOT / "results").rglob("*.png")):
        files.append(File.generated(config, picture.relative_to(ROOT).as_posix(), abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill in the help; name files of the repository instead of linking to them, for the site does not hold them."""
    if MARKER in markdown:
        markdown = markdown.replace(MARKER, "\n".join(map(help_of, verbs())))
    markdown = PICTURE.sub(r"\1\2", markdown)  # in the site, results are a folder of the documentation
    here = (ROOT / "docs" / page.file.src_uri).parent

    def named(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(here / match.group(2)))
        if target.is_relative_to(ROOT / "docs"):
            return match.group(0)
        if not target.exists():
            raise FileNotFoundError(f"{page.file.src_uri} links to {match.group(2)}, which is not there")
        text, path = match.group(1), target.relative_to(ROOT).as_posix()
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return LINK.sub(named, markdown)


def verbs() -> list[str]:
    """Every verb of `gala`, those of `gala data` among them."""
    from galafed import cli, cli_data

    return [v for v in cli.VERBS if v != "data"] + [f"data {v}" for v in cli_data.VERBS]


def help_of(verb: str) -> str:
    """A heading and the help as it is printed."""
    command = [sys.executable, "-m", "galafed", *verb.split(), "--help"]
    environment = os.environ | {"COLUMNS": "76", "NO_COLOR": "1", "TERM": "dumb"}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return f"## gala {verb}\n\n```text\n{told.strip()}\n```\n"
