"""What a site allows, whatever the server asks: which tasks, which parts may leave, how many bytes a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from galafed.bounds import at_least
from galafed.model import kind_of

Role = Literal["source", "target"]

TASKS: Mapping[Role, tuple[str, ...]] = {
    "source": ("hold", "centroids", "train", "tune", "disentangle"),
    "target": (
        *("hold", "centroids", "align", "evaluate", "profile", "consensus", "weighted_vote", "distill", "refresh"),
        *("centroids_under", "first_means", "better_means", "nearest_means", "adapt_extractors"),
        *("cluster_target", "confront"),
    ),
}
"""What a site does unless it says otherwise: states, class centroids and sums leave it, nothing about single images."""

WANTED: Mapping[str, str] = {
    "share_features": "features of single images leave the site (FADA)",
    "train": "at a target: training on its own labels (the oracle)",
}
"""Tasks that a site has to allow by name, and why."""

PARTS = (
    *("extractor", "predictor", "statistics", "centroids", "discriminator"),
    *("seen", "tested", "profile", "focus", "gap"),
)
"""Kinds of parts that may leave unless the site says otherwise."""


class PolicyError(Exception):
    """What was asked for is outside the site's policy; says what, and which line would allow it."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The limits of one site; an empty list stands for the usual ones of its role."""

    tasks: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    megabytes_a_round: float = 0.0
    """Of what leaves; 0 sets no limit."""

    def __post_init__(self) -> None:
        at_least("megabytes_a_round", self.megabytes_a_round, 0)

    def check_task(self, name: str, role: Role) -> None:
        """Refuse a task that is not allowed."""
        if name not in (self.tasks or TASKS[role]):
            why = f": {WANTED[name]}" if name in WANTED else ""
            raise PolicyError(f"its policy does not allow the task {name!r}{why}; allow.tasks in its TOML lists them")

    def check_parts(self, parts: Mapping[str, object]) -> None:
        """Refuse to send a part that is not allowed."""
        for part in parts:
            if kind_of(part) not in (self.parts or PARTS):
                raise PolicyError(f"its policy does not let {part!r} leave; allow.parts in its TOML lists what may")

    def check_bytes(self, sent: int, more: int) -> None:
        """Refuse to send more in a round than is allowed."""
        limit = self.megabytes_a_round * 1e6
        if limit and sent + more > limit:
            raise PolicyError(
                f"its policy lets {self.megabytes_a_round:g} MB leave in a round; with this answer it would be "
                f"{(sent + more) / 1e6:.1f} MB (allow.megabytes_a_round)"
            )


EVERYTHING = Policy(
    tasks=tuple(sorted({*TASKS["source"], *TASKS["target"], *WANTED})),
    parts=(*PARTS, "bank"),
)
"""For a federation that only lives on one machine: whatever an algorithm asks."""
