"""The API server's answers to: which caller has this token, and may this caller do that.

Both are remembered for a short time, as the API server's own library does: an autoscaler asks the same every
few seconds. A right that is taken away counts after ``REMEMBERED_S`` at the latest.
"""

import hashlib
from collections import OrderedDict
from typing import Generic, TypeVar

import msgspec

from gpufleet.kube.access_reviews import Attributes, User, may, user_of_token
from gpufleet.kube.client import Client

REMEMBERED_S = 10.0
"""As long as servers that are built with Kubernetes' own library remember it."""

ENTRIES_MAX = 4096
"""Far more callers and questions than a cluster has in that time; each is a kilobyte at most."""

ADMINISTRATORS = "system:masters"
"""The group that may do everything: no review is needed for it."""

Value = TypeVar("Value")


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
        self._tokens: Remembered[User] = Remembered()
        self._rights: Remembered[bool] = Remembered()

    async def caller_of(self, token: str) -> User | None:
        """The caller with this token; None if there is none, or the token has ended."""
        now_s = self._client.clock.monotonic_s()
        # Of a token only its digest stays in memory.
        key = hashlib.sha256(token.encode()).digest()
        found = self._tokens.get(key, now_s)
        if found is None:
            found = await user_of_token(self._client, token)
            # A refusal is not remembered: wrong tokens would push out those that count.
            if found is not None:
                self._tokens.put(key, now_s, found)
        return found

    async def may(self, caller: User, attributes: Attributes) -> bool:
        """Whether the caller has the right."""
        # As in the API server, where this group has every right.
        if ADMINISTRATORS in caller.groups:
            return True
        now_s = self._client.clock.monotonic_s()
        key = msgspec.json.encode(attributes.asked_of(caller), order="sorted")
        known = self._rights.get(key, now_s)
        if known is None:
            known = await may(self._client, caller, attributes)
            self._rights.put(key, now_s, known)
        return known
