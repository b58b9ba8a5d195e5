"""Who a party is on the line for large payloads: a certificate of the federation's authority, and its key."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVER = "server"
"""The name of the server in its certificate, which no site can have."""


@dataclass(frozen=True)
class Identity:
    """The files of a party's kit that it shows itself with."""

    authority: Path
    certificate: Path
    key: Path

    def context(self, side: int) -> ssl.SSLContext:
        """TLS 1.3 where both sides show a certificate of the federation's authority."""
        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # names in the federation are checked instead
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context


def name_of(line: ssl.SSLSocket) -> str:
    """The name in the other side's certificate."""
    certificate: Any = line.getpeercert() or {}
    names = [value for field in certificate.get("subject", ()) for key, value in field if key == "commonName"]
    if len(names) != 1:
        raise ValueError("a certificate without a name")
    return str(names[0])
