"""A server for the time of a test, and a client that asks it over a real socket."""

import asyncio
import contextlib
import gzip
import ssl
from collections.abc import Awaitable, Callable

from gpufleet.daemon.http_server import (
    LIMITS,
    READING,
    Accepted,
    Answering,
    Health,
    HttpLimits,
    HttpServer,
    Page,
    nothing_else,
    nothing_to_renew,
)
from gpufleet.daemon.server_certificate import ServerCertificate

TEXT = b"# TYPE m gauge\nm 1\n"
Story = Callable[[HttpServer], Awaitable[None]]


def metrics(accepted: Accepted) -> Page:
    return Page((gzip.compress(TEXT),), gzipped=True) if accepted.gzip else Page((TEXT[:5], TEXT[5:]))


def serving(
    story: Story,
    page: Callable[[Accepted], Page] = metrics,
    *,
    ready: Health | None = None,
    certificate: ServerCertificate | None = None,
    limits: HttpLimits = LIMITS,
    others: Answering = nothing_else,
    methods: tuple[str, ...] = READING,
    renew: Callable[[], Awaitable[None]] = nothing_to_renew,
) -> None:
    """A server on a free port, and what happens with it."""

    async def run() -> None:
        serves = HttpServer(
            page,
            alive=lambda: Health(well=True),
            ready=lambda: ready or Health(well=True),
            address="127.0.0.1",
            port=0,
            certificate=certificate,
            limits=limits,
            others=others,
            methods=methods,
            renew=renew,
        )
        running = asyncio.create_task(serves.run())
        try:
            async with asyncio.timeout(30):
                await serves.listening.wait()
                await story(serves)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


async def asked(serves: HttpServer, request: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    """All that comes back until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", serves.port, ssl=tls)
    writer.write(request)
    answer = b""
    # A server that leaves the rest of a request unread ends the connection with a reset.
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(1 << 16):
            answer += piece
    writer.close()
    return answer


def get(path: str, *fields: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: x", "Connection: close", *fields, "", ""]).encode()
