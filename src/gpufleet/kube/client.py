"""The verbs of the Kubernetes API over any transport.

Reads are tried again within a budget when the server or the way to it fails. A write is repeated
only where the server surely did nothing: the connection was never made, or it answered "come back
later" (429, or 503 with Retry-After). Any other failure of a write is ``OutcomeUnknown``; see
``unknown_outcome`` for what to do then. Answers are bytes; ``answer.decode`` reads them with a decoder of
the caller's choice. ``mirror`` keeps a local copy of a kind on top of ``list_pages`` and ``watch``.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

import msgspec

from gpufleet.kube.backoff import ONE_TRY, RETRY_LIMITS, Backoff, RetryLimits
from gpufleet.kube.clock import Clock
from gpufleet.kube.discovery import read_kinds, read_versions, takes_new
from gpufleet.kube.kube_errors import KubeError, TransportError
from gpufleet.kube.listing import ALL, Page, Selection, read_page, with_query
from gpufleet.kube.resources import PODS, Kind
from gpufleet.kube.status import (
    NotFound,
    ServerFailure,
    StatusError,
    TooManyRequests,
    Unavailable,
    response_error,
)
from gpufleet.kube.transport import (
    LARGEST_BODY_BYTES,
    LARGEST_OBJECT_BYTES,
    Request,
    Response,
    ResponseStream,
    Transport,
)
from gpufleet.kube.unknown_outcome import AskedWrite, OutcomeUnknown
from gpufleet.kube.watch_stream import Watch
from gpufleet.kube.write_bodies import (
    Binding,
    BindingMeta,
    BindingTarget,
    DeleteOptions,
    Eviction,
    EvictionMeta,
    preconditions,
)

Value = TypeVar("Value")

PAGE_SIZE = 500
"""Objects in one page of a list, as kubectl and client-go ask for."""

WATCH_S = 300
"""The server ends a watch after so long, so that watches spread over its replicas anew."""

# A server ends its requests after a minute; a little more lets its own word arrive.
CALL_TIMEOUT_S = 65.0
REFUSAL_MAX_BYTES = 1024 * 1024
"""Why a server refuses to stream: a Status has some hundred bytes."""


class PatchType(StrEnum):
    """How a patch is meant; the content types of the API."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Client:
    """One API server's verbs. ``jitter`` spreads retries; seeded in tests and in the simulation."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        jitter: random.Random,
        *,
        retry_limits: RetryLimits = RETRY_LIMITS,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.jitter = jitter
        self.retry_limits = retry_limits
        self.timeout_s = timeout_s

    async def get(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str = "",
        subresource: str = "",
        retry_limits: RetryLimits | None = None,
    ) -> bytes:
        """One object, as new as the server's storage. Raises NotFound and other StatusErrors."""
        target = kind.item(name, namespace, subresource)
        return await self.read(target, retry_limits=retry_limits, most_bytes=LARGEST_OBJECT_BYTES)

    async def read(
        self, target: str, *, retry_limits: RetryLimits | None = None, most_bytes: int = LARGEST_BODY_BYTES
    ) -> bytes:
        """The body at a path and query."""
        return (await self.answer(target, retry_limits=retry_limits, most_bytes=most_bytes)).body

    async def answer(
        self, target: str, *, retry_limits: RetryLimits | None = None, most_bytes: int = LARGEST_BODY_BYTES
    ) -> Response:
        """The body at a path and query, with the headers beside it."""
        request = Request("GET", target, most_bytes=most_bytes)

        async def once() -> Response:
            return self._checked(await self.transport.call(request, timeout_s=self.timeout_s))

        return await self._persistently(once, _read_may_be_repeated, retry_limits)

    async def list_pages(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        selection: Selection = ALL,
        page_size: int = PAGE_SIZE,
        retry_limits: RetryLimits | None = None,
    ) -> AsyncIterator[Page]:
        """The pages of one list, all of one resourceVersion, as new as the server's storage.

        Raises Gone where the server forgot that version between two pages: throw away what came
        and begin again.
        """
        # Without resourceVersion=0: what a server has in its cache may be older than what is known here.
        query = {"limit": str(page_size), **selection.query()}
        while True:
            page = read_page(
                await self.read(with_query(kind.collection(namespace), query), retry_limits=retry_limits)
            )
            yield page
            if not page.metadata.continue_:
                return
            # The token holds the version of the list, and counts only with the selectors of its first page.
            query["continue"] = page.metadata.continue_

    async def watch(
        self,
        kind: Kind,
        resource_version: str,
        *,
        namespace: str = "",
        selection: Selection = ALL,
        lasts_s: int = WATCH_S,
    ) -> Watch:
        """The changes after a resourceVersion, with bookmarks, until the server ends it.

        Tried once: the watching mirror counts failures and pauses itself. Raises Gone where that version is
        forgotten.
        """
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(lasts_s),
            **selection.query(),
        }
        request = Request("GET", with_query(kind.collection(namespace), query))
        # Opened and not called: a watch's answer ends only with the watch.
        stream = await self.transport.open(request, timeout_s=self.timeout_s)
        if stream.status < 300:
            return Watch(stream)
        try:
            async with asyncio.timeout(self.timeout_s):
                body = await _refusal(stream)
        # A refusal counts by its status, though its words were lost.
        except (TransportError, TimeoutError):
            body = b""
        finally:
            await stream.close()
        raise response_error(Response(stream.status, stream.headers, body), self.clock.now())

    async def create(
        self,
        kind: Kind,
        body: object,
        *,
        name: str = "",
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
        retry_limits: RetryLimits | None = None,
    ) -> bytes:
        """POST an object, or one into a subresource of ``name``.

        ``body`` is bytes that are sent as they are, or anything that msgspec can write as JSON.
        For an object with a name of its own give ``name`` too if an unknown outcome shall be read
        back; it is part of the path only with a subresource.
        """
        path = kind.item(name, namespace, subresource) if subresource else kind.collection(namespace)
        # What was asked goes along with an unknown outcome, so that the caller can read the object back.
        asked = AskedWrite("create", kind, name, namespace, subresource)
        request = Request("POST", with_query(path, _write_query(dry_run=dry_run)), _encoded(body))
        return await self._write(request, asked, retry_limits)

    async def replace(
        self,
        kind: Kind,
        name: str,
        body: object,
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
        retry_limits: RetryLimits | None = None,
    ) -> bytes:
        """PUT a whole object; with ``metadata.resourceVersion`` in it, Conflict if it has changed."""
        path = kind.item(name, namespace, subresource)
        asked = AskedWrite("replace", kind, name, namespace, subresource)
        request = Request("PUT", with_query(path, _write_query(dry_run=dry_run)), _encoded(body))
        return await self._write(request, asked, retry_limits)

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: object,
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        dry_run: bool = False,
        field_manager: str = "",
        force: bool = False,
        retry_limits: RetryLimits | None = None,
    ) -> bytes:
        """PATCH an object. Server-side apply needs ``field_manager``; ``force`` takes fields over."""
        query = _write_query(dry_run=dry_run, field_manager=field_manager, force=force)
        asked = AskedWrite("patch", kind, name, namespace, subresource)
        path = kind.item(name, namespace, subresource)
        request = Request("PATCH", with_query(path, query), _encoded(body), content_type=patch_type.value)
        return await self._write(request, asked, retry_limits)

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_s: int | None = None,
        propagation: str = "",
        dry_run: bool = False,
        retry_limits: RetryLimits | None = None,
    ) -> bytes:
        """DELETE an object; Conflict if it is not of this uid or resourceVersion any more.

        ``propagation`` is "Foreground", "Background" or "Orphan"; empty leaves it to the server.
        """
        options = DeleteOptions(
            preconditions=preconditions(uid, resource_version),
            grace_period_seconds=grace_s,
            propagation_policy=propagation or None,
        )
        path = kind.item(name, namespace)
        request = Request("DELETE", with_query(path, _write_query(dry_run=dry_run)), _encoded(options))
        return await self._write(request, AskedWrite("delete", kind, name, namespace), retry_limits)

    async def bind(
        self,
        name: str,
        *,
        namespace: str,
        uid: str,
        node: str,
        annotations: dict[str, str] | None = None,
        dry_run: bool = False,
        retry_limits: RetryLimits | None = None,
    ) -> None:
        """Give a pod its node and these annotations in one write.

        Raises Conflict if the pod has a node already or is not of this uid, NotFound if it is gone.
        """
        body = Binding(BindingMeta(name, namespace, uid, annotations or None), BindingTarget(node))
        await self.create(
            PODS,
            body,
            name=name,
            namespace=namespace,
            subresource="binding",
            dry_run=dry_run,
            retry_limits=retry_limits,
        )

    async def evict(
        self,
        name: str,
        *,
        namespace: str,
        uid: str = "",
        grace_s: int | None = None,
        annotations: dict[str, str] | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for the end of a pod, if its disruption budgets allow.

        ``annotations`` are of the request, for admission policies; nothing keeps them.
        Raises TooManyRequests where they do not: never repeated here, the caller has better to do.
        """
        body = Eviction(
            EvictionMeta(name, namespace, annotations or {}),
            DeleteOptions(preconditions=preconditions(uid), grace_period_seconds=grace_s),
        )
        await self.create(
            PODS,
            body,
            name=name,
            namespace=namespace,
            subresource="eviction",
            dry_run=dry_run,
            # A refusal by a budget is the answer here, and the caller counts its pauses over all pods.
            retry_limits=ONE_TRY,
        )

    async def read_back(self, unknown: OutcomeUnknown) -> bytes | None:
        """The object that a write of unknown outcome was about, as it is now; None if there is none.

        For a write into a subresource, the object that it belongs to.
        """
        asked = unknown.asked
        # A name that the server makes up is not known before its answer, so nothing can be looked up by it.
        if not asked.name:
            raise unknown
        try:
            return await self.get(asked.kind, asked.name, namespace=asked.namespace)
        except NotFound:
            return None

    async def kinds(self, group: str, version: str) -> tuple[Kind, ...]:
        """What the server serves of a group's version; nothing if it knows neither."""
        root = Kind(group, version, "", "").root
        try:
            return read_kinds(await self.read(root), group, version)
        except NotFound:
            return ()

    async def serves(self, kind: Kind) -> bool:
        """Whether the server serves this kind in this version."""
        return any(known.plural == kind.plural for known in await self.kinds(kind.group, kind.version))

    async def takes_new(self, kind: Kind) -> bool:
        """Whether the server serves this kind and takes new objects: a kind that is going away takes none."""
        root = Kind(kind.group, kind.version, "", "").root
        try:
            return takes_new(await self.read(root), kind.plural)
        except NotFound:
            return False

    async def versions(self, group: str) -> tuple[str, ...]:
        """The versions of a group that the server serves, its preferred one first."""
        try:
            return read_versions(await self.read(f"/apis/{group}"))
        except NotFound:
            return ()

    async def _write(self, request: Request, asked: AskedWrite, retry_limits: RetryLimits | None) -> bytes:
        async def once() -> bytes:
            try:
                response = await self.transport.call(request, timeout_s=self.timeout_s)
            except TransportError as error:
                # The request went out: the server may have written before the connection broke.
                if error.reached:
                    raise OutcomeUnknown(asked, error) from error
                raise
            if response.status < 300:
                return response.body
            refusal = response_error(response, self.clock.now())
            # A 5xx does not say that nothing was written: etcd may have the object all the same.
            if isinstance(refusal, ServerFailure) and not _came_too_early(refusal):
                raise OutcomeUnknown(asked, refusal, refusal.retry_after_s) from refusal
            raise refusal

        return await self._persistently(once, _write_may_be_repeated, retry_limits)

    def _checked(self, response: Response) -> Response:
        if response.status < 300:
            return response
        raise response_error(response, self.clock.now())

    async def _persistently(
        self,
        once: Callable[[], Awaitable[Value]],
        may_be_repeated: Callable[[KubeError], bool],
        retry_limits: RetryLimits | None,
    ) -> Value:
        retry_limits = retry_limits or self.retry_limits
        backoff = Backoff(retry_limits, self.jitter)
        began_s = self.clock.monotonic_s()
        while True:
            try:
                return await once()
            except KubeError as error:
                # Failures are counted with the next pause, so this one is not among them yet.
                if backoff.failures + 1 >= retry_limits.attempts or not may_be_repeated(error):
                    raise
                pause_s = backoff.next_s(error.retry_after_s if isinstance(error, StatusError) else None)
                # A pause that ends beyond the budget would only delay the error.
                if self.clock.monotonic_s() - began_s + pause_s > retry_limits.budget_s:
                    raise
            await self.clock.sleep(pause_s)


def _read_may_be_repeated(error: KubeError) -> bool:
    return isinstance(error, TransportError | ServerFailure | TooManyRequests)


def _write_may_be_repeated(error: KubeError) -> bool:
    if isinstance(error, TransportError):
        return not error.reached
    # The server says that it did nothing: only then a write cannot happen twice.
    return isinstance(error, TooManyRequests) or _came_too_early(error)


async def _refusal(stream: ResponseStream) -> bytes:
    """The body of a refusal to stream; empty where it is longer than ``REFUSAL_MAX_BYTES``."""
    body = b""
    async for chunk in stream.chunks():
        body += chunk
        if len(body) > REFUSAL_MAX_BYTES:
            return b""
    return body


def _came_too_early(error: KubeError) -> bool:
    """The server says when to come back, so it did not act (RFC 9110, 15.6.4)."""
    return isinstance(error, Unavailable) and error.retry_after_s is not None


def _encoded(body: object) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _write_query(*, dry_run: bool, field_manager: str = "", force: bool = False) -> dict[str, str]:
    chosen = {
        "dryRun": "All" if dry_run else "",
        "fieldManager": field_manager,
        "force": "true" if force else "",
    }
    return {key: value for key, value in chosen.items() if value}
