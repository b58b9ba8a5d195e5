"""What crosses between server and site, as bytes: one safetensors file a message, everything else in its header.

A request does not name its site, so that one broadcast is encoded once for all; a site knows its own name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load

from galafed.messages import Failure, Held, Reply
from galafed.model import State
from galafed.sites.packing import packed
from galafed.sites.spool import Spooled, SpoolFile
from galafed.work import TASKS, Task

VERSION = 1
KEY = "galafed"
LARGEST_HEADER = 2**24
"""Bytes of a header; the largest network has some hundred tensors, and a name takes about a hundred bytes."""


class WireError(ValueError):
    """Bytes that are no message of ours; says in which way."""


@dataclass(frozen=True)
class Ask:
    """One task in one round: what the site's client is to do, and with what."""

    round: int
    task: Task
    payload: Mapping[str, State | Held]
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Open:
    """The beginning of work on a run: its configuration as plain values, and how many rounds of it are done."""

    config: Mapping[str, Any]
    rounds_done: int


@dataclass(frozen=True)
class Ping:
    """Are you there?"""


@dataclass(frozen=True)
class Opened:
    """The run is accepted; `facts` are plain values about the site, such as how many images it has."""

    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Request:
    """A message to a site. A run that is gone on with is another `attempt`; in it questions are numbered."""

    run: str
    attempt: str
    sequence: int
    body: Ask | Open | Ping


@dataclass(frozen=True)
class Answer:
    """A message from a site, with the numbers of the request it answers."""

    run: str
    attempt: str
    sequence: int
    site: str
    body: Reply | Failure | Opened


def encode(message: Request | Answer) -> bytes:
    """A message as bytes."""
    header: dict[str, Any] = {
        "version": VERSION,
        "run": message.run,
        "attempt": message.attempt,
        "sequence": message.sequence,
    }
    if isinstance(message, Answer):
        header["site"] = message.site
    body, parts = message.body, dict[str, State]()
    if isinstance(body, Ask):
        parts = {name: part for name, part in body.payload.items() if not isinstance(part, Held)}
        header |= {
            "kind": "ask",
            "round": body.round,
            "task": body.task.name,
            "arguments": dict(body.task.arguments),
            "held": {name: part.tag for name, part in body.payload.items() if isinstance(part, Held)},
            "tags": dict(body.tags),
        }
    elif isinstance(body, Open):
        header |= {"kind": "open", "config": dict(body.config), "rounds_done": body.rounds_done}
    elif isinstance(body, Ping):
        header |= {"kind": "ping"}
    elif isinstance(body, Opened):
        header |= {"kind": "opened", "facts": dict(body.facts)}
    elif isinstance(body, Reply):
        parts = dict(body.parts)
        # NaN is no JSON; as text it reaches the seam, which names it.
        metrics = {name: value if math.isfinite(value) else str(value) for name, value in body.metrics.items()}
        header |= {"kind": "reply", "metrics": metrics, "seconds": body.seconds, "holds": list(body.holds)}
    else:
        header |= {"kind": "failure", "task": body.task, "why": body.kind, "reason": body.reason}
    header["parts"] = list(parts)  # of a part without tensors nothing else would tell
    return packed(_flat(parts), {KEY: json.dumps(header, allow_nan=False)})


def decode_request(content: bytes, largest: int | None = None) -> Request:
    """The request that some bytes are; raises `WireError` for any others, or more of them than `largest`."""
    if largest is not None and len(content) > largest:
        raise WireError(f"it has {len(content)} bytes; at most {largest} are accepted")
    header = header_of(content)
    with _described():
        run, attempt, sequence = _ends(header)
        kind = header["kind"]
        if kind == "ping":
            return Request(run, attempt, sequence, Ping())
        if kind == "open":
            return Request(run, attempt, sequence, Open(_table(header, "config"), _count(header, "rounds_done")))
        if kind != "ask":
            raise WireError(f"its kind is {kind!r}, which is no request")
        task = _task(_text(header, "task"), _table(header, "arguments"))
        payload: dict[str, State | Held] = dict(_nested(_tensors(content), header))
        payload |= {name: Held(tag) for name, tag in _texts(header, "held").items()}
        return Request(run, attempt, sequence, Ask(_count(header, "round"), task, payload, _texts(header, "tags")))


def decode_answer(content: bytes | Path, largest: int | None = None) -> Answer:
    """The answer that some bytes, or a file, are; of a file, tensors are read when they are used."""
    size = content.stat().st_size if isinstance(content, Path) else len(content)
    if largest is not None and size > largest:
        raise WireError(f"it has {size} bytes; at most {largest} are accepted")
    header = header_of(content)
    with _described():
        run, attempt, sequence = _ends(header)
        site, kind = _text(header, "site"), header["kind"]
        body: Reply | Failure | Opened
        if kind == "opened":
            body = Opened(_table(header, "facts"))
        elif kind == "failure":
            body = Failure(site, _text(header, "task"), _text(header, "why"), _text(header, "reason"))
        elif kind == "reply":
            metrics = {name: _number(value) for name, value in _table(header, "metrics").items()}
            holds = tuple(str(tag) for tag in header["holds"])
            parts = _spooled(content, header) if isinstance(content, Path) else _nested(_tensors(content), header)
            body = Reply(site, parts, metrics, seconds=_number(header["seconds"]), holds=holds)
        else:
            raise WireError(f"its kind is {kind!r}, which is no answer")
        return Answer(run, attempt, sequence, site, body)


