"""A real server on loopback that answers with exactly the bytes of a script, cut as it says."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from gpufleet.kube.access import Endpoint

CERTIFICATES = Path(__file__).parent / "certificates"

Step = bytes | float | None
"""Bytes to write, seconds to wait, or None: close the connection."""


class ByteServer:
    """Answers the n-th request of all connections with the n-th list of steps; then with none."""

    def __init__(self, script: Sequence[Sequence[Step]]) -> None:
        self._script = iter(script)
        self.requests: list[bytes] = []
        self.connections = 0
        self.port = 0
        self.peer_names: list[object] = []
        self.most_at_once = 0
        self._at_once = 0
        self._got_more = asyncio.Event()

    @property
    def endpoint(self) -> Endpoint:
        """Where it listens, without TLS."""
        return Endpoint("127.0.0.1", self.port, tls=False)

    async def has_got(self, requests: int) -> None:
        """Wait until so many requests have come."""
        while len(self.requests) < requests:
            self._got_more.clear()
            await self._got_more.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        peer = writer.get_extra_info("peercert")
        if peer:
            self.peer_names.append(peer["subject"])
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._serve_request(reader, writer):
                    pass
        finally:
            self._at_once -= 1
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.requests.append(head + await reader.readexactly(length))
        self._got_more.set()
        for step in next(self._script, ()):
            if step is None:
                return False
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
            else:
                await asyncio.sleep(step)
        return True


@contextlib.asynccontextmanager
async def serving(*script: Sequence[Step], tls: ssl.SSLContext | None = None) -> AsyncIterator[ByteServer]:
    """A server for the time of a test."""
    scripted = ByteServer(script)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        await scripted.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    scripted.port = server.sockets[0].getsockname()[1]
    try:
        yield scripted
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def server_tls(*, asks_for_client: bool = False) -> ssl.SSLContext:
    """TLS as the server of the tests speaks it: for "localhost" and 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "server.crt", CERTIFICATES / "server.key")
    if asks_for_client:
        context.load_verify_locations(CERTIFICATES / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def within(seconds: float, main: Callable[[], Awaitable[None]]) -> None:
    """Run a test over real sockets; a hang is a failure."""

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await main()

    asyncio.run(bounded())
