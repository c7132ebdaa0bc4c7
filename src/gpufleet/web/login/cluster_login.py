"""The login in a cluster: a bearer token, sent by a proxy with each request or given once for a session, or
a user that a trusted proxy names (``trusted_proxy``).

The API server says whose token it is (TokenReview) and what they may list (SubjectAccessReview): pods of all
namespaces, or else of each namespace with GPU work, nodes, NodeDevices, FleetQueues and GpuProjects. Both are
remembered for ``REMEMBERED_S``: a right that was taken away counts from then on, in streams too.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from gpufleet.daemon.http_server import Page, Request
from gpufleet.kube.access_reviews import User, may_list, user_of_token
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.resources import FLEET_QUEUES, GPU_PROJECTS, NODE_DEVICES, NODES, PODS
from gpufleet.web.documents import Refusal
from gpufleet.web.fleet_state import FleetState
from gpufleet.web.login.person import Person, RefusedError
from gpufleet.web.login.sessions import Sessions
from gpufleet.web.login.trusted_proxy import TrustedProxy
from gpufleet.web.rights import Rights

REMEMBERED_S = 60.0
"""A page asks many times a minute; the API server is asked about it once."""

NEW_NAMESPACES_S = 3.0
"""So soon it is asked again where GPU work is in a namespace that was not asked about: right after the start
none is known.
"""

PEOPLE_MAX = 1024
"""Tokens whose answers are remembered; the oldest is asked about again."""

AT_ONCE = 8
"""Namespaces that are asked about at one time."""

NO_TOKEN = Refusal(
    "you have not logged in",
    way_out="give a bearer token: kubectl create token NAME -n NAMESPACE makes one of a ServiceAccount",
    login=True,
)
OVER = Refusal("the API server does not know this token, or it has ended", way_out="log in again", login=True)


class _Known(NamedTuple):
    """``asked`` are the namespaces that the rights were asked about, None where pods of all may be listed."""

    at_s: float
    user: User
    rights: Rights
    asked: frozenset[str] | None


class ClusterLogin:
    """Asks the API server, with the server's own rights to ask."""

    def __init__(
        self, client: Client, state: FleetState, proxy: TrustedProxy | None = None, *, secure: bool = True
    ) -> None:
        self._client = client
        self._proxy = proxy
        self._state = state
        self._sessions: Sessions[str] = Sessions(client.clock, "gpufleet-web", secure=secure)
        self._known: dict[bytes, _Known] = {}
        self._turns: dict[bytes, asyncio.Lock] = {}

    async def person(self, request: Request) -> Person:
        """The person that a trusted proxy names, or whose token the request or its session has, with what
        that person may see. Raises RefusedError.
        """
        named = None if self._proxy is None else self._proxy.user_of(request)
        if named is not None:
            known = await self._named(named)
            return Person(known.user.name, known.rights)
        token, has_session = _bearer(request), False
        if not token:
            token = self._sessions.of(request) or ""
            has_session = bool(token)
        if not token:
            raise RefusedError(401, NO_TOKEN)
        known = await self._reviewed(token)
        return Person(known.user.name, known.rights, has_session)

    async def log_in(self, request: Request) -> Page:
        """Begin a session for the bearer token of the request. Raises RefusedError."""
        token = _bearer(request)
        if not token:
            raise RefusedError(401, NO_TOKEN)
        await self._reviewed(token)
        return Page((), status=HTTPStatus.NO_CONTENT, fields=(self._sessions.begin(token),))

    def log_out(self, request: Request) -> Page:
        """End the session of the request."""
        return Page((), status=HTTPStatus.NO_CONTENT, fields=(self._sessions.end(request),))

    async def _reviewed(self, token: str) -> _Known:
        async def owner() -> User | None:
            return await user_of_token(self._client, token)

        return await self._known_of(b"token " + token.encode(), owner)

    async def _named(self, user: User) -> _Known:
        async def itself() -> User | None:
            return user

        return await self._known_of(b"named " + msgspec.json.encode(user), itself)

    async def _known_of(self, shown: bytes, whose: Callable[[], Awaitable[User | None]]) -> _Known:
        """What is known of the user behind what a request shows, of which only a digest is kept."""
        key = hashlib.sha256(shown).digest()
        # Several requests of one page ask once.
        async with self._turns.setdefault(key, asyncio.Lock()):
            try:
                return await self._looked_up(key, whose)
            except KubeError as error:
                # Who cannot be asked about sees nothing.
                refusal = Refusal(f"the API server cannot be asked who you are: {error}", way_out="try again")
                raise RefusedError(503, refusal) from error
            finally:
                self._turns.pop(key, None)

    async def _looked_up(self, key: bytes, whose: Callable[[], Awaitable[User | None]]) -> _Known:
        now_s = self._client.clock.monotonic_s()
        known = self._known.get(key)
        if known is not None and now_s - known.at_s < self._lasts_s(known):
            return known
        self._known.pop(key, None)
        user = await whose()
        if user is None:
            raise RefusedError(401, OVER)
        # Read before the rights are asked about: a namespace that comes meanwhile is seen to be new later.
        asked = self._state.namespaces()
        rights = await self._rights(user, asked)
        found = _Known(now_s, user, rights, None if rights.namespaces is None else asked)
        while len(self._known) >= PEOPLE_MAX:
            self._known.pop(next(iter(self._known)))
        self._known[key] = found
        return found

    def _lasts_s(self, known: _Known) -> float:
        has_new = known.asked is not None and not self._state.namespaces() <= known.asked
        return NEW_NAMESPACES_S if has_new else REMEMBERED_S

    async def _rights(self, user: User, namespaces: frozenset[str]) -> Rights:
        client = self._client
        nodes, devices, queues, projects, all_pods = await asyncio.gather(
            may_list(client, user, NODES),
            may_list(client, user, NODE_DEVICES),
            may_list(client, user, FLEET_QUEUES),
            may_list(client, user, GPU_PROJECTS),
            may_list(client, user, PODS),
        )
        if all_pods:
            return Rights(None, nodes, devices, queues, projects)
        places = asyncio.Semaphore(AT_ONCE)

        async def is_seen(namespace: str) -> bool:
            async with places:
                return await may_list(client, user, PODS, namespace)

        asked = sorted(namespaces)
        seen = await asyncio.gather(*(is_seen(one) for one in asked))
        listed = frozenset(one for one, is_one in zip(asked, seen, strict=True) if is_one)
        return Rights(listed, nodes, devices, queues, projects)


def _bearer(request: Request) -> str:
    scheme, _, token = request.one_of("authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
