"""Scrapes and probes over real sockets; what a client can cost is bounded."""

import asyncio
import contextlib
import gzip
import socket
from collections.abc import AsyncGenerator
from http import HTTPStatus

import pytest

from gpufleet.daemon import http_server
from gpufleet.daemon.http_server import Health, HttpLimits, HttpServer, Page, Request
from tests.agent.exporter.builders import happens
from tests.daemon.serving import TEXT, asked, get, metrics, serving


def test_metrics_are_served_as_they_lie_there() -> None:
    async def story(serves: HttpServer) -> None:
        head, _, body = (await asked(serves, get("/metrics?name=x"))).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Content-Type: text/plain" in head
        assert f"Content-Length: {len(TEXT)}".encode() in head
        assert b"Content-Encoding" not in head
        assert body == TEXT

    serving(story)


def test_an_answer_leaves_at_once_also_by_a_listener_that_was_made_before() -> None:
    """With Nagle's algorithm the body waits until the client confirms the head."""

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            well = Health(well=True)
            serves = HttpServer(metrics, alive=lambda: well, ready=lambda: well, listener=listener)
            running = asyncio.create_task(serves.run())
            await serves.listening.wait()
            assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.8", True),
        ("*", True),
        ("gzip;q=0", False),
        ("br", False),
        ("gzip;q=x", False),
    ],
)
def test_pages_are_packed_where_a_client_takes_it(accepted: str, packed: bool) -> None:
    async def story(serves: HttpServer) -> None:
        answer = await asked(serves, get("/metrics", f"Accept-Encoding: {accepted}"))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert (b"Content-Encoding: gzip" in head) == packed
        assert (gzip.decompress(body) if packed else body) == TEXT

    serving(story)


@pytest.mark.parametrize("path", ["/health", "/healthz", "/readyz"])
def test_probes_say_ok(path: str) -> None:
    async def story(serves: HttpServer) -> None:
        assert (await asked(serves, get(path))).endswith(b"\r\n\r\nok\n")

    serving(story)


def test_who_is_not_ready_says_why() -> None:
    async def story(serves: HttpServer) -> None:
        answer = await asked(serves, get("/readyz"))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b"\r\n\r\nthe driver does not answer\n")
        assert b" 200 " in await asked(serves, get("/healthz"))

    serving(story, ready=Health(well=False, reasons=("the driver does not answer",)))


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (get("/"), b"404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405 Method Not Allowed"),
        (b"GET /metrics\r\n\r\n", b"400 Bad Request"),
        (b"\r\n\r\n", b"400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", b"400 Bad Request"),
        (b"GET / HTTP/2.0\r\n\r\n", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nHost : x\r\n\r\n", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET /", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nGET /", b"400 Bad Request"),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: +0\r\n\r\n", b"400 Bad Request"),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n", b"431 Request Header Fields Too Large"),
    ],
)
def test_what_is_no_request_for_us_is_refused_and_the_next_is_answered(
    request_text: bytes, status: bytes
) -> None:
    async def story(serves: HttpServer) -> None:
        assert (await asked(serves, request_text)).startswith(b"HTTP/1.1 " + status)
        assert b" 200 OK" in await asked(serves, get("/metrics"))

    serving(story)


def test_a_connection_serves_one_request_after_the_other() -> None:
    async def story(serves: HttpServer) -> None:
        twice = b"HEAD /metrics HTTP/1.1\r\n\r\nGET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n"
        answer = await asked(serves, twice)
        assert answer.count(b"HTTP/1.1 200 OK") == 2
        assert TEXT not in answer
        assert answer.endswith(b"ok\n")
        assert (await asked(serves, b"GET /healthz HTTP/1.0\r\n\r\n")).endswith(b"ok\n")

    serving(story)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [(b"", b""), (b"GET /metr", b"HTTP/1.1 408 "), (get("/healthz")[:-2], b"HTTP/1.1 408 ")],
)
def test_a_request_that_does_not_arrive_in_time_is_not_waited_for(sent: bytes, answer: bytes) -> None:
    async def story(serves: HttpServer) -> None:
        got = await asked(serves, sent)
        assert got.startswith(answer)
        assert bool(got) == bool(answer)

    serving(story, limits=HttpLimits(head_s=0.05))


