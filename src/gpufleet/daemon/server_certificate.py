"""The certificate that a daemon's server shows: a pair of PEM files, read again when they change.

The files are those of a mounted Secret: the kubelet replaces both at once when the certificate was renewed.
A pair that cannot be used at the start is an error that names the file. A later one is told once in the log,
and the pair before stays in use: a server with an old certificate can still be probed.
"""

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from gpufleet.files.regular import read_regular
from gpufleet.model.model_errors import InputError

LOG = logging.getLogger(__name__)
FILE_BYTES_MAX = 2**20
"""A Secret holds at most 1 MiB, and so does each of its files."""

PROTOCOLS = ("http/1.1",)
"""Clients that prefer HTTP/2 are told in the handshake that it is not served."""


class PairOptions(NamedTuple):
    """The options of a command that name the files, as its errors name them."""

    certificate: str
    key: str


METRICS_OPTIONS = PairOptions("--metrics-certificate", "--metrics-key")
"""Of daemons whose metrics are one thing among others that they do."""

OWN_OPTIONS = PairOptions("--certificate", "--key")
"""Of commands that are servers first of all."""

_CERTIFICATE_FORM = "a PEM certificate, followed by those that signed it"
_KEY_FORM = "the certificate's key as PEM, without a password"

_Signature = tuple[tuple[int, int, int], ...]
"""Inode, time of the last write in ns, and size of each file: no two versions of a file have all three."""


def _no_clients() -> str:
    return ""


class ServerCertificate:
    """A certificate with its key, for ``HttpServer``. Raises InputError for a pair that cannot be used.

    ``clients`` gives the authorities (usable PEM) that sign certificates of clients, as they are at the
    moment: a client may show one that they signed, and any other ends the handshake. Without authorities,
    no certificate is asked for.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        clients: Callable[[], str] = _no_clients,
        *,
        options: PairOptions = METRICS_OPTIONS,
    ) -> None:
        self._certificate = certificate
        self._key = key
        self._options = options
        self._clients = clients
        self._trusted = clients()
        self.pem: tuple[bytes, bytes] = (b"", b"")
        """Key and certificate that are in use."""
        self._seen = self._signature()
        self._context = self._load()

    def context(self) -> ssl.SSLContext:
        """What the next handshake is done with: the pair as its files are now, if it can be used."""
        signature, trusted = self._signature(), self._clients()
        if signature == self._seen and trusted == self._trusted:
            return self._context
        # Remembered before the pair is judged: one that cannot be used is read, and told, once.
        self._seen, self._trusted = signature, trusted
        try:
            self._context = self._load()
        except InputError as error:
            LOG.warning("the certificate before stays in use", extra={"problem": str(error)})
        else:
            LOG.info("a new certificate is in use", extra={"certificate": str(self._certificate)})
        return self._context

    def _signature(self) -> _Signature:
        """What changes whenever a file is written or replaced; empty where one is missing."""
        try:
            found = [path.stat() for path in (self._certificate, self._key)]
        except OSError:
            return ()
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)

    def _load(self) -> ssl.SSLContext:
        shown = _text(self._certificate, self._options.certificate, _CERTIFICATE_FORM)
        _check_certificates(shown, self._certificate, self._options.certificate)
        key = _text(self._key, self._options.key, _KEY_FORM)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Each renegotiation costs the server a signature and the client next to nothing.
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(PROTOCOLS)
        if self._trusted:
            context.load_verify_locations(cadata=self._trusted)
            context.verify_mode = ssl.CERT_OPTIONAL
            # Authorities of clusters are often made without what strictness asks for.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (OSError, ValueError) as error:
            problem, expected = "holds no key that can be used", _KEY_FORM
            if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
                problem, expected = "is the key of another certificate", f"the key of {self._certificate}"
            raise InputError(
                problem, field=self._options.key, where=str(self._key), expected=expected
            ) from error
        self.pem = (key.encode(), shown.encode())
        return context


def certificate_of(
    certificate: Path | None, key: Path | None, options: PairOptions = METRICS_OPTIONS
) -> ServerCertificate | None:
    """The certificate that the two options name; None where neither does. Raises InputError."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = options.certificate if certificate is None else options.key
        raise InputError("a certificate and a key come together", field=missing, expected="both, or neither")
    return ServerCertificate(certificate, key, options=options)


def _text(path: Path, field: str, expected: str) -> str:
    try:
        return read_regular(path, FILE_BYTES_MAX, field=field).decode("ascii")
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError(problem, field=field, where=str(path), expected=expected) from error
    except UnicodeDecodeError as error:
        raise InputError("is no PEM", field=field, where=str(path), expected=expected) from error


def _check_certificates(text: str, path: Path, field: str) -> None:
    """Refuse a file without certificates by its own name: loaded with its key, the key might be blamed."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(
            "holds no certificate", field=field, where=str(path), expected=_CERTIFICATE_FORM
        ) from error


def _no_password() -> str:
    """Refuse a key with a password: without this callback OpenSSL would ask for it at the terminal."""
    raise ValueError("the key has a password")
