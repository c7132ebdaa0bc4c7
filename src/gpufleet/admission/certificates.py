"""The webhook's own certificates: an authority, the server's certificate, and when each is made anew.

All replicas share one Secret and one pure step from what it holds to what it shall hold. An authority that
nears its end is joined by another, and only when the API server knows both does the server's certificate come
from the new one: at no moment is a certificate shown that the API server does not trust. ``webhook.rotation``
reads and writes the Secret.
"""

import datetime as dt
from collections.abc import Iterable, Sequence

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpufleet.daemon.certificate_building import AUTHORITY_USAGE, begun_certificate

AUTHORITY_LIFE = dt.timedelta(days=365)
SERVER_LIFE = dt.timedelta(days=60)
CLOCKS_DIFFER = dt.timedelta(hours=1)
"""A clock of another machine may be behind: what is made now counts from an hour ago."""

LEFT_PART = 3
"""What has less than a third of its life left is made anew."""

NAME = "gpufleet-admission"


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Kept(msgspec.Struct, frozen=True):
    """What the Secret holds: the server's pair, the newest authority's, and all trusted authorities (PEM)."""

    server: Pair
    authority: Pair
    trusted: bytes


class UnusableError(Exception):
    """What the Secret holds is no certificates of ours; it is made anew."""


def next_kept(kept: Kept | None, names: Sequence[str], known: bytes, now: dt.datetime) -> Kept:
    """What shall be held now; the same where nothing is due.

    ``names`` are the DNS names of the server, ``known`` the authorities (PEM) that the API server trusts by
    now. Raises UnusableError for what cannot be read.
    """
    if kept is None:
        authority = _authority(now)
        return Kept(_server(authority, names, now), authority, authority.certificate)
    server, newest = _read(kept.server.certificate), _read(kept.authority.certificate)
    if _is_due(newest, now):
        kept = _with_another_authority(kept, now)
        newest = _read(kept.authority.certificate)
    # An ended authority is trusted by no server and would make the Secret grow for ever.
    trusted = b"".join(_pem(one) for one in _all(kept.trusted) if one.not_valid_after_utc > now)
    kept = msgspec.structs.replace(kept, trusted=trusted)
    of_newest = server.issuer == newest.subject
    named = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    is_named = set(names) <= set(named.get_values_for_type(x509.DNSName))
    # While the API server does not know the newest authority this waits: a third of a life is left.
    may_sign = of_newest or any(one == newest for one in _all(known))
    if may_sign and (_is_due(server, now) or not is_named or not of_newest):
        kept = msgspec.structs.replace(kept, server=_server(kept.authority, names, now))
    return kept


def ends(kept: Kept) -> dt.datetime:
    """When the server's certificate ends."""
    return _read(kept.server.certificate).not_valid_after_utc


def _with_another_authority(kept: Kept, now: dt.datetime) -> Kept:
    another = _authority(now)
    return Kept(kept.server, another, another.certificate + kept.trusted)


def _is_due(certificate: x509.Certificate, now: dt.datetime) -> bool:
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - now < life / LEFT_PART


def _authority(now: dt.datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # A name of its own for each: the server's certificate says by which it was signed.
    name = f"{NAME} {now:%Y-%m-%dT%H:%M:%SZ}"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    public = key.public_key()
    certificate = (
        _begun(subject, subject, public, now, AUTHORITY_LIFE)
        # The authority signs servers and no further authority.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(AUTHORITY_USAGE, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(_pem(certificate), _key_pem(key))


def _server(authority: Pair, names: Iterable[str], now: dt.datetime) -> Pair:
    signing = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise UnusableError("the authority's key is none of ours")
    issuer, key = _read(authority.certificate), ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    alternative = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    certificate = (
        _begun(subject, issuer.subject, key.public_key(), now, SERVER_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(alternative, critical=False)
        .add_extension(by, critical=False)
        .sign(signing, hashes.SHA256())
    )
    return Pair(_pem(certificate), _key_pem(key))


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: dt.datetime,
    life: dt.timedelta,
) -> x509.CertificateBuilder:
    return begun_certificate(subject, issuer, key, since=now - CLOCKS_DIFFER, until=now + life)


def _read(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise UnusableError(f"no certificate: {error}") from error


def _all(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem) if pem.strip() else []
    except ValueError as error:
        raise UnusableError(f"no certificates: {error}") from error


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
