"""Users that the API server vouches for: it shows a certificate and names the user in header fields.

Which authority signs that certificate, which names it may have, and which fields count is in the ConfigMap
``kube-system/extension-apiserver-authentication``. It is watched, because authorities are renewed: what it
says at a request is what counts for it, also on a connection that is older.
"""

import datetime as dt
import functools
import ssl
from urllib.parse import unquote

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.x509.oid import NameOID

from gpufleet.daemon.http_server import Request
from gpufleet.kube.access_reviews import User
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure

NAMESPACE = "kube-system"
NAME = "extension-apiserver-authentication"


class AuthenticationMap(Structure, frozen=True):
    """The ConfigMap that says which authority, names and header fields count."""

    metadata: Metadata
    data: dict[str, str] = msgspec.field(default_factory=dict)


class FrontProxy(msgspec.Struct, frozen=True):
    """How the API server vouches for a caller; without authorities it cannot."""

    authorities: str = ""
    names: tuple[str, ...] = ()
    user_fields: tuple[str, ...] = ()
    uid_fields: tuple[str, ...] = ()
    group_fields: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()
    problem: str = ""


NO_FRONT_PROXY = FrontProxy(problem=f"the ConfigMap {NAMESPACE}/{NAME} has not been read")


def read_front_proxy(written: AuthenticationMap | None) -> FrontProxy:
    """What the ConfigMap says; what cannot be used is told in ``problem`` and vouches for no caller."""
    if written is None:
        return NO_FRONT_PROXY
    data = written.data
    authorities = data.get("requestheader-client-ca-file", "")
    try:
        if not authorities:
            problem = f"the ConfigMap {NAMESPACE}/{NAME} names no authority of the API server's front proxy"
            return FrontProxy(problem=problem)
        # Read for its error alone: a text without certificates vouches for no caller.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=authorities)
        return FrontProxy(
            authorities,
            _list(data, "requestheader-allowed-names"),
            _fields(data, "requestheader-username-headers"),
            _fields(data, "requestheader-uid-headers"),
            _fields(data, "requestheader-group-headers"),
            _fields(data, "requestheader-extra-headers-prefix"),
        )
    except (ssl.SSLError, ValueError, msgspec.DecodeError) as error:
        return FrontProxy(problem=f"the ConfigMap {NAMESPACE}/{NAME} cannot be used: {error}")


def vouched_for(request: Request, proxy: FrontProxy, now: dt.datetime) -> User | None:
    """The user that the front proxy names; None where it does not vouch for one."""
    if not request.client_certificate or not proxy.authorities:
        return None
    if not _is_front_proxy(request.client_certificate, proxy.authorities, proxy.names, now):
        return None
    name = _first(request, proxy.user_fields)
    if not name:
        return None
    groups = [value for field in proxy.group_fields for value in request.all_of(field) if value]
    extra: dict[str, list[str]] = {}
    for field, value in request.fields:
        for prefix in proxy.extra_prefixes:
            if field.startswith(prefix):
                extra.setdefault(unquote(field.removeprefix(prefix)), []).append(value)
    found = {key: tuple(values) for key, values in extra.items()}
    return User(name, _first(request, proxy.uid_fields), tuple(groups), found)


def _first(request: Request, fields: tuple[str, ...]) -> str:
    return next((value for field in fields for value in request.all_of(field) if value), "")


def _is_front_proxy(shown: bytes, authorities: str, names: tuple[str, ...], now: dt.datetime) -> bool:
    found = _signed_by(shown, authorities)
    if found is None:
        return False
    name, begins, ends = found
    return begins <= now <= ends and (not names or name in names)


@functools.lru_cache(maxsize=64)
def _signed_by(shown: bytes, authorities: str) -> tuple[str, dt.datetime, dt.datetime] | None:
    """Common name and validity of a certificate that one of the authorities signed itself.

    The handshake has verified it against the authorities of its own moment; these are those of now.
    """
    certificate = x509.load_der_x509_certificate(shown)
    for authority in x509.load_pem_x509_certificates(authorities.encode()):
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        name = str(common[0].value) if common else ""
        return name, certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return None


def _list(data: dict[str, str], key: str) -> tuple[str, ...]:
    return tuple(msgspec.json.decode(data[key], type=list[str])) if data.get(key) else ()


def _fields(data: dict[str, str], key: str) -> tuple[str, ...]:
    return tuple(name.lower() for name in _list(data, key))
