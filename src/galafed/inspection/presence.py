"""What is there of a benchmark, what is missing, and where to get it."""

from __future__ import annotations

from typing import Any

from galafed.benchmarks.base import Benchmark, benchmarks
from galafed.benchmarks.store import StoreDamaged, StoreMissing

READY, UNPREPARED, MISSING = "ready", "not prepared", "missing"
"""In the cache or in need of none; to be prepared, or made at first use; without the files it is made from."""


def presence(name: str) -> dict[str, Any]:
    """One benchmark: the state of each domain, its note, and of a missing one where to get it. No image is read."""
    kind = benchmarks.get(name)
    record: dict[str, Any] = {"name": name, "title": kind.title, "domains": {}}
    if not kind.domains:  # a benchmark of the user's own images has none before it is told where they are
        return record
    benchmark = kind()
    notes, missing = benchmark.notes(), benchmark.missing()
    for domain in benchmark.domains:
        state = MISSING if domain in missing else READY if is_ready(benchmark, domain) else UNPREPARED
        record["domains"][domain] = {"state": state, "note": notes.get(domain, ""), "where": missing.get(domain, "")}
    return record


def is_ready(benchmark: Benchmark, domain: str) -> bool:
    """Whether a domain is in the cache, or needs none."""
    store = benchmark.store(domain)
    if store is None:
        return True
    try:
        store.info()
    except (StoreMissing, StoreDamaged):
        return False
    return True
