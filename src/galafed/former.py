"""Configurations of old: settings that came later or have moved leave runs what they were, down to their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

LATER: Mapping[str, Any] = {
    "participation": 1.0,
    "participation_by": "uniform",
    "federation": "",
    "fact.train_all": False,
    "training.extractor_rate": 1.0,
}
"""Settings that came after the first runs; with these values a run is what it was before, down to its name."""

MOVED = {f"{name}.extractor_rate": "training.extractor_rate" for name in ("shot", "sfda")}
"""Settings by the names they had, with those they have now: configurations of old mean what they meant."""

ONCE = {
    **{f"{name}.means_of": "features" for name in ("shot", "sfda")},
    **{f"{name}.syn": "wild" for name in ("digit-five", "digit-18")},
    **{f"{name}.usps": "original" for name in ("digit-five", "digit-18")},
}
"""Settings that were none, with what every run did then: a fingerprint does not tell of them."""


def without_later(values: dict[str, Any], *, kept: Callable[[str], bool]) -> dict[str, Any]:
    """Values without the later settings that are as usual, but for those to be kept; changed in place."""
    for dotted, usual in LATER.items():
        table, _, key = dotted.rpartition(".")
        place = values.get(table, {}) if table else values
        if place.get(key) == usual and not kept(dotted):
            del place[key]
    return values


def with_moved(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with settings under their present names."""
    found = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    for old, new in MOVED.items():
        (table, key), (to, name) = old.split("."), new.split(".")
        place, goal = found.get(table), found.get(to, {})
        if isinstance(place, dict) and key in place and isinstance(goal, dict):
            found[to] = {name: place.pop(key), **goal}
    return found


def as_it_was(values: Mapping[str, Any]) -> dict[str, Any]:
    """A whole configuration that a run has written down: what it does not tell was no setting then, and was so."""
    found = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    for dotted, once in ONCE.items():
        table, key = dotted.split(".")
        if table in (found.get("algorithm"), found.get("benchmark")):
            place = found.setdefault(table, {})
            if isinstance(place, dict):
                place.setdefault(key, once)
    return found


def under_former_names(values: dict[str, Any], algorithm: str, training: object) -> dict[str, Any]:
    """Values of a run as its fingerprint was always made of; changed in place."""
    for former, present in MOVED.items():
        (table, key), (to, name) = former.split("."), present.split(".")
        if table == algorithm:
            values[to].pop(name, None)
            values[table] = values.get(table, {}) | {key: getattr(training, name)}
    for dotted, once in ONCE.items():
        table, key = dotted.split(".")
        if values.get(table, {}).get(key) == once:
            del values[table][key]
            if not values[table]:
                del values[table]
    return values
