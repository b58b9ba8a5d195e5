"""Our bytes as Flower's records: an array, for Flower cuts arrays into chunks and stores equal chunks once."""

from __future__ import annotations

from flwr.app import Array, ArrayRecord, RecordDict

from galafed.sites.frames import Bytes

RECORD = "galafed"


def pack(message: Bytes) -> RecordDict:
    """Bytes as records."""
    return RecordDict({RECORD: ArrayRecord({"bytes": Array("uint8", (len(message),), "bytes", bytes(message))})})


def unpack(content: RecordDict) -> bytes:
    """What `pack` was given; `ValueError` where these are other records."""
    record = content.get(RECORD)
    if not isinstance(record, ArrayRecord) or "bytes" not in record:
        raise ValueError("it sent records that galafed did not write")
    return record["bytes"].data
