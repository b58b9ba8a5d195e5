"""The page and the table of `network.py`, from what was measured: results/network."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from galafed.studies.base import commit

FLOORS, SMALL, MODELS, IN_FLIGHT = 4.0, 0.3, 2.5, 1.0
"""Aimed at: floors of a broadcast or a collect, seconds of a small phase, models at the server, and for each reply."""

HEAD = """# The way to the sites and back

{sites} sites on loopback, payloads of {megabytes:g} MB (the paper's digit network), on {cores} cores
({machine}); medians of some repetitions. Made by {commands}.
The load average of the machine and the commit stand beside each engine: take ratios, and those with care
where the machine was not alone.

## Phases

No model is trained: sites answer as many bytes as they are told. The floor is a plain socket copy of the same bytes,
unencrypted, to and from as many processes (a collect into files), measured before and after each engine.

| engine | commit | load | start | small phase | broadcast (floors) | collect (floors) | memory of the run's process |
|---|---|---|---|---|---|---|---|
{phases}

Aimed at: {floors:g} floors, and {small:g} s for a small phase, with NVFlare. {verdict}

"""
ROUNDS = """## Whole rounds

GALA with that network at five sources and a target, twelve images each; `serial` is the same program in one process,
without any payload, and shows what the steps of 25 million parameters take by themselves. Every engine ended with the
same bits: {same}.

| engine | commit | load | start | a round | a round, small network | bytes at the server | models in its memory |
|---|---|---|---|---|---|---|---|
{rounds}

Memory is the largest resident size of each process at the server's side above that of the same run with a small
network; `serial` has its clients in the same process. In Flower's simulation the processes of the run, the SuperLink
and the simulation are the server's, and Ray's, with the workers that hold the simulated sites, are the sites'.

Aimed at: {models:g} models, and {flight:g} for each of the replies in flight. {memory}
"""


def write(folder: Path, table: dict[str, Any]) -> None:
    """Write table.json, with the rows of engines that were not measured this time as they were, and README.md."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "table.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    for kind in ("phases", "rounds"):
        rows = {row["engine"]: row for row in (*before.get(kind, ()), *table[kind])}
        table[kind] = list(rows.values())
    path.write_text(json.dumps(table, indent=1) + "\n")
    (folder / "README.md").write_text(page(table))


def machine() -> dict[str, Any]:
    """Where the figures were made."""
    return {"cores": os.cpu_count(), "machine": platform.machine()}


def circumstances() -> dict[str, Any]:
    """What a row of figures needs beside it."""
    return {
        "commit": commit(),
        "load": os.getloadavg()[0],
        "command": " ".join(["python", "network.py", *sys.argv[1:]]),
    }


def page(table: dict[str, Any]) -> str:
    """The page about a table."""
    rows = (*table["phases"], *table["rounds"])
    text = HEAD.format(
        **{key: table[key] for key in ("sites", "cores", "machine")},
        megabytes=table["bytes"] / 1e6,
        commands=" and ".join(f"`{each}`" for each in sorted({row["command"] for row in rows})),
        phases="\n".join(map(_phase, table["phases"])),
        floors=FLOORS,
        small=SMALL,
        verdict=_verdict(table["phases"]),
    )
    if not table["rounds"]:
        return text
    digests = {row["digest"] for row in table["rounds"]}
    return text + ROUNDS.format(
        rounds="\n".join(map(_round, table["rounds"])),
        same="yes" if len(digests) == 1 else f"NO, {len(digests)} different digests",
        models=MODELS,
        flight=IN_FLIGHT,
        memory=_memory(table["rounds"], table["sites"]),
    )


def _phase(row: dict[str, Any]) -> str:
    down, up = row["broadcast"] / row["broadcast_floor"], row["collect"] / row["collect_floor"]
    cells = (
        f"{row['engine']} | {row['commit']} | {row['load']:.1f} | {row['start']:.1f} s | {row['small']:.3f} s",
        f"{row['broadcast']:.2f} s ({down:.1f}) | {row['collect']:.2f} s ({up:.1f})",
        f"{row['memory_payloads']:.1f} payloads",
    )
    return f"| {' | '.join(cells)} |"


def _verdict(rows: list[dict[str, Any]]) -> str:
    found = [row for row in rows if row["engine"] == "nvflare"]
    if not found:
        return "NVFlare was not measured."
    (row,) = found
    met = {
        "broadcast": row["broadcast"] <= FLOORS * row["broadcast_floor"],
        "collect": row["collect"] <= FLOORS * row["collect_floor"],
        "small phase": row["small"] <= SMALL,
    }
    return "; ".join(f"{name}: {'met' if good else '**not met**'}" for name, good in met.items()) + "."


def _round(row: dict[str, Any]) -> str:
    memory = ", ".join(f"{name} {models:.1f}" for name, models in row["memory_models"].items() if abs(models) >= 0.05)
    cells = (
        f"{row['engine']} | {row['commit']} | {row['load']:.1f} | {row['start']:.1f} s | {row['round']:.1f} s",
        f"{row['small_round']:.2f} s",
        f"{row['bytes']['server'] / 1e6:.0f} MB | {row['memory_models_together']:.1f} ({memory})",
    )
    return f"| {' | '.join(cells)} |"


def _memory(rows: list[dict[str, Any]], replies: int) -> str:
    limit = MODELS + IN_FLIGHT * replies
    kept = [row["engine"] for row in rows if row["memory_models_together"] <= limit and row["engine"] != "serial"]
    above = [row["engine"] for row in rows if row["memory_models_together"] > limit and row["engine"] != "serial"]
    said = [f"Within {limit:g}: {', '.join(kept)}."] if kept else []
    return " ".join([*said, *([f"**Above**: {', '.join(above)}."] if above else [])])
