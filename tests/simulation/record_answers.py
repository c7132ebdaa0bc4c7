"""Asks a real kube-apiserver the conformance cases and keeps its answers beside this file.

``python -m tests.simulation.record_answers HOST PORT``; the token of an administrator is read from the
environment variable KUBE_TOKEN. For a throw-away server only: it deletes what the cases make.
"""

import asyncio
import http.client
import os
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from gpufleet.kube.transport import Request, Response, ResponseStream
from tests.simulation.conformance_cases import CASES, tell

ANSWERS = Path(__file__).with_name("kubernetes_answers.json")


class PlainTransport:
    """The standard library's HTTP behind the transport seam, one request a connection."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._where = host, port
        self._token = token

    def _send(self, request: Request) -> http.client.HTTPResponse:
        unverified = ssl.create_default_context()
        unverified.check_hostname = False
        unverified.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(*self._where, context=unverified, timeout=60)
        headers = {"Authorization": f"Bearer {self._token}", "Accept": request.accept}
        headers["Content-Type"] = request.content_type
        try:
            connection.request(request.method, request.target, request.body, headers)
            return connection.getresponse()
        except BaseException:
            connection.close()
            raise

    async def call(self, request: Request, *, timeout_s: float) -> Response:
        """The whole answer."""
        async with asyncio.timeout(timeout_s):
            found = await asyncio.to_thread(self._send, request)
            return Response(found.status, {}, await asyncio.to_thread(found.read))

    async def open(self, request: Request, *, timeout_s: float) -> ResponseStream:
        """A watch."""
        async with asyncio.timeout(timeout_s):
            return PlainStream(await asyncio.to_thread(self._send, request))

    async def close(self) -> None:
        """Nothing is kept open."""


class PlainStream:
    """A watch, line by line."""

    def __init__(self, found: http.client.HTTPResponse) -> None:
        self.headers: dict[str, str] = {}
        self.status = found.status
        self._found = found

    async def chunks(self) -> AsyncIterator[bytes]:
        """Lines until the server ends."""
        while text := await asyncio.to_thread(self._found.readline):
            yield text

    async def close(self) -> None:
        """Hang up."""
        self._found.close()


async def record(host: str, port: int, token: str) -> None:
    """All cases, written as one JSON document."""
    transport = PlainTransport(host, port, token)
    told = {case.__name__: await tell(case, transport) for case in CASES}
    ANSWERS.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1], int(sys.argv[2]), os.environ["KUBE_TOKEN"]))
