"""A server that says exactly what a test wrote down, in bytes, and remembers what it was asked."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.transport import Request, Response

BROKEN = TransportError("the connection broke", reached=True)
UNREACHABLE = TransportError("nobody listens", reached=False)


class ScriptedStream:
    """Chunks that come one after another; an exception among them is raised, a number is waited."""

    def __init__(self, *chunks: bytes | Exception | float, status: int = 200) -> None:
        self.status = status
        self.headers: dict[str, str] = {}
        self.closed = False
        self._chunks = chunks

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of the script."""
        for chunk in self._chunks:
            if isinstance(chunk, Exception):
                raise chunk
            if isinstance(chunk, int | float):
                await asyncio.sleep(chunk)
            else:
                yield chunk

    async def close(self) -> None:
        """Note that it was closed."""
        self.closed = True


Answer = Response | ScriptedStream | Exception


class ScriptedTransport:
    """Answers in the order of the script; past its end it hangs, as a server that died."""

    def __init__(self, *script: Answer) -> None:
        self.script: deque[Answer] = deque(script)
        self.asked: list[Request] = []
        self.asked_at_s: list[float] = []

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """The next answer."""
        answer = await self._next(request, timeout_s)
        assert isinstance(answer, Response), f"{request.method} {request.target} was to be a watch"
        return answer

    async def open(self, request: Request, *, timeout_s: float) -> ScriptedStream:
        """The next answer, as a stream."""
        answer = await self._next(request, timeout_s)
        if isinstance(answer, Response):
            return ScriptedStream(answer.body, status=answer.status)
        return answer

    async def close(self) -> None:
        """Forget what was still to come."""
        self.script.clear()

    async def _next(self, request: Request, timeout_s: float) -> Response | ScriptedStream:
        self.asked.append(request)
        self.asked_at_s.append(asyncio.get_running_loop().time())
        if not self.script:
            await asyncio.sleep(timeout_s)
            raise TransportError("no answer in time", reached=True)
        answer = self.script.popleft()
        if isinstance(answer, Exception):
            raise answer
        return answer


def answer(body: object = None, status: int = 200, **headers: str) -> Response:
    """An answer with a JSON body; `retry_after` becomes the header retry-after."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, named, b"" if body is None else json.dumps(body).encode())


def refusal(code: int, reason: str = "", message: str = "", **headers: str) -> Response:
    """A Status object as an API server sends it."""
    return answer(status(code, reason, message), code, **headers)


def status(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def item(name: str, version: int, uid: str = "", **fields: Any) -> dict[str, Any]:
    """An object of namespace "default"."""
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"metadata": metadata, **fields}


def page(items: Sequence[dict[str, Any]], version: int, more: str = "") -> Response:
    return answer({"metadata": {"resourceVersion": str(version), "continue": more}, "items": list(items)})


def event(kind: str, body: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": body}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})
