"""Over real sockets: what a request says, which connection it takes, and what a failure means."""

import asyncio
import random
import socket
import ssl

import pytest

from gpufleet.kube.access import Endpoint, PlainAccess
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.http_connection import STREAM_HOLDS_BYTES
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.resources import PODS
from gpufleet.kube.status import ServerFailure
from gpufleet.kube.transport import Request
from gpufleet.model.model_errors import InternalError
from tests.kube.byte_server import CERTIFICATES, ByteServer, Step, server_tls, serving, within
from tests.kube.open_sockets import connected_to

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
TOKEN = "secret-token"  # noqa: S105  (of nothing)
READ = Request("GET", "/api")
WRITE = Request("POST", "/api/v1/pods", b"{}")


def client_tls(*, with_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(CERTIFICATES / "ca.crt"))
    if with_certificate:
        context.load_cert_chain(CERTIFICATES / "client.crt", CERTIFICATES / "client.key")
    return context


async def failure(transport: HttpTransport, request: Request, timeout_s: float = 5.0) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await transport.call(request, timeout_s=timeout_s)
    await transport.close()
    return caught.value


def transport_to(server: ByteServer, **settings: int) -> HttpTransport:
    return HttpTransport(PlainAccess(server.endpoint, token=TOKEN), **settings)


def test_request_as_it_stands_on_the_wire() -> None:
    async def main() -> None:
        async with serving([OK], [OK]) as server:
            transport = transport_to(server)
            await transport.call(Request("GET", "/api/v1/pods?limit=5"), timeout_s=5)
            response = await transport.call(Request("PATCH", "/x", b"{}", "a/b", "c/d"), timeout_s=5)
            await transport.close()
        assert (response.status, response.body) == (200, b"ok")
        read, write = (request.decode().split("\r\n") for request in server.requests)
        assert read[:2] == ["GET /api/v1/pods?limit=5 HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
        assert {"Authorization: Bearer secret-token", "Accept: application/json"} <= set(read)
        assert not any(line.startswith("Content-") for line in read)
        assert {"Content-Type: a/b", "Accept: c/d", "Content-Length: 2"} <= set(write)
        assert write[-1] == "{}"
        assert server.connections == 1

    within(10, main)


@pytest.mark.parametrize("target", ["", "x", "/a b", "/a\r\nX: y", "/\u00e4", "http://else/where"])
def test_target_cannot_smuggle_a_header(target: str) -> None:
    async def main() -> None:
        async with serving([OK]) as server:
            transport = transport_to(server)
            with pytest.raises(InternalError):
                await transport.call(Request("GET", target), timeout_s=5)
            await transport.close()
        assert not server.requests

    within(10, main)


@pytest.mark.parametrize("request_", [READ, WRITE])
def test_nobody_listens(request_: Request) -> None:
    async def main() -> None:
        async with serving() as server:
            endpoint = server.endpoint
        error = await failure(HttpTransport(PlainAccess(endpoint)), request_)
        assert not error.reached
        assert f"127.0.0.1:{endpoint.port}" in str(error)

    within(10, main)


@pytest.mark.parametrize(
    "steps",
    [
        [None],
        [b"HTTP/1.1 200", None],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", None],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n", None],
        [b"no http at all\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nabc"],
        [60.0],
    ],
)
def test_request_that_got_no_whole_answer_may_have_reached_the_server(steps: list[Step]) -> None:
    async def main() -> None:
        async with serving(steps) as server:
            error = await failure(transport_to(server), WRITE, timeout_s=0.2)
        assert error.reached
        assert "secret-token" not in str(error)
        assert len(server.requests) == 1

    within(10, main)


def test_answer_in_small_pieces() -> None:
    async def main() -> None:
        slow: list[Step] = []
        for byte in OK:
            slow += [bytes([byte]), 0.0]
        async with serving(slow) as server:
            transport = transport_to(server)
            assert (await transport.call(READ, timeout_s=5)).body == b"ok"
            await transport.close()

    within(10, main)


@pytest.mark.parametrize(
    "steps",
    [
        [piece for byte in b"HTTP/1.1 200 OK" + b" " * 500 for piece in (bytes([byte]), 0.02)],
        [b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n", 0.02] * 200],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", *[b"x", 0.02] * 900],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *[b"1\r\nx\r\n", 0.02] * 900],
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", *[b"a: b\r\n", 0.02] * 900],
    ],
)
def test_an_answer_that_drips_has_the_time_of_a_whole_one(steps: list[Step]) -> None:
    async def main() -> None:
        async with serving(steps) as server:
            error = await failure(transport_to(server), READ, timeout_s=0.3)
            assert "no answer in time" in str(error)

    within(10, main)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"400\r\n" + b"x" * 1024 + b"\r\n") * 4,
    ],
)
def test_an_answer_is_no_longer_than_its_request_expects(answer: bytes) -> None:
    async def main() -> None:
        async with serving([answer]) as server:
            asked = Request("GET", "/api/v1/pods/p", most_bytes=1000)
            error = await failure(transport_to(server), asked)
            assert "the answer is larger than 1000 bytes" in str(error)

    within(10, main)


