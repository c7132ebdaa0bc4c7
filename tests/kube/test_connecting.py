"""Over real sockets: which address is connected to, and that all other sockets are closed."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from gpufleet.kube import connecting
from gpufleet.kube.access import Endpoint, PlainAccess
from gpufleet.kube.connecting import Address, connected_socket, first_connected, in_turns
from gpufleet.kube.http_transport import HttpTransport
from gpufleet.kube.kube_errors import TransportError
from gpufleet.kube.transport import Request
from tests.kube.byte_server import server_tls, serving, within
from tests.kube.open_sockets import left_open
from tests.kube.test_http_transport import HEAD, OK, client_tls

READ = Request("GET", "/api")
CHANCES = 30
"""Turns of the loop after which a call is cancelled: more than it takes to connect with TLS."""


@contextlib.contextmanager
def silent() -> Iterator[Address]:
    """An address that lets nothing in: its queue is full and nothing is taken out of it."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield socket.AF_INET, listener.getsockname()


def refusing() -> int:
    """A port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def at(port: int) -> Address:
    return socket.AF_INET, ("127.0.0.1", port)


async def connects_to(addresses: list[Address]) -> int:
    """The port that is connected to in the end."""
    with await first_connected(addresses) as connected:
        port: int = connected.getpeername()[1]
        return port


async def cancelled_after(turns: int, work: "asyncio.Task[object]") -> None:
    """Cancel a task at this turn of the loop and wait for its end."""
    for _ in range(turns):
        await asyncio.sleep(0)
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


@pytest.mark.parametrize("tls", [False, True])
def test_a_call_leaves_no_socket_whenever_it_is_cancelled(tls: bool) -> None:
    context = client_tls() if tls else None

    async def main() -> None:
        async with serving(*[[OK]] * CHANCES, tls=server_tls() if tls else None) as server:
            endpoint = Endpoint("127.0.0.1", server.port, tls=tls)
            for turns in range(CHANCES):
                transport = HttpTransport(PlainAccess(endpoint, tls_context=context))
                await cancelled_after(turns, asyncio.create_task(transport.open(READ, timeout_s=5)))
                await transport.close()
                assert await left_open(server.port) == 0, turns

    within(20, main)


def test_an_attempt_that_is_cancelled_leaves_no_socket_however_many_addresses_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connecting, "NEXT_AFTER_S", 0)

    async def main() -> None:
        async with serving() as server:
            for turns in range(CHANCES):
                racing = asyncio.create_task(first_connected([at(server.port)] * 5))
                await cancelled_after(turns, racing)
                if not racing.cancelled():
                    racing.result().close()
                assert await left_open(server.port) == 0, turns

    within(20, main)


def test_of_several_that_answer_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "NEXT_AFTER_S", 0)

    async def main() -> None:
        async with serving() as server:
            with await first_connected([at(server.port)] * 5):
                assert await left_open(server.port) == 1
            assert await left_open(server.port) == 0

    within(10, main)


def test_an_address_that_refuses_leads_to_the_next() -> None:
    async def main() -> None:
        async with serving() as server:
            assert await connects_to([at(refusing()), at(refusing()), at(server.port)]) == server.port

    within(10, main)


def test_an_address_that_does_not_answer_is_not_waited_for() -> None:
    async def main() -> None:
        async with serving() as server:
            with silent() as address:
                assert await connects_to([address, at(server.port)]) == server.port

    within(10, main)


def test_the_last_address_has_the_time_that_it_takes() -> None:
    async def main() -> None:
        with silent() as address, pytest.raises(TimeoutError):
            async with asyncio.timeout(2 * connecting.NEXT_AFTER_S):
                await first_connected([at(refusing()), address])

    within(10, main)


def test_why_no_address_answers_is_told_for_each() -> None:
    first, second = refusing(), refusing()

    async def main() -> None:
        with pytest.raises(OSError, match=rf"{first}.*; .*{second}"):
            await first_connected([at(first), at(second)])
        with pytest.raises(ConnectionRefusedError):
            await first_connected([at(first), at(first)])
        with pytest.raises(OSError, match="the host has no address"):
            await first_connected([])

    within(10, main)


def test_a_name_is_looked_up() -> None:
    async def main() -> None:
        async with serving() as server:
            with await connected_socket("localhost", server.port) as connected:
                assert connected.getpeername() == ("127.0.0.1", server.port)

    within(10, main)


def test_what_is_no_name_of_a_host_is_told() -> None:
    async def main() -> None:
        transport = HttpTransport(PlainAccess(Endpoint("a..b", 1, tls=False)))
        with pytest.raises(TransportError, match=r"cannot connect to .*: that is no name of a host"):
            await transport.call(READ, timeout_s=5)

    within(10, main)


def test_families_take_turns() -> None:
    four, six = socket.AF_INET, socket.AF_INET6
    found: list[Address] = [(six, ("::1", 1, 0, 0)), (six, ("::2", 1, 0, 0)), (six, ("::3", 1, 0, 0))]
    found += [(four, ("10.0.0.1", 1)), (four, ("10.0.0.2", 1))]
    assert [address[0] for _, address in in_turns(found)] == ["::1", "10.0.0.1", "::2", "10.0.0.2", "::3"]
    assert in_turns([]) == []


class HangingAccess(PlainAccess):
    """New credentials never come."""

    async def refused(self) -> bool:
        """Wait for ever."""
        await asyncio.Event().wait()
        return True


def test_a_refused_watch_is_closed_if_the_wait_for_new_credentials_is_cancelled() -> None:
    refusal = HEAD.replace(b"200 OK", b"401 Unauthorized")

    async def main() -> None:
        async with serving([refusal, 60.0]) as server:
            transport = HttpTransport(HangingAccess(server.endpoint))
            opening = asyncio.create_task(transport.open(READ, timeout_s=5))
            await server.has_got(1)
            await asyncio.sleep(0.05)
            opening.cancel()
            await asyncio.wait([opening])
            assert await left_open(server.port) == 0
            await transport.close()

    within(10, main)
