"""What FLARE or Flower carries: a small table, and the payload itself where that is small too, or goes no other way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from galafed.sites.errand import Errand

LARGE = 2**16
"""Payloads of more bytes than this take the line of their own."""
SMALL = 2 * LARGE
"""Bytes of the largest parcel where large payloads have that line."""


def wrap(table: dict[str, Any], content: bytes = b"") -> bytes:
    """A table and bytes as one message."""
    text = json.dumps(table).encode()
    return b"".join((len(text).to_bytes(4, "little"), text, content))


def unwrap(message: bytes) -> tuple[dict[str, Any], bytes]:
    """What `wrap` was given; `ValueError` for any other bytes."""
    length = int.from_bytes(message[:4], "little")
    table = json.loads(message[4 : 4 + length])
    if not isinstance(table, dict):
        raise ValueError("a message without a table")
    return table, message[4 + length :]


def answered(message: bytes, handle: Callable[[bytes], bytes], errand: Errand | None) -> bytes:
    """A site's answer to a parcel, as one: the depot that the parcel names has what is large, both ways."""
    table, body = unwrap(message)
    depot = int(table["port"]) if "port" in table else None
    if depot is not None and errand is None:
        raise ValueError("large payloads have a line of their own here, for which this site has no kit")
    try:
        if errand is not None and depot is not None and "get" in table:
            body = errand.fetch(depot, str(table["get"]))
        del message
        answer = handle(body)
        del body
        if errand is None or depot is None or len(answer) <= LARGE:
            return wrap({}, answer)
        errand.leave(depot, str(table["question"]), answer)
    except OSError as error:
        return wrap({"trouble": f"the line for large payloads: {error}"})
    return wrap({"left": True})
