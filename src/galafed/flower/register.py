"""`python -m galafed.flower.register FOLDER`: tell a SuperLink which keys are whose.

The name a node has is the one its key is registered under here, so no site can pass for another one.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from galafed.flower.folder import FlowerFolder, read_folder


def register(folder: FlowerFolder) -> None:
    """Register the key of every site that has none yet."""
    client = ControlHttpClient.from_server_address(
        folder.address,
        insecure=False,
        root_certificates=(folder.server / "ca.crt").read_bytes(),
        interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
    )
    try:
        known = {node.name for node in client.ListNodes(ListNodesRequest()).nodes_info}
        for name in folder.sites:
            if name not in known:
                key = load_ssh_public_key((folder.kit(name) / "node.key.pub").read_bytes())
                pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
                client.RegisterNode(RegisterNodeRequest(public_key=pem, name=name))
    finally:
        client.close()


if __name__ == "__main__":
    register(read_folder(Path(sys.argv[1])))