def test_read_on_a_stale_connection_is_sent_again() -> None:
    async def main() -> None:
        async with serving([OK], [None], [OK]) as server:
            transport = transport_to(server)
            await transport.call(READ, timeout_s=5)
            assert (await transport.call(READ, timeout_s=5)).body == b"ok"
            await transport.close()
        assert len(server.requests) == 3
        assert server.connections == 2

    within(10, main)


def test_read_is_sent_again_only_once_and_only_on_an_old_connection() -> None:
    async def main() -> None:
        async with serving([OK], [None], [None], [OK]) as server:
            transport = transport_to(server)
            await transport.call(READ, timeout_s=5)
            assert (await failure(transport, READ)).reached
        assert len(server.requests) == 3

    within(10, main)


def test_write_on_a_stale_connection_is_not_sent_again() -> None:
    async def main() -> None:
        async with serving([OK], [None], [OK]) as server:
            transport = transport_to(server)
            await transport.call(READ, timeout_s=5)
            assert (await failure(transport, WRITE)).reached
        assert len(server.requests) == 2

    within(10, main)


def test_connection_that_was_closed_while_idle_is_not_used() -> None:
    async def main() -> None:
        async with serving([OK, None], [OK]) as server:
            transport = transport_to(server)
            await transport.call(READ, timeout_s=5)
            await asyncio.sleep(0.05)
            assert (await transport.call(WRITE, timeout_s=5)).body == b"ok"
            await transport.close()
        assert server.connections == 2

    within(10, main)


def test_server_that_speaks_unasked_is_left() -> None:
    async def main() -> None:
        async with serving([OK, 0.02, OK], [OK]) as server:
            transport = transport_to(server)
            await transport.call(READ, timeout_s=5)
            await asyncio.sleep(0.1)
            assert (await transport.call(WRITE, timeout_s=5)).body == b"ok"
            await transport.close()
        assert server.connections == 2

    within(10, main)


def test_connections_are_bounded_and_shared() -> None:
    async def main() -> None:
        slow: list[Step] = [0.002, OK]
        async with serving(*[slow] * 40) as server:
            transport = transport_to(server, connections=3)
            await asyncio.gather(*[transport.call(WRITE, timeout_s=5) for _ in range(40)])
            await transport.close()
        assert len(server.requests) == 40
        assert server.connections <= server.most_at_once == 3

    within(10, main)


def test_cancelled_calls_give_their_turn_back() -> None:
    async def main() -> None:
        async with serving(*[[60.0]] * 4, [OK], [OK], [OK]) as server:
            transport = transport_to(server, connections=2)
            calls = [asyncio.create_task(transport.call(WRITE, timeout_s=5)) for _ in range(6)]
            await server.has_got(2)
            for call in calls[:2]:
                call.cancel()
            calls[5].cancel()
            await server.has_got(4)
            for call in calls[2:4]:
                call.cancel()
            assert (await calls[4]).body == b"ok"
            await asyncio.gather(*[transport.call(WRITE, timeout_s=5) for _ in range(2)])
            await asyncio.gather(*calls, return_exceptions=True)
            await transport.close()
        assert len(server.requests) == 7

    within(10, main)


def test_call_that_waits_for_its_turn_in_vain_did_not_reach_the_server() -> None:
    async def main() -> None:
        async with serving([60.0]) as server:
            transport = transport_to(server, connections=1)
            first = asyncio.create_task(transport.call(WRITE, timeout_s=5))
            await asyncio.sleep(0.05)
            assert not (await failure(transport, WRITE, timeout_s=0.1)).reached
            with pytest.raises(TransportError):
                await first

    within(10, main)


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_server_that_is_gone_without_a_word_is_noticed_by_the_system_within_half_a_minute() -> None:
    async def main() -> None:
        async with serving([OK]) as server:
            transport = transport_to(server)
            await transport.call(READ, timeout_s=5)
            (found,) = connected_to(server.port)
            with found:
                assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                idle_s = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
                every_s = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
                probes = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
                assert idle_s + probes * every_s <= 30
                assert 0 < found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) <= 30_000
            await transport.close()

    within(10, main)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_stream_arrives_as_it_comes_and_says_how_it_ended() -> None:
    async def main() -> None:
        whole: list[Step] = [HEAD, chunk(b"a\n"), 0.02, chunk(b"b\nc"), 0.02, b"0\r\n\r\n"]
        cut: list[Step] = [HEAD, chunk(b"a\n"), None]
        async with serving(whole, cut) as server:
            transport = transport_to(server)
            stream = await transport.open(READ, timeout_s=5)
            assert stream.status == 200
            assert [piece async for piece in stream.chunks()] == [b"a\n", b"b\nc"]
            await stream.close()
            await stream.close()
            pieces = []
            stream = await transport.open(READ, timeout_s=5)
            with pytest.raises(TransportError):  # noqa: PT012  (the pieces before the error count)
                async for piece in stream.chunks():
                    pieces.append(piece)  # noqa: PERF401
            assert pieces == [b"a\n"]
            await transport.close()

    within(10, main)


