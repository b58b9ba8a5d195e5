"""A node for Flower's SuperLink that is the site itself: `python -m galafed.flower.node SITE.toml`.

It speaks to the SuperLink with Flower's own client, TLS and key, as `flower-supernode` does, but answers a message in
this process: none is started for it, and of the app that the server ships not a line is executed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Message
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects, push_objects
from flwr.supercore.run import RunNotRunningException
from flwr.supernode.fleet_http_connection import http_request_response

from galafed.flower.records import pack, unpack
from galafed.flower.worker import Handler

BUSY, IDLE = 0.05, 1.0
"""Seconds between two looks for a message: soon after one, and after a long silence."""


def serve(address: str, authority: Path, key: Path, handle: Handler) -> None:
    """Answer the messages of a SuperLink, for ever; where it goes away, wait until it is back."""
    private = load_ssh_private_key(key.read_bytes(), None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{key} is no elliptic-curve key")
    with http_request_response(
        address, insecure=False, root_certificates=str(authority), authentication_keys=(private, private.public_key())
    ) as line:
        for message in _messages(line):
            with contextlib.suppress(RunNotRunningException):  # it was stopped while we worked
                _reply(line, Message(pack(handle(unpack(message.content))), reply_to=message))


def _messages(line: Any) -> Iterator[Message]:
    """Messages as they come, whole."""
    _, receive, _, _, _, pull, _, confirm = line
    wait = BUSY
    while True:
        with contextlib.suppress(RunNotRunningException):
            if (found := receive()) is not None:
                wait = BUSY
                message, tree = found
                run = message.metadata.run_id
                names = [each.object_id for each in iterate_object_tree(tree)]
                contents = pull_objects(names, pull_object_fn=partial(pull, run))
                confirm(run, message.metadata.message_id)
                whole = cast(Message, inflate_object_from_contents(tree.object_id, contents))
                whole.metadata.__dict__["_message_id"] = tree.object_id
                yield whole
                continue
        time.sleep(wait)
        wait = min(wait * 1.02, IDLE)


def _reply(line: Any, message: Message) -> None:
    _, _, send, _, _, _, push, _ = line
    message.metadata.__dict__["_message_id"] = message.object_id
    run = message.metadata.run_id
    objects = get_all_nested_objects(message)
    missing, session = send(message, get_object_tree(message), 0.0)
    push_objects(objects, push_object_fn=partial(push, run, session), object_ids_to_push=missing)


def main() -> None:
    """The program of a site that joins a Flower federation."""
    from galafed.flower.folder import kit_server
    from galafed.sites.settings import read_settings, state_folder
    from galafed.sites.site import Site

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # what a site keeps is written whole
    file = Path(sys.argv[1])
    settings = read_settings(file)
    kit = Path(settings.kit)
    address = kit_server(kit, settings.name)
    serve(address, kit / "ca.crt", kit / "node.key", Site(settings, state_folder(file)).handle)


if __name__ == "__main__":
    main()
