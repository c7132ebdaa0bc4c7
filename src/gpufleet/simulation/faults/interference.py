"""What a fault is, and the transport through which faults stand in a scheduler's way.

``FaultyTransport`` needs nothing of the simulation: in front of an HTTP transport it does the same to a
real server.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random

import msgspec

from gpufleet.kube.transport import Request, Response, ResponseStream, Transport, TransportError
from gpufleet.simulation.world import SchedulerProcess, World


class Fault:
    """A fault that does nothing: each one overrides what it disturbs.

    ``active`` is True while it may act. ``schedulers`` is how many replicas it needs, ``lasts_s`` how long at
    least it has to act, ``acted`` how often it did: a fault that never acted proves nothing. ``blinds_s`` is
    set where no scheduler can see or act while it lasts, and so long after it: no scheduler can keep a
    deadline meanwhile.
    """

    name = ""
    schedulers = 1
    lasts_s = 0.0
    blinds_s: float | None = None

    def __init__(self, random: Random) -> None:
        self.random = random
        self.active = False
        self.acted = 0

    def chance(self, probability: float) -> bool:
        """Whether it acts this time."""
        acts = self.active and self.random.random() < probability
        self.acted += acts
        return acts

    async def prepare(self, world: World) -> None:
        """Before the schedulers start."""

    async def drive(self, world: World) -> None:
        """While it is active, in a task of its own; cancelled at its end."""

    async def undo(self, world: World) -> None:
        """Make the world whole again."""

    def rewrite(self, request: Request) -> Request:
        """What becomes of a request on its way."""
        return request

    async def before_call(
        self,
        request: Request,
        owner: SchedulerProcess | None,
    ) -> Response | None:
        """An answer, or TransportError, in place of a request; None lets it pass."""
        return None

    async def after_call(
        self, request: Request, response: Response, owner: SchedulerProcess | None
    ) -> Response:
        """What becomes of an answer."""
        return response

    async def before_open(
        self,
        request: Request,
    ) -> Response | ResponseStream | None:
        """An answer, another watch or TransportError in place of a watch; None lets it pass."""
        return None

    def chunks(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What becomes of the lines of a watch."""
        return lines


class FaultyTransport:
    """A transport with faults in the way, outermost first."""

    def __init__(
        self, inner: Transport, faults: Sequence[Fault], owner: SchedulerProcess | None = None
    ) -> None:
        self._inner = inner
        self._faults = faults
        self._owner = owner

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """The answer, as far as faults let it be."""
        async with _in_time(timeout_s):
            for fault in self._faults:
                if fault.active:
                    request = fault.rewrite(request)
                if fault.active and (answer := await fault.before_call(request, self._owner)) is not None:
                    return answer
        # Outside of the time limits of faults: the transport beneath has its own.
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
                answer = await fault.before_open(request) if fault.active else None
                if isinstance(answer, Response):
                    return AnsweredStream(answer)
                if answer is not None:
                    return FaultyStream(answer, self._faults)
        return FaultyStream(await self._inner.open(request, timeout_s=timeout_s), self._faults)

    async def close(self) -> None:
        """Close the way beneath."""
        await self._inner.close()


@asynccontextmanager
async def _in_time(timeout_s: float) -> AsyncIterator[None]:
    """A fault that keeps a request waiting is cut off by the request's own time limit."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except TimeoutError as late:
        raise TransportError(f"no answer within {timeout_s} s", reached=True) from late


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
        self._closed = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks after all faults; a fault that hushes a watch does not keep it from being closed."""
        found = self._inner.chunks()
        for fault in self._faults:
            found = fault.chunks(found)
        closing = asyncio.ensure_future(self._closed.wait())
        getting: asyncio.Future[bytes | None] | None = None
        try:
            while not self._closed.is_set():
                getting = asyncio.ensure_future(_next(found))
                await asyncio.wait([getting, closing], return_when=asyncio.FIRST_COMPLETED)
                if not getting.done():
                    return
                chunk = getting.result()
                if chunk is None:
                    return
                yield chunk
        finally:
            # The reader may also be cancelled, or stop between two chunks.
            closing.cancel()
            if getting is not None:
                getting.cancel()
                await asyncio.wait([getting])

    async def close(self) -> None:
        """Stop listening."""
        self._closed.set()
        await self._inner.close()


async def _next(found: AsyncIterator[bytes]) -> bytes | None:
    return await anext(found, None)


async def whole_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a watch, one at a time, wherever its chunks were cut."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def status(
    code: int, reason: str, message: str, retry_after_s: int = 0, causes: Sequence[dict[str, str]] = ()
) -> Response:
    """A refusal as a server words it."""
    value: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    value |= {"message": message, "reason": reason, "code": code}
    headers = {"content-type": "application/json"}
    if retry_after_s:
        headers["retry-after"] = str(retry_after_s)
        value["details"] = {"retryAfterSeconds": retry_after_s}
    if causes:
        value["details"] = {"causes": list(causes)}
    return Response(code, headers, msgspec.json.encode(value))


def is_binding(request: Request) -> bool:
    """Whether a request binds a pod, in earnest."""
    path, _, query = request.target.partition("?")
    return request.method == "POST" and path.endswith("/binding") and "dryRun" not in query


def is_write(request: Request) -> bool:
    """Whether a request changes something."""
    return request.method != "GET" and "dryRun" not in request.target