def test_a_request_that_drips_is_not_waited_for_either() -> None:
    async def story(serves: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", serves.port)

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        assert (await reader.read(20)).startswith(b"HTTP/1.1 408 ")
        dripping.cancel()
        writer.close()

    serving(story, limits=HttpLimits(head_s=0.2))


def test_a_connection_that_is_kept_open_for_nothing_is_closed() -> None:
    async def story(serves: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", serves.port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert (await reader.read()).endswith(b"ok\n")
        writer.close()

    serving(story, limits=HttpLimits(idle_s=0.05))


@pytest.mark.parametrize("limits", [HttpLimits(piece_s=0.05), HttpLimits(answer_s=0.05)])
def test_a_client_that_does_not_read_holds_a_piece_and_is_left(limits: HttpLimits) -> None:
    page = Page((b"x" * 20_000_000,))

    async def story(serves: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", serves.port, limit=1024)
        writer.write(get("/metrics"))
        await happens(lambda: not serves._connections and reader._buffer)  # type: ignore[attr-defined]
        assert b" 200 OK" in await asked(serves, get("/healthz"))
        writer.close()

    serving(story, lambda _: page, limits=limits)


def test_a_client_that_reads_drop_by_drop_is_left_too() -> None:
    page = Page((b"x" * 20_000_000,))

    async def story(serves: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", serves.port, limit=1024)
        writer.write(get("/metrics"))
        got = 0
        with contextlib.suppress(ConnectionError):
            for _ in range(50):
                got += len(await reader.read(1000))
                await asyncio.sleep(0.01)
            while piece := await reader.read(1 << 20):
                got += len(piece)
        assert got < 20_000_000
        writer.close()

    serving(story, lambda _: page, limits=HttpLimits(answer_s=0.2))


@pytest.mark.parametrize("sent", [b"", b"GET /me", b"GET /healthz HTTP/1.1\r\n\r\n", get("/metrics")])
def test_a_probe_is_answered_while_as_many_clients_as_may_be_are_stuck(sent: bytes) -> None:
    page = Page((b"x" * 20_000_000,))

    async def story(serves: HttpServer) -> None:
        held = [await asyncio.open_connection("127.0.0.1", serves.port, limit=1024) for _ in range(3)]
        for _, writer in held:
            writer.write(sent)
        await happens(lambda: len(serves._connections) == 3)
        for _ in range(5):
            assert b" 200 OK" in await asked(serves, get("/healthz"))
        assert len(serves._connections) <= 3
        for _, writer in held:
            writer.close()

    serving(story, lambda _: page, limits=HttpLimits(connections=3))


def test_the_one_that_waits_for_longest_makes_room() -> None:
    async def story(serves: HttpServer) -> None:
        first, first_writer = await asyncio.open_connection("127.0.0.1", serves.port)
        await happens(lambda: len(serves._connections) == 1)
        second, writer = await asyncio.open_connection("127.0.0.1", serves.port)
        await happens(lambda: len(serves._connections) == 2)
        assert b" 200 OK" in await asked(serves, get("/metrics"))
        with contextlib.suppress(ConnectionError):
            assert await first.read() == b""
        writer.write(get("/healthz"))
        assert (await second.read()).endswith(b"ok\n")
        writer.close()
        first_writer.close()

    serving(story, limits=HttpLimits(connections=2))


def test_reasons_hide_nothing() -> None:
    async def story(serves: HttpServer) -> None:
        assert (await asked(serves, get("/readyz"))).endswith(b"\r\n\r\na\\x1b[2J\\nb\\udc80\n")

    serving(story, ready=Health(well=False, reasons=("a\x1b[2J\nb\udc80",)))


def test_a_port_that_is_taken_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "RETRY_S", 0.02)

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            serves = HttpServer(
                metrics,
                alive=lambda: Health(well=True),
                ready=lambda: Health(well=True),
                address="127.0.0.1",
                port=port,
            )
            running = asyncio.create_task(serves.run())
            await happens(lambda: serves.problems() != ())
            assert str(port) in serves.problems()[0]
        async with asyncio.timeout(30):
            await serves.listening.wait()
        assert serves.problems() == ()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(story())


def test_other_paths_are_answered_by_who_asked_for_them() -> None:
    async def others(request: Request) -> Page:
        told = [request.method, request.target, request.path, *request.all_of("x-group")]
        return Page((" ".join(told).encode(),), status=HTTPStatus.ACCEPTED)

    async def story(serves: HttpServer) -> None:
        answer = await asked(serves, get("/one/two?name=X", "X-Group: First", "x-group: second"))
        assert answer.startswith(b"HTTP/1.1 202 Accepted\r\n")
        assert answer.endswith(b"GET /one/two?name=X /one/two First second")
        assert b" 200 OK" in await asked(serves, get("/healthz"))

    serving(story, others=others)


def test_new_figures_are_made_for_who_asks_for_them_and_for_nobody_else() -> None:
    renewed: list[int] = []

    async def renew() -> None:
        renewed.append(len(renewed) + 1)

    async def story(serves: HttpServer) -> None:
        for path, shown in (("/metrics", b"[]"), ("/metrics?newest", b"[1]"), ("/metrics?other", b"[1]")):
            assert (await asked(serves, get(path))).endswith(shown)
        assert b" 200 OK" in await asked(serves, get("/healthz?newest"))
        assert renewed == [1]

    serving(story, lambda _: Page((str(renewed).encode(),)), renew=renew)


def test_an_answer_that_takes_too_long_ends_the_connection() -> None:
    async def never(_: Request) -> Page:
        await asyncio.Event().wait()
        raise AssertionError

    async def story(serves: HttpServer) -> None:
        assert await asked(serves, get("/other")) == b""
        assert b" 200 OK" in await asked(serves, get("/healthz"))

    serving(story, limits=HttpLimits(answer_s=0.05), others=never)


def test_a_stream_is_sent_as_it_comes_and_ends_the_connection() -> None:
    may_go_on = asyncio.Event()

    async def parts() -> AsyncGenerator[bytes, None]:
        yield b"one"
        await may_go_on.wait()
        yield b"two"

    async def others(_: Request) -> Page:
        return Page((), "text/event-stream", fields=(("X-Own", "told"),), stream=parts)

    async def story(serves: HttpServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", serves.port)
        writer.write(b"GET /stream HTTP/1.1\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"X-Own: told\r\n" in head
        assert b"Connection: close\r\n" in head
        assert b"Content-Length" not in head
        assert await reader.readexactly(3) == b"one"
        may_go_on.set()
        assert await reader.read() == b"two"
        writer.close()

    serving(story, others=others)


def test_a_stream_makes_no_part_before_the_one_before_was_taken_and_ends_with_its_client() -> None:
    made: list[int] = []
    ended = asyncio.Event()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                made.append(1)
                yield b"x" * 1_000_000
        finally:
            ended.set()

    async def others(_: Request) -> Page:
        return Page((), stream=parts)

    async def story(serves: HttpServer) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", serves.port, limit=1024)
        writer.write(get("/stream"))
        await ended.wait()
        assert len(made) < 20
        writer.close()

    serving(story, limits=HttpLimits(piece_s=0.2), others=others)


async def echo(request: Request) -> Page:
    """The body, and from where it came."""
    return Page((request.body, b" from ", request.peer.encode()))


def posted(body: bytes, *fields: str) -> bytes:
    lines = ["POST /echo HTTP/1.1", "Connection: close", *fields, "", ""]
    return "\r\n".join(lines).encode() + body


def test_a_body_is_taken_whole_where_there_is_room_for_it() -> None:
    body = b"kind: Pod\r\n\r\n" * 5000

    async def story(serves: HttpServer) -> None:
        answer = await asked(serves, posted(body, f"Content-Length: {len(body)}"))
        assert answer.partition(b"\r\n\r\n")[2] == body + b" from 127.0.0.1"

    serving(story, others=echo, methods=("GET", "POST"), limits=HttpLimits(body_bytes=len(body)))


@pytest.mark.parametrize(
    ("length", "room", "status"),
    [
        ("11", 10, b"413 "),
        ("9" * 5000, 10, b"411 "),
        ("5", 0, b"400 "),
        ("-1", 10, b"411 "),
        ("x", 10, b"411 "),
        ("5\r\nContent-Length: 6", 10, b"400 "),
    ],
)
def test_a_body_that_is_too_large_or_not_expected_is_refused_before_it_is_read(
    length: str, room: int, status: bytes
) -> None:
    async def story(serves: HttpServer) -> None:
        answer = await asked(serves, posted(b"", f"Content-Length: {length}"))
        assert answer.startswith(b"HTTP/1.1 " + status)
        assert answer.count(b"HTTP/1.1") == 1

    serving(story, others=echo, methods=("GET", "POST"), limits=HttpLimits(body_bytes=room))


def test_a_body_that_does_not_arrive_in_time_is_not_waited_for() -> None:
    async def story(serves: HttpServer) -> None:
        answer = await asked(serves, posted(b"half", "Content-Length: 8"))
        assert answer.startswith(b"HTTP/1.1 408 ")

    serving(story, others=echo, methods=("GET", "POST"), limits=HttpLimits(body_bytes=10, head_s=0.05))
