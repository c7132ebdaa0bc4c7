"""How a server is reached and with which credentials: the seam between settings and ``http_transport``.

``kubeconfig`` and ``in_cluster`` make these; a test may make one by hand with ``PlainAccess``.
"""

import ssl
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from gpufleet.kube.expiry import Expiry
from gpufleet.kube.kube_errors import SettingsError


class Endpoint(msgspec.Struct, frozen=True):
    """Where a server listens. ``prefix`` stands before every path, as behind a gateway.

    ``server_name`` is the name that its certificate must carry, empty for the host's own.
    """

    host: str
    port: int
    tls: bool = True
    prefix: str = ""
    server_name: str = ""

    @property
    def authority(self) -> str:
        """Host and port as the Host header carries them."""
        # An IPv6 address stands in brackets, or its colons would be taken for that of the port.
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


class Access(Protocol):
    """A server and the credentials for it; an implementation may read files and run programs to get them."""

    @property
    def endpoint(self) -> Endpoint:
        """Where the server is."""
        ...

    async def authorization(self) -> str:
        """The Authorization header of the next request; empty for none."""
        ...

    async def tls_context(self) -> ssl.SSLContext:
        """The TLS context of the next connection: trusted authorities, our certificate if there is one."""
        ...

    async def refused(self) -> bool:
        """The server said 401: whether asking again with newly made credentials may help."""
        ...

    def expiries(self) -> tuple[Expiry, ...]:
        """When credentials and trusted certificates end; those that renew themselves or tell no end are left
        out.
        """
        ...


class PlainAccess:
    """Fixed access: no files, nothing to refresh."""

    def __init__(
        self, endpoint: Endpoint, *, token: str = "", tls_context: ssl.SSLContext | None = None
    ) -> None:
        self.endpoint = endpoint
        self._authorization = f"Bearer {token}" if token else ""
        self._tls_context = tls_context

    async def authorization(self) -> str:
        """The token, if one was given."""
        return self._authorization

    async def tls_context(self) -> ssl.SSLContext:
        """The given context, or one that trusts what the machine trusts."""
        if self._tls_context is None:
            self._tls_context = ssl.create_default_context()
        return self._tls_context

    async def refused(self) -> bool:
        """False: fixed credentials cannot be refreshed."""
        return False

    def expiries(self) -> tuple[Expiry, ...]:
        """None: the maker of a fixed access keeps track of its credentials."""
        return ()


def read_endpoint(url: str, *, server_name: str = "", field: str = "server", where: str = "") -> Endpoint:
    """The endpoint in a URL, or in a bare host and port, as kubectl takes it. Raises SettingsError."""
    way_out = "an address such as https://10.0.0.1:6443"
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise SettingsError(str(error), field=field, value=url, expected=way_out, where=where) from error
    # A query or a user in the address would be dropped without a word, so such an address is refused.
    plain = parts.query == parts.fragment == "" and parts.username is None
    if parts.scheme not in {"http", "https"} or not host or not plain or not url.isascii() or " " in url:
        raise SettingsError("no address of a server", field=field, value=url, expected=way_out, where=where)
    tls = parts.scheme == "https"
    return Endpoint(host, port or (443 if tls else 80), tls, parts.path.rstrip("/"), server_name)
