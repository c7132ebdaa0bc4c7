"""Opens a connection to a server by the first of its addresses that answers (RFC 8305).

asyncio has this too, but a task that is cancelled while asyncio's attempts are still being tidied up leaves
the socket that was connected open, and nothing knows of it any more. Here each socket has one owner at any
time: the attempt that connects it, then the race of attempts, then the caller; each closes what it has when
it fails or is cancelled.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from itertools import chain, zip_longest

# What an attempt has for itself before the next address is tried beside it.
NEXT_AFTER_S = 0.25
# A machine that lost its power closes no connection: the system probes the server, and ends the connection
# within half a minute if it is gone.
PROBED_AFTER_S = 10
PROBED_EVERY_S = 5
PROBES = 3
UNACKNOWLEDGED_MS = 25_000

Place = tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]
"""An address as sockets take it; the last shape is that of a Python without IPv6."""

Address = tuple[socket.AddressFamily, Place]


async def connected_socket(host: str, port: int) -> socket.socket:
    """A connection to a port of a host; the caller closes it. Raises OSError."""
    return await first_connected(in_turns(await _addresses(host, port)))


async def first_connected(addresses: Sequence[Address]) -> socket.socket:
    """A connection to the first address that answers, tried in this order. Raises OSError."""
    untried = deque(addresses)
    attempts: list[asyncio.Task[socket.socket]] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    failures: list[BaseException] = []
    winner = None
    try:
        while winner is None and (untried or pending):
            # One more address is tried beside those before, each a moment later (RFC 8305).
            if untried:
                attempts.append(asyncio.create_task(_connected(*untried.popleft())))
                pending.add(attempts[-1])
            done, pending = await asyncio.wait(
                pending,
                timeout=NEXT_AFTER_S if untried else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            failures += [error for one in done if (error := one.exception()) is not None]
            winner = next((one for one in done if one.exception() is None), None)
    finally:
        for attempt in attempts:
            if attempt is not winner:
                _give_up(attempt)
    if winner is None:
        raise _failure(failures)
    return winner.result()


def in_turns(addresses: Sequence[Address]) -> list[Address]:
    """The addresses with their families in turns: a family that leads nowhere costs one attempt."""
    # In the order of the resolver, which knows which family this machine prefers.
    families = dict.fromkeys(family for family, _ in addresses)
    rows = ([one for one in addresses if one[0] == family] for family in families)
    return [one for one in chain.from_iterable(zip_longest(*rows)) if one is not None]


async def _addresses(host: str, port: int) -> list[Address]:
    try:
        try:
            # An address needs no resolver, and no thread to wait for one.
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError("that is no name of a host") from error
    return [(family, place) for family, _, _, _, place in found]


async def _connected(family: socket.AddressFamily, place: Place) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, place)
        _probe(opened)
    # A connect that is cancelled would leave its descriptor open.
    except BaseException:
        opened.close()
        raise
    return opened


def _give_up(attempt: asyncio.Task[socket.socket]) -> None:
    """End an attempt under way, which closes its own socket, or close the socket that it connected."""
    if not attempt.done():
        attempt.cancel()
    elif not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()


def _failure(failures: Sequence[BaseException]) -> BaseException:
    """Why no address answers; each reason once."""
    reasons = dict.fromkeys(str(one) for one in failures)
    if len(reasons) == 1:
        return failures[0]
    return OSError("; ".join(reasons) or "the host has no address")


def _probe(connected: socket.socket) -> None:
    """Have the system find out by itself that the other side is gone."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # An option that this system lacks is left out.
    for name, value in (
        ("TCP_KEEPIDLE", PROBED_AFTER_S),
        ("TCP_KEEPINTVL", PROBED_EVERY_S),
        ("TCP_KEEPCNT", PROBES),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS),
    ):
        option: int | None = getattr(socket, name, None)
        if option is not None:
            connected.setsockopt(socket.IPPROTO_TCP, option, value)
