"""The API server's answers to: which caller has this token, and may this caller do that.

Both are remembered for a short time, as the API server's own library does: an autoscaler asks the same every
few seconds. A right that is taken away counts after ``REMEMBERED_S`` at the latest.
"""

import hashlib
from collections import OrderedDict
from typing import Generic, TypeVar

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.backoff import RetryLimits
from gpufleet.kube.client import Client
from gpufleet.kube.resources import Kind
from gpufleet.metrics.callers.caller import ADMINISTRATORS, Caller
from gpufleet.metrics.wire.questions import Attributes

TOKEN_REVIEWS = Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
ACCESS_REVIEWS = Kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
REMEMBERED_S = 10.0
"""As long as servers that are built with Kubernetes' own library remember it."""

ENTRIES_MAX = 4096
"""Far more callers and questions than a cluster has in that time; each is a kilobyte at most."""

TOKEN_CHARACTERS_MAX = 8192
"""A request has no room for a longer one."""

# An autoscaler asks again after seconds, and an answer that comes later than that is of no use.
QUICK = RetryLimits(attempts=2, budget_s=5.0)

Value = TypeVar("Value")


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False
    reason: str = ""


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_TOKEN = msgspec.json.Decoder(_TokenReview)
_ACCESS = msgspec.json.Decoder(_AccessReview)


class Remembered(Generic[Value]):
    """Answers of a short time ago; the oldest go first where there are too many."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, tuple[float, Value]] = OrderedDict()

    def get(self, key: bytes, now_s: float) -> Value | None:
        """The answer, unless it is too old."""
        at_s, value = self._known.get(key, (float("-inf"), None))
        return value if now_s - at_s <= REMEMBERED_S else None

    def put(self, key: bytes, now_s: float, value: Value) -> None:
        """Remember an answer."""
        self._known[key] = (now_s, value)
        self._known.move_to_end(key)
        while len(self._known) > ENTRIES_MAX:
            self._known.popitem(last=False)


class Reviews:
    """Asks the API server. Raises KubeError where it does not answer: then nothing is allowed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._tokens: Remembered[Caller] = Remembered()
        self._rights: Remembered[bool] = Remembered()

    async def caller_of(self, token: str) -> Caller | None:
        """The caller with this token; None if there is none, or the token has ended."""
        if not token or len(token) > TOKEN_CHARACTERS_MAX:
            return None
        now_s = self._client.clock.monotonic_s()
        key = hashlib.sha256(token.encode()).digest()
        known = self._tokens.get(key, now_s)
        if known is not None:
            return known
        asked = {**_head(TOKEN_REVIEWS), "spec": {"token": token}}
        answer = decode(await self._client.create(TOKEN_REVIEWS, asked, retry_limits=QUICK), _TOKEN)
        if not answer.status.authenticated:
            return None
        user = answer.status.user
        found = Caller(user.username, user.uid, user.groups, user.extra)
        self._tokens.put(key, now_s, found)
        return found

    async def may(self, caller: Caller, attributes: Attributes) -> bool:
        """Whether the caller has the right."""
        if ADMINISTRATORS in caller.groups:
            return True
        now_s = self._client.clock.monotonic_s()
        spec = _spec(caller, attributes)
        key = msgspec.json.encode(spec, order="sorted")
        known = self._rights.get(key, now_s)
        if known is not None:
            return known
        asked = {**_head(ACCESS_REVIEWS), "spec": spec}
        answer = decode(await self._client.create(ACCESS_REVIEWS, asked, retry_limits=QUICK), _ACCESS)
        self._rights.put(key, now_s, answer.status.allowed)
        return answer.status.allowed


def _head(kind: Kind) -> dict[str, object]:
    return {"apiVersion": kind.api_version, "kind": kind.name}


def _spec(caller: Caller, attributes: Attributes) -> dict[str, object]:
    user = {
        "user": caller.name,
        "uid": caller.uid,
        "groups": list(caller.groups),
        "extra": {key: list(values) for key, values in caller.extra.items()},
    }
    if attributes.path:
        return {**user, "nonResourceAttributes": {"verb": attributes.verb, "path": attributes.path}}
    named = {
        "verb": attributes.verb,
        "group": attributes.group,
        "version": attributes.version,
        "resource": attributes.resource,
        "subresource": attributes.subresource,
        "name": attributes.name,
        "namespace": attributes.namespace,
    }
    return {**user, "resourceAttributes": {key: value for key, value in named.items() if value}}
