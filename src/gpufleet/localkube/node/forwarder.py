"""Passes connections to the address of the service `kubernetes` on to the API server, byte for byte.

``python -m gpufleet.localkube.node.forwarder ADDRESS PORT``: the API server listens on loopback only, which
pods do not reach. TLS goes through untouched, so the server still asks every client for its credentials.
"""

import asyncio
import contextlib
import socket
import sys

from gpufleet.localkube.access.ports import LOOPBACK

# Pods reach the API server at the port of its Service.
HTTPS = 443
IP_FREEBIND = 15
"""Of linux/in.h: an address may be bound before a device has it."""

# As much as a pipe or a socket holds.
CHUNK_BYTES = 1 << 16


async def forward(address: str, api_port: int) -> None:
    """Take connections until cancelled."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            there_reader, there_writer = await asyncio.open_connection(LOOPBACK, api_port)
            with contextlib.closing(there_writer):
                await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))

    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # The bridge that has this address may be made in this moment.
    listening.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
    listening.bind((address, HTTPS))
    server = await asyncio.start_server(one, sock=listening)
    await server.serve_forever()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until it ends, and then that it ended."""
    try:
        while chunk := await reader.read(CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    finally:
        # Only this direction has ended: the other may still carry an answer.
        if writer.can_write_eof():
            with contextlib.suppress(OSError):
                writer.write_eof()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(forward(sys.argv[1], int(sys.argv[2])))
