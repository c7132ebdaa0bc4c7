"""The API server's answers to: whose token is this, and may this user do that.

They are asked with the rights of the program that asks (``tokenreviews`` and ``subjectaccessreviews``, verb
``create``); who remembers an answer, and for how long, is the asker's business.
"""

from collections.abc import Mapping

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.backoff import RetryLimits
from gpufleet.kube.client import Client
from gpufleet.kube.resources import Kind

TOKEN_REVIEWS = Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
TOKEN_CHARACTERS_MAX = 8192
"""No token of a ServiceAccount or an identity provider is longer; more is not sent on."""

# A page or an autoscaler that waits has given up when it takes longer.
QUICK = RetryLimits(attempts=2, budget_s=5.0)


AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
"""Groups of all users that the API server knows, and of all others."""


class User(msgspec.Struct, frozen=True):
    """A user as the API server knows them; ``extra`` is what else was vouched for."""

    name: str = msgspec.field(default="", name="username")
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    def authenticated(self) -> "User":
        """The user in the group of all that are known, as the API server's own library puts them there.

        The API server names no group of its own users that ask for discovery, and they read by that group.
        """
        if AUTHENTICATED in self.groups or UNAUTHENTICATED in self.groups:
            return self
        return msgspec.structs.replace(self, groups=(*self.groups, AUTHENTICATED))


class Attributes(msgspec.Struct, frozen=True):
    """What a right is needed for: a resource of a group, or with ``path`` a document."""

    verb: str = "get"
    path: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""

    def asked_of(self, user: User) -> dict[str, object]:
        """The question whether a user has the right, as the spec of a SubjectAccessReview."""
        asks = {
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        if self.path:
            return {**asks, "nonResourceAttributes": {"verb": self.verb, "path": self.path}}
        named = {name: value for name, value in msgspec.structs.asdict(self).items() if value}
        return {**asks, "resourceAttributes": named}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: User = User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_TOKEN = msgspec.json.Decoder(_TokenReview)
_ACCESS = msgspec.json.Decoder(_AccessReview)


async def user_of_token(client: Client, token: str) -> User | None:
    """The user of a token; None for one that the API server does not know, or that has ended. Raises
    KubeErrors.
    """
    if not token or len(token) > TOKEN_CHARACTERS_MAX:
        return None
    body = {**_head(TOKEN_REVIEWS), "spec": {"token": token}}
    status = decode(await client.create(TOKEN_REVIEWS, body, retry_limits=QUICK), _TOKEN).status
    return status.user if status.authenticated else None


async def may(client: Client, user: User, attributes: Attributes) -> bool:
    """Whether a user has a right. Raises KubeErrors."""
    body = {**_head(ACCESS_REVIEWS), "spec": attributes.asked_of(user)}
    return decode(await client.create(ACCESS_REVIEWS, body, retry_limits=QUICK), _ACCESS).status.allowed


async def may_list(client: Client, user: User, kind: Kind, namespace: str = "") -> bool:
    """Whether a user may list a kind in a namespace, or with "" in all. Raises KubeErrors."""
    wanted = Attributes("list", "", kind.group, kind.version, kind.plural, namespace=namespace)
    return await may(client, user, wanted)


def _head(kind: Kind) -> dict[str, object]:
    return {"apiVersion": kind.api_version, "kind": kind.name}
