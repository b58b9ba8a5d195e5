"""`python -m galafed.flower.register FOLDER`: tell a SuperLink which keys are whose.

The name a node has is the one its key is registered under here, so no site can pass for another one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from galafed.flower.folder import FlowerFolder


@contextmanager
def _control(folder: FlowerFolder) -> Iterator[ControlHttpClient]:
    client = ControlHttpClient.from_server_address(
        folder.address,
        insecure=False,
        root_certificates=(folder.server / "ca.crt").read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
    )
    try:
        yield client
    finally:
        client.close()


def register(folder: FlowerFolder) -> None:
    """Register the key of every site that has none yet."""
    with _control(folder) as client:
        known = {node.name for node in client.ListNodes(ListNodesRequest()).nodes_info}
        for name in folder.sites:
            if name not in known:
                key = load_ssh_public_key((folder.kit(name) / "node.key.pub").read_bytes())
                pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
                client.RegisterNode(RegisterNodeRequest(public_key=pem, name=name))


def connected(folder: FlowerFolder) -> set[str]:
    """The sites whose nodes are connected now."""
    with _control(folder) as client:
        return {node.name for node in client.ListNodes(ListNodesRequest()).nodes_info if node.status == "online"}


if __name__ == "__main__":
    register(FlowerFolder.read(Path(sys.argv[1])))
