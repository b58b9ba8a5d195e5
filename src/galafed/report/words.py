"""Numbers and names as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from galafed.config import Run

NOTHING = 0.02
"""Share of what there is to tell. A model that was hardly trained, and is unsure of all it says, tells more."""


def collapse(summary: Mapping[str, Any]) -> str:
    """What to say of a run whose model gives nearly the same answer to every image of the target; it needs no label."""
    told = summary.get("told")  # runs of old do not say
    if told is None or told >= NOTHING:
        return ""
    return (
        "Its model says nearly the same of every image of the target, so it knows nothing of it. If the losses still "
        "fall, it needs more rounds; else lower training.lr or the weight of the adaptation, such as gala.igd_scale."
    )


def with_note(domain: str, note: str) -> str:
    """A domain's name with what has to be said of it: "syn (regenerated)"."""
    return f"{domain} ({note})" if note else domain


def title(config: Run, notes: Mapping[str, str]) -> str:
    """A run in one line: the algorithm, where it goes and from how many sources."""
    target = with_note(config.target, notes.get(config.target, ""))
    return (
        f"{config.algorithm} · {config.benchmark} → {target} · {len(config.sources)} sources · "
        f"{config.network} · seed {config.seed}"
    )


def percent(value: float | None) -> str:
    """0.7912 -> "79.1 %"."""
    return "-" if value is None else f"{100 * value:.1f} %"


def number(value: float | None) -> str:
    """A number with three decimals, or a dash."""
    return "-" if value is None else f"{value:.3f}"


def megabytes(value: float) -> str:
    """206800000 -> "206.80 MB"; from a thousand on in GB."""
    return f"{value / 1e6:.2f} MB" if value < 1e9 else f"{value / 1e9:.2f} GB"


def duration(seconds: float) -> str:
    """75 -> "1:15"."""
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def bar(share: float, width: int) -> str:
    """A bar of a share of `width` cells, in eighths of a cell."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def sparkline(values: Sequence[float], width: int = 30) -> str:
    """The last values as little columns from 0 to 1."""
    return "".join("▁▂▃▄▅▆▇█"[min(7, int(max(0.0, value) * 8))] for value in values[-width:])
