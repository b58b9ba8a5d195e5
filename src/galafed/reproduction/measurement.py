"""A study whose numbers are no runs' accuracies: pieces of work measured in this process, each kept once it is done."""

from __future__ import annotations

import hashlib
import json
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from galafed.errors import ConfigError, DataError
from galafed.runs.files import one_at_a_time, require_writable, write_atomically
from galafed.runs.records import MEND, lines_of
from galafed.studies.base import Desk, Reproducible, commit

if TYPE_CHECKING:
    import torch

FILE = "measured.jsonl"

Record = Mapping[str, Any]
"""A measured piece: `unit` and `settings` tell what, `found` the result, the rest where and from which commit."""


@dataclass(frozen=True)
class Unit:
    """One piece of work: its name, and everything else that decides its outcome, as plain values."""

    name: str
    settings: Mapping[str, Any]

    def recipe(self) -> str:
        """A fingerprint of the piece."""
        return _recipe(self.name, self.settings)


class Measurement(Reproducible):
    """Units of work, one after the other; an interrupted study goes on with the first that is missing."""

    @abstractmethod
    def units(self, device: str) -> Sequence[Unit]:
        """The pieces of work on this kind of device: cpu or cuda."""

    @abstractmethod
    def measure(self, unit: Unit, device: torch.device) -> Mapping[str, Any]:
        """Do one piece; what is found, as plain values."""

    @abstractmethod
    def write(self, folder: Path, records: Sequence[Record], *, command: str) -> Sequence[Path]:
        """Write the table or picture of the pieces that are done."""

    def carry_out(self, desk: Desk) -> Sequence[Path]:
        """Measure what is missing and write down each piece at once, then the table."""
        from galafed.runs.assembly import pick_device
        from galafed.runs.summary import machine

        if "engine" in desk.place:
            raise ConfigError(
                f"--engine {desk.place['engine']}: {self.name} has no runs to move to another engine; leave it out, or "
                "see whether the study has a setting for it (--set engine=…)"
            )
        folder, started = desk.out / self.name, time.monotonic()
        known = archived(folder)
        if desk.table:
            return self._written(desk, known, self.units(self._measured_on(known)))
        device = pick_device(desk.place.get("device", "auto"))
        if device.index is not None:  # units know the kind of device alone
            import torch

            torch.cuda.set_device(device)
        units = self.units(device.type)
        todo = [unit for unit in units if unit.recipe() not in known]
        desk.say(f"{self.title}: {len(units)} pieces, {len(units) - len(todo)} measured, {len(todo)} to do")
        if todo:
            require_writable(desk.out)
        for number, unit in enumerate(todo, start=1):
            if desk.minutes and time.monotonic() - started > 60 * desk.minutes:
                desk.say(f"{len(todo) - number + 1} pieces are still missing; the table shows what there is")
                break
            begun = time.monotonic()
            found = self.measure(unit, device)
            seconds = time.monotonic() - begun
            record = {
                "unit": unit.name,
                "settings": dict(unit.settings),
                "found": dict(found),
                "device": _device_name(device),
                "machine": machine(),
                "commit": commit(),
                "seconds": round(seconds, 2),
            }
            known = _add(folder, unit.recipe(), record)
            desk.say(f"{number}/{len(todo)}  {unit.name}  {seconds:.1f} s")
        return self._written(desk, known, units)

    def _written(self, desk: Desk, known: Mapping[str, Record], units: Sequence[Unit]) -> Sequence[Path]:
        folder = desk.out / self.name
        where = f" --device {desk.place['device']}" if "device" in desk.place else ""
        if not any(unit.recipe() in known for unit in units):
            desk.say(f"nothing was measured yet, so there is no table; gala reproduce {self.name} measures")
            return [folder / FILE] if known else []
        with one_at_a_time(folder):  # another command may have added pieces, or write its table now
            known = archived(folder)
            done = [known[key] for unit in units if (key := unit.recipe()) in known]
            return [*self.write(folder, done, command=self.command(desk) + where), folder / FILE]

    def _measured_on(self, known: Mapping[str, Record]) -> str:
        """The kind of device that more was measured on."""
        return max(("cuda", "cpu"), key=lambda kind: sum(unit.recipe() in known for unit in self.units(kind)))

    def progress(self, out: Path) -> tuple[int, int]:
        known = archived(out / self.name)
        units = self.units(self._measured_on(known))
        return sum(unit.recipe() in known for unit in units), len(units)


def archived(folder: Path) -> dict[str, Record]:
    """What was measured so far, by recipe."""
    path = folder / FILE
    found: dict[str, Record] = {}
    for number, text in enumerate(lines_of(path), start=1):
        try:
            record = json.loads(text)
            found[_recipe(record["unit"], record["settings"])] = record
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path}, line {number}: is no measurement; {MEND}") from None
    return found


def _add(folder: Path, recipe: str, record: Record) -> dict[str, Record]:
    """Put a piece beside those that are there by now, which stay; returns all."""
    with one_at_a_time(folder):
        known = archived(folder)
        known.setdefault(recipe, record)
        write_atomically(folder / FILE, "".join(json.dumps(each) + "\n" for each in known.values()).encode())
    return known


def _recipe(name: str, settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([name, settings], sort_keys=True).encode()).hexdigest()


def _device_name(device: torch.device) -> str:
    if device.type != "cuda":
        return device.type
    import torch

    return f"cuda, {torch.cuda.get_device_name(device)}"
