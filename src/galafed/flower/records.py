"""Our bytes as Flower's records.

Each record is an object that Flower moves by itself, so a small message is a single one. A large one is an array, for
Flower cuts arrays into chunks and stores equal chunks once.
"""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from galafed.sites.frames import Bytes

RECORD = "galafed"
SMALL = 2**20


def pack(message: Bytes) -> RecordDict:
    """Bytes as records."""
    if len(message) <= SMALL:
        return RecordDict({RECORD: ConfigRecord({"bytes": bytes(message)})})
    return RecordDict({RECORD: ArrayRecord({"bytes": Array("uint8", (len(message),), "bytes", bytes(message))})})


def unpack(content: RecordDict) -> bytes:
    """What `pack` was given; `ValueError` where these are other records."""
    record = content.get(RECORD)
    found = record.get("bytes") if isinstance(record, ArrayRecord | ConfigRecord) else None
    message = found.data if isinstance(found, Array) else found
    if not isinstance(message, bytes):
        raise ValueError("it sent records that galafed did not write")
    return message
