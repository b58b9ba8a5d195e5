"""Tables for people: a run's summary, runs side by side, and lists of what there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from galafed.report.words import bar, collapse, megabytes, percent, with_note

if TYPE_CHECKING:
    from galafed.reproduction.checking import Checked


def summary_table(summary: Mapping[str, Any]) -> Table:
    """One run: its three accuracies, relevance, time and traffic."""
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    accuracy = summary["accuracy"]
    notes = summary["notes"]
    target = with_note(summary["target"], notes.get(summary["target"], ""))
    table.add_row(
        "target", f"{escape(target)} ({summary['benchmark']}, {summary['algorithm']}, seed {summary['seed']})"
    )
    table.add_row("accuracy, last round", f"[bold green]{percent(accuracy['last'])}[/]")
    if warning := collapse(summary):
        table.add_row("[red]caution[/]", f"[red]{warning}[/]")
    for criterion, pick in summary["selection"].items():
        table.add_row(
            f"accuracy, picked by {criterion}", f"{percent(pick['accuracy'])} (round {pick['round']}, no labels used)"
        )
    table.add_row(
        "accuracy, best round",
        f"{percent(accuracy['best_oracle'])} (round {summary['best_oracle_round']}, [red]oracle[/]: uses test labels)",
    )
    for source, weight in sorted(summary["relevance"].items(), key=lambda item: -item[1]):
        table.add_row(
            f"relevance of {escape(with_note(source, notes.get(source, '')))}",
            Text(f"{weight:.3f} {bar(weight, 40)}", style="cyan"),
        )
    traffic = summary["bytes"]
    for who in ("source", "target", "server"):
        extra = (
            f" ({megabytes(traffic['all'][who])} with the target's summaries)"
            if traffic["all"][who] != traffic[who]
            else ""
        )
        table.add_row(f"traffic a round, {who}", megabytes(traffic[who]) + extra)
    table.add_row(
        "time", f"{summary['seconds_per_round']:.2f} s a round on {summary['device']}, engine {summary['engine']}"
    )
    if summary["failures"]:
        table.add_row("failures", f"{summary['failures']} (named in metrics.jsonl)")
    table.add_row("digest", summary["digest"][:16])
    return table


def checked_table(cells: Sequence[Checked], seed: int) -> Table:
    """Cells that were run again: what was measured, the new run, and how far apart they are."""
    near = sum(abs(round(cell.difference, 1)) <= 1 for cell in cells)  # as it is shown
    spread = [abs(cell.difference) <= 2 * cell.deviation for cell in cells if len(cell.measured) > 1]
    caption = f"{near} of {len(cells)} within 1 point"
    if spread:
        caption += f", {sum(spread)} of {len(spread)} within two standard deviations of several seeds"
    table = Table(title="accuracy of the last round, %", caption=caption)
    table.add_column("row")
    table.add_column("column")
    for head in ("measured", f"seed {seed}", "difference"):
        table.add_column(head, justify="right")
    for cell in cells:
        seeds = f"± {cell.deviation:.1f} ({len(cell.measured)} seeds)" if len(cell.measured) > 1 else "(1 seed)"
        measured = f"{cell.mean:.1f} {seeds}"
        table.add_row(escape(cell.row), escape(cell.column), measured, f"{cell.again:.1f}", f"{cell.difference:+.1f}")
    return table


NARROW = 110
"""Below this many columns a comparison leaves out what matters least, and folds the names of runs."""


def comparison_table(rows: Sequence[Mapping[str, Any]], width: int = 160) -> Table:
    """Runs side by side, on a terminal of so many columns."""
    wide = width >= NARROW
    table = Table(box=None, padding=(0, 2) if wide else (0, 1), header_style="dim")
    table.add_column("run", overflow="fold")
    table.add_column("target", overflow="fold")
    for heading in ("algorithm", "seed", *(["rounds"] if wide else [])):
        table.add_column(heading, no_wrap=True)
    accuracies = ("last round", "label-free pick", "best (oracle)") if wide else ("last", "pick", "oracle")
    for heading in (*accuracies, *(["s/round"] if wide else [])):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        accuracy = row["accuracy"]
        table.add_row(
            escape(row["run"]),
            escape(with_note(row["target"], row["notes"].get(row["target"], ""))),
            row["algorithm"],
            str(row["seed"]),
            *([str(row["rounds"])] if wide else []),
            f"[bold]{percent(accuracy['last'])}[/]",
            percent(accuracy["selected"]),
            percent(accuracy["best_oracle"]),
            *([f"{row['seconds_per_round']:.2f}"] if wide else []),
        )
    return table


def tuning_table(record: Mapping[str, Any]) -> Table:
    """Every combination that was tried, whom each criterion picked, and, marked as an oracle, the accuracy."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for key in record["picked"]:
        table.add_column(key, justify="right")
    table.add_column("picked by")
    table.add_column("accuracy (oracle)", justify="right")
    for run in record["runs"]:
        fans = [name for name, settings in record["picks"].items() if settings == run["settings"]]
        shown = ", ".join(f"[bold]{name}[/]" if name == record["criterion"] else name for name in fans)
        style = "bold green" if run["settings"] == record["picked"] else None
        table.add_row(*(f"{v:g}" for v in run["settings"].values()), shown, percent(run["accuracy"]), style=style)
    return table


def _cell(value: Any) -> str:
    """A value of a list for people, whatever it holds."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape(", ".join(value) if isinstance(value, list | tuple) else str(value))


def listing(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Any list of records with the same keys."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for key in rows[0] if rows else ("nothing here",):
        table.add_column(key)
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    return table
