"""The keys of one cluster: its own authority, the server's certificate, one client certificate a user.

Every cluster makes its own authority, so that a kubeconfig of one is worth nothing at another and TLS is
verified both ways as on any cluster. Users are certificates, as in Kubernetes: the common name is the
user, the organisations its groups. ``kubeconfig`` puts them into files for clients.
"""

import datetime as dt
import ipaddress
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpufleet.daemon.certificate_building import AUTHORITY_USAGE, begun_certificate

# Of a cluster's own certificates: it is made anew sooner.
LIFETIME = dt.timedelta(days=365)
# A container's clock may be a little behind.
CLOCKS_DIFFER = dt.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """The authority of one cluster, which signs the certificates of its server and its users."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def new(cls, name: str) -> "Authority":
        """A fresh authority with a key of its own."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _begun(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(AUTHORITY_USAGE, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, certificate: bytes, key: bytes) -> "Authority":
        """The authority that was saved as PEM."""
        loaded = serialization.load_pem_private_key(key, password=None)
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise TypeError("the authority's key is no elliptic-curve key, so it is not one of ours")
        return cls(x509.load_pem_x509_certificate(certificate), loaded)

    @property
    def identity(self) -> Identity:
        """The authority's own certificate and key, to be saved."""
        return _identity(self._certificate, self._key)

    def server(self, names: Iterable[str], addresses: Iterable[str]) -> Identity:
        """A certificate for a server with these DNS names and IP addresses."""
        alternative: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternative += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        return self._issued(
            subject, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(alternative)
        )

    def client(self, user: str, groups: Sequence[str] = ()) -> Identity:
        """A certificate with which a client is ``user`` in these groups."""
        names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issued(subject, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issued(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        alternative: x509.SubjectAlternativeName | None,
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _begun(subject, self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(authority_id, critical=False)
        )
        if alternative is not None:
            builder = builder.add_extension(alternative, critical=False)
        return _identity(builder.sign(self._key, hashes.SHA256()), key)


def new_key() -> bytes:
    """A private key as PEM, with which the server signs the tokens of service accounts."""
    return _key_pem(ec.generate_private_key(ec.SECP256R1()))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only this user may read, from its first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return begun_certificate(subject, issuer, key, since=now - CLOCKS_DIFFER, until=now + LIFETIME)


def _identity(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Identity:
    return Identity(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # Kubernetes reads the keys of service accounts in this older form only.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
