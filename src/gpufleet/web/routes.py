"""Every request of the page and its answer. Without a login only the files of the page are given.

Nothing is changed in the cluster, whatever is asked.
"""

import gzip
from collections.abc import AsyncGenerator, Callable
from http import HTTPStatus
from urllib.parse import parse_qs, unquote

import msgspec

from gpufleet.daemon.http_server import Page, Request
from gpufleet.kube.clock import Clock
from gpufleet.web.asking.process import Asking
from gpufleet.web.asking.questions import Problem, WhatChangesBring
from gpufleet.web.details import Details
from gpufleet.web.documents import About, Refusal, Source
from gpufleet.web.fleet_use import FleetUse
from gpufleet.web.login.hosts import check_host
from gpufleet.web.login.person import Login, Person, RefusedError
from gpufleet.web.problems import Problems
from gpufleet.web.project_list import ProjectList
from gpufleet.web.rights import Rights, about
from gpufleet.web.static_files import INDEX, StaticFile, page_of
from gpufleet.web.streaming import EndedError, events, sent_before
from gpufleet.web.view_rows import ViewRows

JSON = "application/json"
STREAMS_MAX = 64
"""Browsers that watch at one time. Each holds one connection and a number."""

STREAMS_OF_ONE_MAX = 12
"""Of one person: browsers open six connections to a server."""

QUERY_FIELDS_MAX = 64
"""Changes of one plan; people ask for a few."""

MANIFEST_BYTES_MAX = 512 * 1024
"""A manifest that a person pastes has some kilobytes; a whole release is a file for ``gpufleet whatif``."""

PLAN_FIELDS = frozenset({"add_nodes", "remove_node", "set_quota", "namespace"})

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
SECURITY = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)
NOT_KEPT = ("Cache-Control", "no-store")
ASKED_AGAIN = ("Cache-Control", "no-cache")
METHODS = ("GET", "HEAD", "POST")


class Parts(msgspec.Struct, frozen=True):
    """What answers are made of."""

    login: Login
    view_rows_for: Callable[[Rights], ViewRows]
    source: Callable[[], Source]
    details: Details
    asking: Asking
    problems: Problems
    projects: ProjectList
    fleet_use: FleetUse
    clock: Clock
    files: dict[str, StaticFile]
    hosts: frozenset[str]
    version: str
    cluster: str = ""