def test_slow_reader_makes_the_server_wait() -> None:
    async def main() -> None:
        piece = chunk(b"x" * 65536)
        async with serving([HEAD, *[piece] * 2000, b"0\r\n\r\n"]) as server:
            transport = transport_to(server)
            stream = await transport.open(READ, timeout_s=5)
            await asyncio.sleep(0.5)
            held_bytes = stream._connection._parser.held_bytes
            assert STREAM_HOLDS_BYTES < held_bytes < 3 * STREAM_HOLDS_BYTES
            assert sum([len(part) async for part in stream.chunks()]) == 2000 * 65536
            await transport.close()

    within(20, main)


def test_tls_proves_both_sides() -> None:
    async def main() -> None:
        async with serving([OK], tls=server_tls(asks_for_client=True)) as server:
            endpoint = Endpoint("127.0.0.1", server.port, server_name="localhost")
            access = PlainAccess(endpoint, tls_context=client_tls(with_certificate=True))
            transport = HttpTransport(access)
            assert (await transport.call(READ, timeout_s=5)).body == b"ok"
            await transport.close()
            assert "someone" in str(server.peer_names)

    within(10, main)


@pytest.mark.parametrize("case", ["unknown authority", "another name"])
def test_server_that_cannot_prove_itself_gets_nothing(case: str) -> None:
    async def main() -> None:
        async with serving([OK], tls=server_tls()) as server:
            name = "other.example" if case == "another name" else ""
            context = client_tls() if case == "another name" else ssl.create_default_context()
            endpoint = Endpoint("127.0.0.1", server.port, server_name=name)
            access = PlainAccess(endpoint, token=TOKEN, tls_context=context)
            error = await failure(HttpTransport(access), WRITE)
        assert not error.reached
        assert "not trusted" in str(error)
        assert not server.requests

    within(10, main)


class RenewingAccess(PlainAccess):
    """A token that is renewed when the server refuses it."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self.renewed = 0

    async def authorization(self) -> str:
        """The newest token."""
        return f"Bearer token-{self.renewed}"

    async def refused(self) -> bool:
        """Renew, but only so often as helps."""
        self.renewed += 1
        return True


def test_refused_credentials_are_renewed_once() -> None:
    refusal = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"

    async def main() -> None:
        async with serving([refusal], [OK], [refusal], [refusal]) as server:
            transport = HttpTransport(RenewingAccess(server.endpoint))
            assert (await transport.call(WRITE, timeout_s=5)).status == 200
            assert (await transport.call(WRITE, timeout_s=5)).status == 401
            await transport.close()
        tokens = [request.split(b"Bearer ")[1].split(b"\r\n")[0] for request in server.requests]
        assert tokens == [b"token-0", b"token-1", b"token-1", b"token-2"]

    within(10, main)


def test_closed_transport_takes_no_more_calls() -> None:
    async def main() -> None:
        async with serving([60.0]) as server:
            transport = transport_to(server)
            call = asyncio.create_task(transport.call(WRITE, timeout_s=5))
            await asyncio.sleep(0.05)
            await transport.close()
            with pytest.raises(TransportError):
                await call
            assert not (await failure(transport, WRITE)).reached

    within(10, main)


@pytest.mark.parametrize(
    "body", [[chunk(b"x"), 0.02] * 400, [chunk(b"x" * 65536)] * 200, [chunk(b'{"reason": "Expired"}'), 60.0]]
)
def test_why_a_watch_is_refused_is_read_within_bounds(body: list[Step]) -> None:
    async def main() -> None:
        head = HEAD.replace(b"200 OK", b"500 Internal Server Error")
        async with serving([head, *body]) as server:
            transport = transport_to(server)
            client = Client(transport, MachineClock(), random.Random(1), timeout_s=0.3)
            with pytest.raises(ServerFailure):
                await client.watch(PODS, "10")
            await transport.close()

    within(10, main)
