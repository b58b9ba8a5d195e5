"""Exporting a classifier: its file in the format asked for, a description for programs, a model card for people."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from galafed.errors import ConfigError
from galafed.runs.files import explained, new_folder, write_durably
from galafed.trained.card import model_card
from galafed.trained.formats.base import formats
from galafed.trained.loading import load
from galafed.trained.package import DESCRIPTION, described

CARD = "README.md"


def export(run: Path, format_name: str, out: Path | None = None) -> Path:
    """Write the export of a run into a folder, which appears complete or not at all, and return the folder."""
    made = formats.get(format_name)()
    folder = out or run / f"export-{format_name}"
    ours = (folder / DESCRIPTION).is_file() and (folder / CARD).is_file()
    if not ours and (folder.is_file() or (folder.is_dir() and any(folder.iterdir()))):
        raise ConfigError(f"--out {folder}: is there already and no earlier export; name a new folder")
    trained = load(run)
    description = described(trained.classifier, trained.summary, trained.classes, trained.image_size)
    with explained(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        if ours:
            shutil.rmtree(folder)
    with new_folder(folder) as temporary:
        made.write(trained, temporary)
        write_durably(temporary / DESCRIPTION, (json.dumps(description, indent=2) + "\n").encode())
        write_durably(temporary / CARD, model_card(trained, made.use).encode())
    return folder