class Routes:
    """All paths of the page's server, each with its answer."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._streams: dict[str, int] = {}

    async def answer(self, request: Request) -> Page:
        """The answer, whatever is asked."""
        try:
            check_host(request, self._parts.hosts)
            page = await self._answered(request)
        except RefusedError as refused:
            page = _document(refused.refusal, HTTPStatus(refused.status))
        return msgspec.structs.replace(page, fields=(*page.fields, *SECURITY))

    async def _answered(self, request: Request) -> Page:
        path = request.path
        if request.method == "POST" and path != "/api/plans":
            return await self._session(request)
        if path == "/login":
            return await self._parts.login.log_in(request)
        if not path.startswith("/api/"):
            return self._file(request)
        person = await self._parts.login.person(request)
        view_rows = self._parts.view_rows_for(person.rights)
        match [unquote(part) for part in path.split("/")[2:]]:
            case ["about"]:
                return _document(self._about(person))
            case ["stream"]:
                return self._stream(request, person)
            case ["node", name]:
                return _document(await self._parts.details.node(view_rows, name))
            case ["work", ("pod" | "gang") as kind, namespace, name]:
                return _document(await self._parts.details.work(view_rows, kind, namespace, name))
            case ["use"]:
                return _packed(await self._parts.fleet_use.now(view_rows), request)
            case ["plans"]:
                return await self._plan(request, person)
            case ["projects"]:
                return _document(await self._parts.projects.now(person.rights))
            case ["problems"]:
                _check_sees_all(person)
                return _document(await self._parts.problems.now())
        raise RefusedError(404, Refusal("there is nothing at this path", "path", path))

    async def _session(self, request: Request) -> Page:
        match request.path:
            case "/api/login":
                return await self._parts.login.log_in(request)
            case "/api/logout":
                return self._parts.login.log_out(request)
        raise RefusedError(405, Refusal("this is only read", "method", request.method))

    def _file(self, request: Request) -> Page:
        file = self._parts.files.get(INDEX if request.path == "/" else request.path)
        if file is None:
            raise RefusedError(404, Refusal("there is no such file", "path", request.path))
        fields = (("ETag", file.tag), ASKED_AGAIN)
        if request.one_of("if-none-match") == file.tag:
            return Page((), file.content_type, status=HTTPStatus.NOT_MODIFIED, fields=fields)
        return msgspec.structs.replace(page_of(file, request.accepted), fields=fields)

    def _about(self, person: Person) -> About:
        parts = self._parts
        return about(
            person.rights,
            parts.version,
            user=person.user,
            cluster=parts.cluster,
            can_log_out=person.has_session,
        )

    async def _plan(self, request: Request, person: Person) -> Page:
        _check_sees_all(person)
        reply = await self._parts.asking.ask(_changes(request))
        if reply.problem is not None:
            raise RefusedError(400 if reply.problem.is_input else 503, _refusal(reply.problem))
        return _document(reply.plan)

    def _stream(self, request: Request, person: Person) -> Page:
        if sum(self._streams.values()) >= STREAMS_MAX or (
            self._streams.get(person.user, 0) >= STREAMS_OF_ONE_MAX
        ):
            refusal = Refusal("too many pages watch at once", way_out="close one that is not needed")
            raise RefusedError(503, refusal)
        last_sent = sent_before(request.one_of("last-event-id"))
        # A proxy such as nginx would otherwise collect events before it sends them on.
        fields = (NOT_KEPT, ("X-Accel-Buffering", "no"))
        if request.method == "HEAD":
            return Page((), "text/event-stream", fields=fields)

        async def stream() -> AsyncGenerator[bytes, None]:
            # A browser that left before its first event takes no place.
            self._streams[person.user] = self._streams.get(person.user, 0) + 1
            try:
                viewer = _Watching(self._parts, request)
                async for one in events(viewer, self._parts.source, self._parts.clock, last_sent):
                    yield one
            finally:
                self._left(person.user)

        return Page((), "text/event-stream", fields=fields, stream=stream)

    def _left(self, user: str) -> None:
        self._streams[user] -= 1
        if not self._streams[user]:
            del self._streams[user]

    @property
    def streams(self) -> int:
        """How many browsers watch."""
        return sum(self._streams.values())


class _Watching:
    """The person of a stream, looked up anew each time."""

    def __init__(self, parts: Parts, request: Request) -> None:
        self._parts = parts
        self._request = request

    async def view_rows(self) -> ViewRows:
        """What they may see now. Raises EndedError."""
        try:
            person = await self._parts.login.person(self._request)
        except RefusedError as refused:
            raise EndedError(refused.refusal) from refused
        return self._parts.view_rows_for(person.rights)


def _check_sees_all(person: Person) -> None:
    """Raises RefusedError for a person without sight of the whole cluster: the answer tells of all of it."""
    if not person.rights.sees_all:
        hidden = "; ".join(person.rights.hidden())
        way_out = "the rights of the ClusterRole gpufleet-explain, bound to you by an administrator"
        raise RefusedError(403, Refusal(f"this tells of the whole cluster ({hidden})", way_out=way_out))


def _changes(request: Request) -> WhatChangesBring:
    """The changes of the query, and the manifest that was sent. Raises RefusedError."""
    query = request.target.partition("?")[2]
    try:
        fields = parse_qs(query, max_num_fields=QUERY_FIELDS_MAX, keep_blank_values=True)
    except ValueError as error:
        raise RefusedError(400, Refusal("too many changes", "query", way_out="ask for fewer")) from error
    unknown = sorted(fields.keys() - PLAN_FIELDS)
    if unknown:
        way_out = f"ask for {', '.join(sorted(PLAN_FIELDS))}"
        raise RefusedError(400, Refusal("no such change", "query", unknown[0], way_out))
    try:
        manifest = request.body.decode()
    except UnicodeDecodeError as error:
        raise RefusedError(
            400, Refusal("the manifest is not text in UTF-8", "manifest", way_out="paste YAML or JSON")
        ) from error
    return WhatChangesBring(
        tuple(fields.get("add_nodes", ())),
        tuple(fields.get("remove_node", ())),
        tuple(fields.get("set_quota", ())),
        manifest,
        fields.get("namespace", [""])[-1] or "default",
    )


def _document(document: object, status: HTTPStatus = HTTPStatus.OK) -> Page:
    return Page((msgspec.json.encode(document),), JSON, status=status, fields=(NOT_KEPT,))


def _packed(document: object, request: Request) -> Page:
    """A document that is large on a large fleet, packed where the browser takes that."""
    page = _document(document)
    if not request.accepted.gzip:
        return page
    packed = tuple(gzip.compress(part, compresslevel=1, mtime=0) for part in page.parts)
    return msgspec.structs.replace(page, parts=packed, gzipped=True)


def _refusal(problem: Problem) -> Refusal:
    return Refusal(problem.problem, problem.field, problem.value, problem.way_out, where=problem.where)
