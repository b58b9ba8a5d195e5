"""A node for Flower's SuperLink that is the site itself: `python -m galafed.flower.node SITE.toml`.

It speaks to the SuperLink with Flower's own client, TLS and key, as `flower-supernode` does, but answers a message in
this process: none is started for it, and of the app that the server ships not a line is executed.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, push_objects
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.run import InvalidRunStatusException, RunNotRunningException
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.fleet_http_connection import http_request_response
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from galafed.flower.patience import pull_pieces
from galafed.flower.place import parcels_for
from galafed.flower.records import pack, unpack
from galafed.flower.worker import Handler
from galafed.runs.files import write_atomically

log = logging.getLogger(__name__)

Keys = tuple[ec.EllipticCurvePrivateKey, ec.EllipticCurvePublicKey]

REFUSED = (Exception, RunNotRunningException, InvalidRunStatusException)
"""What ends one message and not the node; those of Flower that tell of a run which has ended are no `Exception`."""
BUSY, IDLE = 0.1, 1.0
"""Seconds between two looks for a message: soon after one, and after a long silence. Every look costs the SuperLink."""


def serve(address: str, authority: Path, key: Path, make: Callable[[], Handler], note: Path) -> None:
    """Answer the messages of a SuperLink, for ever; where it goes away, wait until it is back. Ends with SIGTERM.

    In the file `note` the node keeps its number at the SuperLink.
    """
    private = load_ssh_private_key(key.read_bytes(), None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{key} is no elliptic-curve key")
    keys = (private, private.public_key())
    broken = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: broken.set())  # so Flower's client says that it was turned away
    handle: Handler | None = None
    while True:
        _sign_off(address, authority, keys, note)
        with http_request_response(
            address, insecure=False, root_certificates=str(authority), authentication_keys=keys
        ) as line:
            write_atomically(note, str(line[0]).encode())
            handle = handle or make()
            for message in _messages(line, broken):
                try:
                    _reply(line, _answer(message, handle))
                except REFUSED:  # its run was stopped, or the SuperLink refused it: the next one may be better
                    log.warning("an answer was not taken", exc_info=True)
        log.warning("the SuperLink broke off; connecting again")
        broken.clear()
        time.sleep(IDLE)


def _answer(message: Message, handle: Handler) -> Message:
    try:
        return Message(pack(handle(unpack(message.content))), reply_to=message)
    except ValueError as error:
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, str(error)), reply_to=message)


def _sign_off(address: str, authority: Path, keys: Keys, note: Path) -> None:
    """Tell the SuperLink that an earlier process of this node is gone; else it would wait a minute for it."""
    if not note.exists():
        return
    said = (RuntimeVersionHttpInterceptor(component_name="SuperNode"), NodeAuthHttpInterceptor(*keys))
    with (
        contextlib.suppress(httpx.HTTPError, RuntimeError, ValueError),
        FleetHttpClient.from_server_address(address, False, str(authority), interceptors=said) as client,
    ):
        client.DeactivateNode(DeactivateNodeRequest(node_id=int(note.read_text())))


def _messages(line: Any, broken: threading.Event) -> Iterator[Message]:
    """Messages as they come, whole, until the line is broken."""
    wait = BUSY
    while not broken.is_set():
        try:
            message = _received(line)
        except REFUSED:  # it was withdrawn while we fetched it
            log.warning("a message was not had", exc_info=True)
            message = None
        if message is None:
            time.sleep(wait)
            wait = min(wait * 1.1, IDLE)
        else:
            yield message
            wait = BUSY


def _received(line: Any) -> Message | None:
    """The next message with all that belongs to it, or nothing."""
    _, receive, _, _, _, pull, _, confirm = line
    if (found := receive()) is None:
        return None
    message, tree = found
    run = message.metadata.run_id
    names = [each.object_id for each in iterate_object_tree(tree)]
    contents = pull_pieces(names, pull_object_fn=partial(pull, run))
    confirm(run, message.metadata.message_id)
    whole = cast(Message, inflate_object_from_contents(tree.object_id, contents))
    whole.metadata.__dict__["_message_id"] = tree.object_id
    return whole


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

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # what a site keeps is written whole
    file = Path(sys.argv[1])
    settings = read_settings(file)
    kit = Path(settings.kit)
    address, state = kit_server(kit, settings.name), state_folder(file)
    state.mkdir(parents=True, exist_ok=True)

    def make() -> Handler:
        return parcels_for(settings, state)  # imports torch, for which the SuperLink need not wait

    serve(address, kit / "ca.crt", kit / "node.key", make, state / "node")


if __name__ == "__main__":
    main()
