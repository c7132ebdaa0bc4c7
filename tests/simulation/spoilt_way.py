"""A way to the simulated API server on which answers to some requests are replaced, or lost.

way = SpoiltWay(transport, clock, "/eviction")
way.spoilt = [too_many(3), LOST]
"""

import enum
from collections.abc import Callable

import msgspec

from gpufleet.kube.clock import Clock
from gpufleet.kube.transport import Request, Response, ResponseStream, Transport, TransportError


class Lost(enum.Enum):
    """What does not come back."""

    REQUEST = "the request never arrives"
    ANSWER = "the request is carried out, and its answer is lost"


Spoilt = Response | Lost | Callable[[], None]
"""What comes instead of an answer. A function is called first; then the server answers."""


def refused(code: int, message: str, *causes: str, retry_after_s: int | None = None) -> Response:
    """A refusal of the server."""
    details: dict[str, object] = {"causes": [{"reason": one} for one in causes]}
    headers = {}
    if retry_after_s is not None:
        details["retryAfterSeconds"] = retry_after_s
        headers["retry-after"] = str(retry_after_s)
    status = {"kind": "Status", "status": "Failure", "code": code, "message": message, "details": details}
    return Response(code, headers, msgspec.json.encode(status))


def too_many(retry_after_s: int, *causes: str) -> Response:
    """A 429 with a Retry-After, by the causes that are named."""
    return refused(429, "later", *causes, retry_after_s=retry_after_s)


class SpoiltWay:
    """Passes requests on; of those whose path ends as ``part`` says, the next ones are spoilt."""

    def __init__(self, inner: Transport, clock: Clock, part: str) -> None:
        self.inner = inner
        self.clock = clock
        self.part = part
        self.spoilt: list[Spoilt] = []
        self.lasts_s = 0.0
        """How much longer the server works on a request of that path."""
        self.asked: list[tuple[float, str]] = []
        """Every request of that path: when, and its target."""

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """The next spoilt answer, else the server's."""
        if not request.target.partition("?")[0].endswith(self.part):
            return await self.inner.call(request, timeout_s=timeout_s)
        self.asked.append((self.clock.monotonic_s(), request.target))
        await self.clock.sleep(self.lasts_s)
        spoilt = self.spoilt.pop(0) if self.spoilt else None
        if isinstance(spoilt, Response):
            return spoilt
        if callable(spoilt) and not isinstance(spoilt, Lost):
            spoilt()
        if spoilt is not Lost.REQUEST:
            answer = await self.inner.call(request, timeout_s=timeout_s)
            if spoilt is not Lost.ANSWER:
                return answer
        raise TransportError("connection reset by peer", reached=True)

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch, as it is."""
        return await self.inner.open(request, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close the way beneath."""
        await self.inner.close()
