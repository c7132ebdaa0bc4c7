"""Where a Prometheus, or another server, is and how one gets in: address, token, certificate authority.

Tokens are read from a file, so that none stands in a process list; an address with a password in it is
refused, because addresses are printed in every message. ``client`` asks there.
"""

import ssl
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from gpufleet.files.regular import read_regular
from gpufleet.model.model_errors import InputError, WorldError

EXAMPLE = "an address such as https://prometheus.example.com or http://localhost:9090"
FILE_BYTES_MAX = 4 * 2**20
"""More than any token or bundle of authorities has."""


class Access(msgspec.Struct, frozen=True):
    """The base address without a slash at its end, and the files that give access.

    ``cluster`` is which of a server's clusters is meant, as the label of its series has it.
    """

    url: str
    token_file: Path | None = None
    authority_file: Path | None = None
    cluster: str = ""

    def token(self) -> str:
        """The bearer token, "" without a file; raises InputError for a file that holds none."""
        if self.token_file is None:
            return ""
        data = _bytes_of(self.token_file)
        text = data.decode("latin-1").strip()
        if not text or not text.isascii() or not text.isprintable():
            # Its content is secret and stays out of the message.
            expected = "one line of printable ASCII"
            raise InputError("holds no bearer token", where=str(self.token_file), expected=expected)
        return text

    def tls(self) -> ssl.SSLContext:
        """How the server proves its identity; raises InputError for a file without certificates."""
        if self.authority_file is None:
            return ssl.create_default_context()
        try:
            text = _bytes_of(self.authority_file).decode("ascii")
            # An empty text would mean the authorities that the system trusts.
            return ssl.create_default_context(cadata=text or "\n")
        except (ssl.SSLError, ValueError) as error:
            expected = "certificates in PEM"
            where = str(self.authority_file)
            raise InputError("holds no certificate", where=where, expected=expected) from error


def read_access(
    url: str,
    token_file: Path | None = None,
    authority_file: Path | None = None,
    cluster: str = "",
    *,
    option: str = "--prometheus",
    example: str = EXAMPLE,
) -> Access:
    """The access that a user describes by an option; raises InputError for what is no address of a server."""
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, named = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not named or not url.isascii() or not url.isprintable():
        raise InputError("not an address", field=option, value=url, expected=example)
    if parts.username is not None or parts.password is not None:
        expected = f"an address without user and password; a token goes into a file ({option}-token-file)"
        raise InputError("holds a user or password", field=option, expected=expected)
    if parts.query or parts.fragment or " " in url:
        raise InputError("more than an address", field=option, value=url, expected=example)
    if authority_file is not None and parts.scheme != "https":
        expected = f"an https address, or no {option}-ca-file"
        raise InputError("plain http has no certificate", field=option, value=url, expected=expected)
    return Access(url.rstrip("/"), token_file, authority_file, cluster)


def access_if_any(
    url: str | None, token_file: Path | None, authority_file: Path | None, cluster: str = ""
) -> Access | None:
    """The access where a server is named, else None; raises InputError for what is of no use without one."""
    if url is not None:
        return read_access(url, token_file, authority_file, cluster)
    given = {
        "--prometheus-token-file": token_file,
        "--prometheus-ca-file": authority_file,
        "--prometheus-cluster": cluster or None,
    }
    for option, value in given.items():
        if value is not None:
            raise InputError("there is no server for it", field=option, expected="--prometheus URL beside it")
    return None


def _bytes_of(path: Path) -> bytes:
    try:
        return read_regular(path, FILE_BYTES_MAX)
    except OSError as error:
        raise WorldError(f"{path} cannot be read: {error.strerror}") from error
