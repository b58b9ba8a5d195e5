"""What FLARE carries: a small table, and the payload itself where that is small too."""

from __future__ import annotations

import json
from typing import Any


def wrap(table: dict[str, Any], content: bytes = b"") -> bytes:
    """A table and bytes as one message."""
    text = json.dumps(table).encode()
    return len(text).to_bytes(4, "little") + text + content


def unwrap(message: bytes) -> tuple[dict[str, Any], bytes]:
    """What `wrap` was given; `ValueError` for any other bytes."""
    length = int.from_bytes(message[:4], "little")
    table = json.loads(message[4 : 4 + length])
    if not isinstance(table, dict):
        raise ValueError("a message without a table")
    return table, message[4 + length :]
