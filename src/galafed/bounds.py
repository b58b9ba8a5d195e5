"""What a setting may be: each refuses a value that it must not have, naming the key and what is accepted."""

from __future__ import annotations

import re
from collections.abc import Sequence

from galafed.errors import ConfigError
from galafed.registry import unknown
from galafed.typed import LARGEST, is_finite


def positive(key: str, value: float) -> None:
    """Refuse a setting that is not a finite number greater than zero."""
    if not (is_finite(value) and value > 0):
        raise ConfigError(f"{key} = {value}: must be a number greater than 0{_and_not_too_large(value)}")


def at_least(key: str, value: float, least: float) -> None:
    """Refuse a setting below a bound, or too large to count with."""
    if not (is_finite(value) and value >= least):
        raise ConfigError(f"{key} = {value}: must be {least} or more{_and_not_too_large(value)}")


def between(key: str, value: float, low: float, high: float) -> None:
    """Refuse a setting that does not lie strictly between two bounds."""
    if not low < value < high:
        raise ConfigError(f"{key} = {value}: must lie between {low} and {high}, both excluded")


def fraction(key: str, value: float) -> None:
    """Refuse a setting that is not a share of something that must not be all of it."""
    if not 0 <= value < 1:
        raise ConfigError(f"{key} = {value}: must be at least 0 and below 1")


def share(key: str, value: float) -> None:
    """Refuse a setting that is not a share of something, which may be all of it."""
    if not 0 < value <= 1:
        raise ConfigError(f"{key} = {value}: must be above 0 and at most 1")


def known(key: str, value: str, accepted: Sequence[str]) -> None:
    """Refuse a name that there is not; the nearest one is told."""
    if value not in accepted:
        raise ConfigError(unknown(key, value, tuple(accepted)))


def check_device(key: str, value: str) -> None:
    """Refuse what is no name of a device."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", value):
        raise ConfigError(f"{key} = {value!r}: accepted are auto, cpu, cuda, cuda:N")


def check_engine(key: str, value: str) -> None:
    """Refuse an engine that there is not."""
    from galafed.engines.base import engines

    known(key, value, engines.names())


def _and_not_too_large(value: float) -> str:
    return f", and at most {LARGEST:g}" if value > LARGEST else ""
