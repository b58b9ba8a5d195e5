"""From plain values, as TOML and JSON have them, to frozen dataclasses: strict about keys and types, no guessing."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from galafed.errors import ConfigError
from galafed.registry import unknown

T = TypeVar("T")

LARGEST = 2**62
"""Beyond this a number in a configuration is a slip, and some library on the way would overflow."""


def is_finite(value: float) -> bool:
    """Whether a number can be counted with."""
    return -LARGEST <= value <= LARGEST


def build(cls: type[T], values: Any, prefix: str, skip: tuple[str, ...] = ()) -> T:
    """A dataclass from plain values; an unknown key or a wrong type is an error that names the key."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{prefix.rstrip('.')} must be a table of settings, got {values!r}")
    hints = typing.get_type_hints(cls)
    names = tuple(field.name for field in dataclasses.fields(cls) if field.name not in skip)  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            raise ConfigError(unknown("key", f"{prefix}{key}", tuple(prefix + name for name in names)))
    try:
        return cls(**{key: _convert(hints[key], value, key) for key, value in values.items()})
    except ConfigError as error:
        message = str(error)
        raise ConfigError(message if message.startswith(prefix) else prefix + message) from None


def _convert(hint: Any, value: Any, key: str) -> Any:
    """A plain value as the type a field asks for, without guessing."""
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        return build(hint, value, f"{key}.")  # type: ignore[arg-type]
    if origin is Literal:
        if value not in typing.get_args(hint):
            raise ConfigError(f"{key} = {value!r}: accepted are {', '.join(map(str, typing.get_args(hint)))}")
        return value
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(typing.get_args(hint)[0], item, key) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool) and is_finite(value):
        return float(value)
    expected: dict[Any, type | types.UnionType] = {bool: bool, int: int, float: float, str: str}
    if origin is not tuple and isinstance(value, expected[hint]) and (hint is bool) == isinstance(value, bool):
        return value
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    raise ConfigError(f"{key} = {value!r}: must be {words.get(hint, 'a list')}")