def header_of(content: bytes | Path) -> dict[str, Any]:
    """The header of a message, of our version."""
    tensors = _file_header(content)
    try:
        header = json.loads(tensors["__metadata__"][KEY], parse_constant=_no_constant)
    except (KeyError, TypeError, ValueError, RecursionError):
        raise WireError("its header is not one of ours") from None
    if not isinstance(header, dict):
        raise WireError("its header is not a table")
    if header.get("version") != VERSION:
        raise WireError(f"its version is {header.get('version')!r}, and this program speaks {VERSION}")
    return header


def tensors_of(content: bytes | Path) -> dict[str, list[Any]]:
    """Name, kind of number and shape of every tensor of a message, for a ledger."""
    found = {name: value for name, value in _file_header(content).items() if name != "__metadata__"}
    with _described():
        return {name: [value["dtype"], value["shape"]] for name, value in sorted(found.items())}


def _file_header(content: bytes | Path) -> dict[str, Any]:
    if isinstance(content, Path):
        with content.open("rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            text = file.read(length) if length <= LARGEST_HEADER else b""
    else:
        length = int.from_bytes(content[:8], "little")
        start, text = content[:8], content[8 : 8 + length] if length <= LARGEST_HEADER else b""
    if len(start) < 8 or len(text) < length:
        raise WireError("it is cut short, or no message at all")
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise WireError("its header cannot be read") from None
    if not isinstance(found, dict):
        raise WireError("its header is not a table")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number in JSON")


class _described:
    """Turns what a wrong header does to the code that reads it into a sentence."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None and issubclass(kind, WireError):
            return
        if kind is not None and issubclass(kind, KeyError):
            raise WireError(f"its header lacks {error}") from None
        if kind is not None and issubclass(kind, TypeError | ValueError | AttributeError | OverflowError):
            raise WireError(f"its header is wrong ({error})") from None


def _ends(header: Mapping[str, Any]) -> tuple[str, str, int]:
    return _text(header, "run"), _text(header, "attempt"), _count(header, "sequence")


def _text(header: Mapping[str, Any], key: str) -> str:
    if not isinstance(header[key], str):
        raise WireError(f"{key} is no text")
    return str(header[key])


def _count(header: Mapping[str, Any], key: str) -> int:
    value = header[key]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise WireError(f"{key} is no count")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise WireError("a metric is no number")
    return float(value)


def _table(header: Mapping[str, Any], key: str) -> dict[str, Any]:
    if not isinstance(header[key], dict):
        raise WireError(f"{key} is no table")
    return dict(header[key])


def _texts(header: Mapping[str, Any], key: str) -> dict[str, str]:
    table = _table(header, key)
    if not all(isinstance(value, str) for value in table.values()):
        raise WireError(f"{key} holds something that is no text")
    return table


def _task(name: str, arguments: dict[str, Any]) -> Task:
    """A task by name and plain arguments; a name that no algorithm has is refused."""
    import galafed.sites.known_tasks  # noqa: F401 - fills TASKS with those of every algorithm

    if name not in TASKS:
        raise WireError(f"the task {name!r} is not known here; do both sides have the same version of galafed?")
    try:
        return TASKS[name](**arguments)
    except Exception as error:  # arguments are whatever the other side wrote
        raise WireError(f"the task {name!r} cannot be made from its arguments ({error})") from None


def _flat(parts: Mapping[str, State]) -> dict[str, torch.Tensor]:
    """All tensors by "part|name"; two names for the same memory become two tensors."""
    flat: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for part, state in parts.items():
        for name, value in state.items():
            tensor = value.detach().cpu().contiguous()
            place = tensor.untyped_storage().data_ptr()
            flat[f"{part}|{name}"] = tensor.clone() if place in seen else tensor
            seen.add(place)
    return flat


def _tensors(content: bytes) -> dict[str, torch.Tensor]:
    try:
        return dict(load(content))
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, OverflowError) as error:
        raise WireError(f"its tensors cannot be read ({error})") from None


def _nested(tensors: Mapping[str, torch.Tensor], header: Mapping[str, Any]) -> dict[str, State]:
    parts: dict[str, State] = {str(part): {} for part in header["parts"]}
    for key, value in tensors.items():
        part, _, name = key.rpartition("|")
        if part not in parts:
            raise WireError(f"it has a tensor {key!r} of a part it does not name")
        parts[part][name] = value
    return parts


def _spooled(path: Path, header: Mapping[str, Any]) -> dict[str, State]:
    """Parts whose tensors stay in the file until they are used."""
    try:
        with safe_open(path, framework="pt") as file:
            outline = {key: torch.empty_like(file.get_tensor(key), device="meta") for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise WireError(f"its tensors cannot be read ({error})") from None
    owner = SpoolFile(path)
    return {part: Spooled(owner, part, found) for part, found in _nested(outline, header).items()}
