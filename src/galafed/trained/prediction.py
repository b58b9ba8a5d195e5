"""What was predicted, for people (a table), for programs (CSV, plain values), and held against true classes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from galafed.errors import DataError
from galafed.registry import unknown


@dataclass(frozen=True)
class Prediction:
    """One picture: its most probable class, how probable it and the others are, and how familiar the picture is."""

    image: str
    label: str
    confidence: float
    probabilities: tuple[float, ...]
    distance: float | None
    """From the target's nearest class centroid; above 1 it is farther than about 99 % of the target's own images."""

    @property
    def unlike(self) -> bool | None:
        """Whether the picture is unlike anything the target held; None where the run kept no profile."""
        return None if self.distance is None else self.distance > 1


@dataclass(frozen=True)
class Predictions:
    """Predictions in the order of the pictures."""

    rows: tuple[Prediction, ...]
    classes: tuple[str, ...]
    tells_unlike: bool

    def __iter__(self) -> Iterator[Prediction]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Prediction:
        return self.rows[number]

    @property
    def labels(self) -> list[str]:
        """The predicted classes alone."""
        return [row.label for row in self.rows]

    def records(self) -> list[dict[str, Any]]:
        """Plain values, for JSON."""
        return [
            {
                "image": row.image,
                "prediction": row.label,
                "confidence": row.confidence,
                "unlike_anything_seen": row.unlike,
                "distance": row.distance,
                "probabilities": dict(zip(self.classes, row.probabilities, strict=True)),
            }
            for row in self.rows
        ]

    def csv(self) -> str:
        """A line for each picture, with a column for the probability of every class."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        heads = [f"p({name})" for name in self.classes]
        writer.writerow(["image", "prediction", "confidence", "unlike_anything_seen", "distance", *heads])
        for row in self.rows:
            unlike = "" if row.unlike is None else str(row.unlike).lower()
            distance = "" if row.distance is None else f"{row.distance:.4f}"
            shares = [f"{p:.6f}" for p in row.probabilities]
            writer.writerow([row.image, row.label, f"{row.confidence:.6f}", unlike, distance, *shares])
        return text.getvalue()

    def accuracy(self) -> float:
        """The share that is right where each picture lies in a folder named after its true class."""
        right = 0
        for row in self.rows:
            truth = Path(row.image).parent.name
            if truth not in self.classes:
                raise DataError(f"{row.image}: {unknown('class', truth, self.classes)}")
            right += row.label == truth
        return right / len(self.rows)
