"""Keys and certificates of a Flower federation: an authority, the server's certificate, and those of each node."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from galafed.sites.identity import SERVER

DAYS = 365
AUTHORITY = "galafed federation"


def make_certificates(folder: Path, host: str, kits: Mapping[str, Path] | None = None) -> None:
    """An authority (its key is not kept), a certificate of the server at one address, and one of each site in its kit.

    The server's are ca.crt, server.crt and server.key; in a kit they are ca.crt, client.crt and client.key.
    """
    authority_key, server_key = _key(), _key()
    authority = _pem_of(_certificate(AUTHORITY, authority_key, authority_key))
    server = _certificate(SERVER, server_key, authority_key, side=ExtendedKeyUsageOID.SERVER_AUTH, host=host)
    write_private(folder / "server.key", _pem(server_key))
    (folder / "server.crt").write_bytes(_pem_of(server))
    (folder / "ca.crt").write_bytes(authority)
    for name, kit in (kits or {}).items():
        key = _key()
        write_private(kit / "client.key", _pem(key))
        site = _certificate(name, key, authority_key, side=ExtendedKeyUsageOID.CLIENT_AUTH)
        (kit / "client.crt").write_bytes(_pem_of(site))
        (kit / "ca.crt").write_bytes(authority)


def make_node_key(folder: Path) -> None:
    """The key a node proves itself with, as OpenSSH writes it: node.key and node.key.pub."""
    key = _key()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    write_private(folder / "node.key", private)
    (folder / "node.key.pub").write_bytes(public + b"\n")


def write_private(path: Path, content: bytes) -> None:
    """A file that nobody else may read, from its first byte on."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())  # checked at every request: P-384 costs seven times as much


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _pem_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    side: x509.ObjectIdentifier | None = None,
    host: str = "",
) -> x509.Certificate:
    """A certificate: of a party that is one side of a connection, perhaps at an address, or of the authority."""
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
        .add_extension(x509.BasicConstraints(ca=side is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(_usage(authority=side is None), critical=True)
    )
    if side is not None:  # a site's certificate is none of a server
        builder = builder.add_extension(x509.ExtendedKeyUsage([side]), critical=False)
    if host:
        builder = builder.add_extension(x509.SubjectAlternativeName([_address(host)]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _address(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
