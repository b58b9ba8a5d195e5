"""Which learning rate, IGD strength and head statistics suit the digits: one setting turned at a time, short runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

from galafed.reproduction.accuracy import AccuracyStudy, Done, Values, last_rounds
from galafed.reproduction.collapse import collapses
from galafed.reproduction.editions import FIRST, OF_FIRST, Edition
from galafed.reproduction.pages import as_json, grid, listed, page, signed, write_files
from galafed.studies.base import studies

CENTRE = "lr 0.01, IGD 1, target statistics"
ROUNDS = 20

JUDGES: Mapping[str, tuple[str, int]] = {
    "information": ("without labels: the most information", +1),
    "entropy": ("without labels: the least entropy", -1),
    "accuracy": ("with the test labels: the highest accuracy (oracle)", +1),
}
"""What a setting is judged by in the last round, in words, and whether more of it is better."""


class Sweep(AccuracyStudy):
    """Settings of GALA on a few targets, one seed, and what each judge would choose of them."""

    seeds: ClassVar[Mapping[str, int]] = {}

    def claims(self, done: Done) -> Iterable[str]:
        """What each judge would choose of the settings that were measured on every target, and what that is worth."""
        measured, rows = {(cell.row, cell.column) for cell, _ in done}, list(self.rows())
        whole = [row for row in rows if all((row, column) in measured for column in self.columns())]
        if told := choices(done, whole, list(self.columns()), self.reference):
            all_of = f"all {len(rows)}" if len(whole) == len(rows) else f"the {len(whole)} of {len(rows)}"
            yield f"Ours: of {all_of} settings that were measured on every target, {told}"
        yield from collapses(done)

    def write(self, folder: Path, done: Done, *, command: str) -> Sequence[Path]:
        """The table, and what each judge would choose."""
        files = super().write(folder, done, command=command)
        found = judged(done, self.columns())
        words = _words(found, list(self.rows()))
        return [*files, *write_files(folder, {"judged.json": as_json(found), "judged.md": words})]


@studies.register("sweep")
class DigitSweep(Sweep):
    """Digit-Five, the two hard targets."""

    title: ClassVar[str] = "A sweep before the tables: learning rate, strength of IGD, head statistics"
    about: ClassVar[str] = (
        f"The centre is {CENTRE}; every other row changes what it names. The paper gives no learning rate, and its "
        "formula and FACT's code differ by a factor of 68 in the strength of the discrepancy."
    )

    reference: ClassVar[str] = CENTRE

    def of_data(self) -> Edition:
        return OF_FIRST

    def rows(self) -> Mapping[str, Values]:
        rates = {f"lr {rate:g}": {"training": {"lr": rate}} for rate in (0.005, 0.02, 0.04)}
        scales = {f"IGD {scale:g}": {"gala": {"igd_scale": scale}} for scale in (0.1, 0.3, 3.0)}
        turned: dict[str, Values] = {
            CENTRE: {},
            **rates,
            **scales,
            "source statistics": {"gala": {"head_statistics": "source"}},
        }
        return {row: {"training": {"lr": 0.01}, **values} for row, values in turned.items()}

    def columns(self) -> Mapping[str, Values]:
        place = {"benchmark": "digit-five", "rounds": ROUNDS, "digit-five": FIRST}
        return {target: {**place, "target": target} for target in ("mnistm", "svhn")}


def judged(done: Done, columns: Collection[str]) -> dict[str, Any]:
    """Each judge's mean over all targets in the last round, by setting, and the setting it prefers."""
    values: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell, summary in done:
        for judge in JUDGES:
            values[judge][cell.row].append(summary["kept"][judge][-1])
    # A setting that was not run on every target has no mean to compare.
    means = {
        judge: {row: round(fmean(each), 5) for row, each in rows.items() if len(each) == len(columns)}
        for judge, rows in values.items()
    }
    best = {judge: max(rows, key=lambda row: JUDGES[judge][1] * rows[row]) for judge, rows in means.items() if rows}
    return {"means": means, "chosen": best}


def choices(done: Done, rows: Sequence[str], targets: Sequence[str], centre: str) -> str:
    """What each judge would choose of some rows, and what that is worth; nothing without a choice, or with a gap."""
    last = last_rounds(done)
    if len(rows) < 2 or not all((row, target) in last for row in {*rows, centre} for target in targets):
        return ""
    chosen = judged([(cell, summary) for cell, summary in done if cell.row in rows], targets)["chosen"]
    told = "; ".join(f"{JUDGES[judge][0]}: *{row}*" for judge, row in chosen.items())
    worth = {f"*{row}*": fmean(last[row, t] - last[centre, t] for t in targets) for row in chosen.values()}
    return f"{told}. Against the centre, mean over targets: {signed(worth)}."


def _words(found: Mapping[str, Any], settings: Sequence[str]) -> str:
    means: Mapping[str, Mapping[str, float]] = found["means"]
    lacking = [row for row in settings if not any(row in rows for rows in means.values())]
    rows = [
        [row, *(f"{means[judge][row]:.4f}" if row in means[judge] else "-" for judge in means)]
        for row in dict.fromkeys(row for judge in means.values() for row in judge)
    ]
    return page(
        "What the sweep chooses",
        "Last round, mean over the targets.",
        grid(["", *means], rows),
        listed(f"{JUDGES[judge][0]}: **{row}**" for judge, row in found["chosen"].items()),
        f"Not measured on every target, so not judged: {'; '.join(lacking)}." if lacking else "",
    )
