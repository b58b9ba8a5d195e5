"""Why a site cannot connect: FLARE's sides log a refused certificate nowhere, so it is tried and told here."""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

from galafed.errors import ConfigError
from galafed.flare.kits import kit_server
from galafed.sites.identity import SERVER

SECONDS = 5.0


def try_connection(kit: Path, name: str) -> Iterator[tuple[str, bool]]:
    """Sentences about the kit and the server, each with whether it keeps the site from joining."""
    try:
        address = kit_server(kit, name)
    except ConfigError as error:
        yield str(error), True
        return
    trouble = _about_certificate(kit, name)
    yield trouble or f"the certificate is {name}'s, of this federation, and valid until {_until(kit)}", bool(trouble)
    host, _, port = address.rpartition(":")
    try:
        line = socket.create_connection((host, int(port)), SECONDS)
    except OSError as error:
        yield f"nobody listens at {address} ({error}); that is so while no run is going on", False
        return
    with line:
        refused = _handshake(line, kit)
    yield refused or f"the server at {address} knows this site's certificate", bool(refused)


def _about_certificate(kit: Path, name: str) -> str:
    """What is wrong with the kit's certificate, or nothing."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import NameOID

    startup = kit / "startup"
    try:
        mine = x509.load_pem_x509_certificate((startup / "client.crt").read_bytes())
        authority = x509.load_pem_x509_certificate((startup / "rootCA.pem").read_bytes())
        key = load_pem_private_key((startup / "client.key").read_bytes(), None)
    except (OSError, ValueError) as error:
        return f"the kit {kit} is damaged ({error}); ask for it again"
    owner = mine.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    if owner != name:
        return f"the certificate in {kit} is {owner!r}'s, and this site is {name!r}; use its own kit"
    if key.public_key() != mine.public_key():
        return f"the key in {kit} does not belong to its certificate; ask for the kit again"
    try:
        mine.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return f"the certificate in {kit} is not signed by its authority; ask for the kit again"
    if mine.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
        return f"the certificate in {kit} ended on {mine.not_valid_after_utc:%Y-%m-%d}; ask for a new kit"
    return ""


def _until(kit: Path) -> str:
    from cryptography import x509

    mine = x509.load_pem_x509_certificate((kit / "startup" / "client.crt").read_bytes())
    return f"{mine.not_valid_after_utc:%Y-%m-%d}"


def _handshake(line: socket.socket, kit: Path) -> str:
    """Why TLS with the server fails, or nothing."""
    startup = kit / "startup"
    context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    context.check_hostname = False  # FLARE's servers go by their name in the federation
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    try:
        with context.wrap_socket(line, server_hostname=SERVER) as secure:
            secure.settimeout(1.0)
            try:
                if not secure.recv(1):  # a refusal of our certificate comes after the handshake
                    return "the server hung up after it saw this site's certificate"
            except TimeoutError:
                return ""
    except ssl.SSLCertVerificationError as error:
        return f"the server's certificate is not of this federation ({error.verify_message}); is the address right?"
    except (ssl.SSLError, OSError) as error:
        return f"the server refuses this site ({error}); was the federation made anew since the kit was handed out?"
    return ""
