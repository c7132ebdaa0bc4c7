"""Users that a proxy before the page has logged in and names in header fields, as oauth2-proxy does.

Every client that reaches the page can write such fields, so they count from configured addresses alone, and
from any other a request that has one is refused. What the user may see is asked of the API server, as for a
token. The API server's own names (``system:...``) are no proxy's to give.
"""

import ipaddress
import re
from collections.abc import Sequence

import msgspec

from gpufleet.daemon.http_server import Request
from gpufleet.kube.access_reviews import User
from gpufleet.model.model_errors import InputError
from gpufleet.web.documents import Refusal
from gpufleet.web.login.person import RefusedError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

USER_FIELD = "X-Forwarded-User"
GROUPS_FIELD = "X-Forwarded-Groups"
"""What oauth2-proxy, and others after it, call them."""

OWN_PREFIX = "system:"
"""Users and groups of the API server begin so; among them are those that may do everything."""

_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
"""A token of RFC 9110, section 5.1: no header field has any other name."""

GROUPS_MAX = 512
"""More groups than an identity provider puts into a token."""


class TrustedProxy(msgspec.Struct, frozen=True):
    """From where requests may name their user, and in which fields.

    ``user_prefix`` and ``groups_prefix`` are put before what the fields say, as the API server puts its
    ``--oidc-username-prefix`` and ``--oidc-groups-prefix`` before what a token says.
    """

    networks: tuple[Network, ...]
    user_field: str = USER_FIELD
    groups_field: str = GROUPS_FIELD
    user_prefix: str = ""
    groups_prefix: str = ""

    def user_of(self, request: Request) -> User | None:
        """The user that the fields name; None where they name none. Raises RefusedError for fields that do
        not count.
        """
        names = request.all_of(self.user_field.lower())
        groups = request.all_of(self.groups_field.lower())
        if not names and not groups:
            return None
        if not self._trusts(request.peer):
            problem = "this address may not say who the user is"
            way_out = "name the proxy's address with --trusted-proxy, or send a bearer token"
            raise RefusedError(403, Refusal(problem, self.user_field, request.peer, way_out))
        # Of several values one may be the client's own, which the proxy has let through.
        if len(names) != 1 or not names[0]:
            raise RefusedError(
                403, Refusal("the proxy has to name one user", self.user_field, ", ".join(names)[:200])
            )
        named = tuple(one.strip() for value in groups for one in value.split(",") if one.strip())
        groups_named = tuple(f"{self.groups_prefix}{one}" for one in named)
        user = User(f"{self.user_prefix}{names[0]}", groups=groups_named)
        self._check(user)
        return user.authenticated()

    def _trusts(self, peer: str) -> bool:
        # A link-local address has its interface behind a percent sign.
        address = ipaddress.ip_address(peer.partition("%")[0]) if peer else None
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return address is not None and any((mapped or address) in one for one in self.networks)

    def _check(self, user: User) -> None:
        for field, names in ((self.user_field, (user.name,)), (self.groups_field, user.groups)):
            own = next((one for one in names if one.startswith(OWN_PREFIX)), None)
            if own is not None:
                raise RefusedError(403, Refusal("a name of the API server's own", field, own[:200]))
        if len(user.groups) > GROUPS_MAX:
            value, way_out = str(len(user.groups)), f"at most {GROUPS_MAX}"
            raise RefusedError(403, Refusal("too many groups", self.groups_field, value, way_out))


def trusted_proxy(
    proxies: Sequence[str], user_field: str, groups_field: str, user_prefix: str, groups_prefix: str
) -> TrustedProxy | None:
    """The proxies that options name, None for none of them. Raises InputError that names the option."""
    networks = tuple(read_network(text) for text in proxies)
    trusted = TrustedProxy(
        networks,
        _read_field(user_field, "--proxy-user-field"),
        _read_field(groups_field, "--proxy-groups-field"),
        _read_prefix(user_prefix, "--proxy-user-prefix"),
        _read_prefix(groups_prefix, "--proxy-groups-prefix"),
    )
    return trusted if networks else None


def read_network(text: str) -> Network:
    """``10.0.0.7`` or ``10.0.0.0/24``. Raises InputError."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InputError(
            "not an address or a network",
            field="--trusted-proxy",
            value=text,
            expected="10.0.0.7, 10.0.0.0/24 or ::1; the bits behind the length are 0",
        ) from error


def _read_field(text: str, option: str) -> str:
    """A name of a header field. Raises InputError."""
    if not _FIELD_NAME.fullmatch(text):
        expected = f"a name such as {USER_FIELD}"
        raise InputError("not the name of a header field", field=option, value=text, expected=expected)
    return text


def _read_prefix(text: str, option: str) -> str:
    """What is put before names that a proxy tells. Raises InputError for the API server's own prefix."""
    if text.startswith(OWN_PREFIX):
        expected = "the prefix of the login's users, such as oidc:"
        problem = "every name would be the API server's own"
        raise InputError(problem, field=option, value=text, expected=expected)
    return text
