"""Whether a site can connect to the SuperLink of its kit, told in sentences."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

from galafed.errors import ConfigError
from galafed.flower.folder import identity_in, kit_server

SECONDS = 5.0


def try_connection(kit: Path, name: str) -> Iterator[tuple[str, bool]]:
    """Sentences about the kit and the SuperLink, each with whether it keeps the site from joining."""
    try:
        address = kit_server(kit, name)
        context = ssl.create_default_context(cafile=str(kit / "ca.crt"))
        identity_in(kit, "client").context(ssl.PROTOCOL_TLS_CLIENT)
        (kit / "node.key").read_bytes()
    except ConfigError as error:
        yield str(error), True
        return
    except OSError as error:
        yield f"the kit {kit} is damaged ({error}); ask for it again", True
        return
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), SECONDS) as line:
            context.wrap_socket(line, server_hostname=host).close()
    except ssl.SSLError as error:
        yield f"who listens at {address} is not the SuperLink of this federation ({error.reason})", True
    except OSError as error:
        yield f"nobody listens at {address} ({error}); that is so while no run is going on", False
    else:
        yield (
            f"the SuperLink at {address} is this federation's; whether it knows the site's key shows at joining",
            False,
        )
