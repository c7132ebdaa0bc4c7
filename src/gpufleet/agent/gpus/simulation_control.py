"""The socket on which a simulated machine takes orders while the agent runs on it.

A UNIX socket in the agent's folder for state, open to the agent's own user alone and there only with
``--simulated``. A client sends one order as a line of JSON and gets one line back: how the
machine is now, or what was wrong with the order. ``gpufleet simulate-gpu`` is the other side.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpufleet.devices.device_errors import MachineError
from gpufleet.devices.simulated.machine import Machine
from gpufleet.devices.simulated.orders import AnyOrder, MachineState, carry_out, state

LOG = logging.getLogger(__name__)
SOCKET = "simulation.sock"
# An order has some hundred bytes.
LINE_LIMIT = 64 * 1024
# Bounds the state of a machine with many GPUs.
ANSWER_LIMIT = 4 * 1024 * 1024
# A problem quotes the order, which may be long.
PROBLEM_LIMIT = 500
# An order is carried out in memory; a client that is silent is left.
WAIT_S = 10.0

_DECODER = msgspec.json.Decoder(AnyOrder)


class ControlAnswer(msgspec.Struct, frozen=True):
    """What comes back: the machine as it is now, or the problem."""

    machine: MachineState | None = None
    problem: str = ""


class SimulationControl:
    """Serves orders to one machine."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self._folder = folder
        self._machine = machine

    async def run(self) -> None:
        """Serve until cancelled."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / SOCKET).unlink(missing_ok=True)
        # Binding gives the socket its mode: changed afterwards, it would be open for a moment.
        before = os.umask(0o077)
        try:
            with short_path(self._folder) as folder:
                server = await asyncio.start_unix_server(self._serve, f"{folder}/{SOCKET}", limit=LINE_LIMIT)
        finally:
            os.umask(before)
        async with server:
            await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, asyncio.LimitOverrunError, ValueError):
            async with asyncio.timeout(WAIT_S):
                answer = self._answer(await reader.readline())
                writer.write(msgspec.json.encode(answer) + b"\n")
                await writer.drain()
        writer.close()

    def _answer(self, line: bytes) -> ControlAnswer:
        try:
            order = _DECODER.decode(line)
            carry_out(self._machine, order)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MachineError) as error:
            return ControlAnswer(problem=str(error)[:PROBLEM_LIMIT])
        LOG.info("the simulated machine was told", extra={"order": msgspec.to_builtins(order)})
        return ControlAnswer(state(self._machine))


def tell(folder: Path, order: AnyOrder) -> MachineState:
    """The other side: have an order carried out; returns the machine's state after it.

    Raises MachineError with what was wrong with the order, and OSError where no agent listens.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection, short_path(folder) as short:
        connection.settimeout(WAIT_S)
        connection.connect(f"{short}/{SOCKET}")
        connection.sendall(msgspec.json.encode(order) + b"\n")
        with connection.makefile("rb") as lines:
            answer = msgspec.json.decode(lines.readline(ANSWER_LIMIT), type=ControlAnswer)
    if answer.machine is None:
        raise MachineError(answer.problem)
    return answer.machine


@contextlib.contextmanager
def short_path(folder: Path) -> Iterator[str]:
    """A short path to a folder, as the path of a socket has at most 107 bytes."""
    descriptor = os.open(folder, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
