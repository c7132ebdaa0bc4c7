"""What a fault is, and the transport through which faults stand in a scheduler's way.

``FaultyTransport`` needs nothing of the simulation: in front of an HTTP transport it does the same to a
real server.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from random import Random
from typing import TYPE_CHECKING

import msgspec

from gpufleet.kube.transport import Request, Response, ResponseStream, Transport, TransportError

if TYPE_CHECKING:
    from gpufleet.simulation.scenario import SchedulerProcess, World


class Fault:
    """A fault that does nothing: each one overrides what it disturbs.

    ``active`` is True while it may act. ``schedulers`` is how many replicas it needs.
    """

    name = ""
    schedulers = 1

    def __init__(self, random: Random) -> None:
        self.random = random
        self.active = False

    async def prepare(self, world: "World") -> None:
        """Before the schedulers start."""

    async def drive(self, world: "World") -> None:
        """While it is active, in a task of its own; cancelled at its end."""

    async def undo(self, world: "World") -> None:
        """Make the world whole again."""

    async def before_call(self, request: Request, owner: "SchedulerProcess | None") -> Response | None:
        """In place of a request: an answer, or TransportError; None lets it pass."""

    async def after_call(
        self, request: Request, response: Response, owner: "SchedulerProcess | None"
    ) -> Response:
        """What becomes of an answer."""
        return response

    async def before_open(self, request: Request) -> Response | None:
        """In place of a watch: an answer, or TransportError; None lets it pass."""

    def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What becomes of the lines of a watch."""
        return lines


class FaultyTransport:
    """A transport with faults in the way, outermost first."""

    def __init__(
        self, inner: Transport, faults: Sequence[Fault], owner: "SchedulerProcess | None" = None
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._owner = owner

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """The answer, as far as faults let it be."""
        async with _in_time(timeout_s):
            for fault in self._faults:
                if fault.active and (answer := await fault.before_call(request, self._owner)) is not None:
                    return answer
        response = await self._inner.call(request, timeout_s=timeout_s)
        async with _in_time(timeout_s):
            for fault in self._faults:
                if fault.active:
                    response = await fault.after_call(request, response, self._owner)
        return response

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch that faults may cut, hush and change."""
        async with _in_time(timeout_s):
            for fault in self._faults:
                if fault.active and (answer := await fault.before_open(request)) is not None:
                    return AnsweredStream(answer)
        return FaultyStream(await self._inner.open(request, timeout_s=timeout_s), self._faults)

    async def close(self) -> None:
        """Close the way beneath."""
        await self._inner.close()


class _in_time:  # noqa: N801 - reads as the statement that it is
    """A fault that keeps a request waiting is cut off by the request's own time limit."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout = asyncio.timeout(timeout_s)
        self._timeout_s = timeout_s

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *error: object) -> None:
        try:
            await self._timeout.__aexit__(*error)  # type: ignore[arg-type]
        except TimeoutError as late:
            raise TransportError(f"no answer within {self._timeout_s} s", reached=True) from late


class AnsweredStream:
    """A whole answer where a watch was asked for."""

    def __init__(self, answer: Response) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.body

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body."""
        yield self._body

    async def close(self) -> None:
        """Nothing to close."""


class FaultyStream:
    """A watch with faults between its lines."""

    def __init__(self, inner: ResponseStream, faults: Sequence[Fault]) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._faults = faults

    def chunks(self) -> AsyncIterator[bytes]:
        """The chunks after all faults."""
        found = self._inner.chunks()
        for fault in self._faults:
            found = fault.chunks(found)
        return found

    async def close(self) -> None:
        """Stop listening."""
        await self._inner.close()


def status(code: int, reason: str, message: str, retry_after_s: int = 0) -> Response:
    """A refusal as a server words it."""
    value: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    value |= {"message": message, "reason": reason, "code": code}
    headers = {"content-type": "application/json"}
    if retry_after_s:
        headers["retry-after"] = str(retry_after_s)
        value["details"] = {"retryAfterSeconds": retry_after_s}
    return Response(code, headers, msgspec.json.encode(value))


def is_binding(request: Request) -> bool:
    """Whether a request binds a pod, in earnest."""
    path, _, query = request.target.partition("?")
    return request.method == "POST" and path.endswith("/binding") and "dryRun" not in query


def is_write(request: Request) -> bool:
    """Whether a request changes something."""
    return request.method != "GET" and "dryRun" not in request.target
