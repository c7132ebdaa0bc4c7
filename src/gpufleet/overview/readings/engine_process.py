"""The engine's answer from a process of its own (``engine_worker``), which is started once and asked again
and again.

A process that ended is started anew with the next question; what it said last goes into the message.
"""

import asyncio
import contextlib
import sys
from typing import Self

import msgspec

from gpufleet.model.model_errors import WorldError, printable
from gpufleet.overview.readings.engine_protocol import LENGTH, Answer, Asked
from gpufleet.overview.rows.told import Told

MODULE = "gpufleet.overview.readings.engine_worker"
ANSWER_BYTES_MAX = 1 << 30
"""An answer has some hundred bytes for each workload that waits."""
# What a process that ended has written lies in the pipe already.
END_S = 1.0
_DECODER = msgspec.json.Decoder(Answer)


class EngineProcess:
    """One process, ended with the block of ``async with``."""

    def __init__(self, asked: Asked) -> None:
        self._argument = msgspec.json.encode(asked).decode()
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def ask(self) -> Told:
        """The answer. Raises WorldError."""
        try:
            if self._process is None or self._process.returncode is not None:
                self._process = await self._started()
            return await self._answer(self._process)
        except (OSError, EOFError, msgspec.DecodeError) as error:
            said = await self._last_words()
            await self._end()
            raise WorldError(f"the process that asks the engine ended{said}") from error

    async def _started(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", MODULE, self._argument),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C and a resized terminal are the parent's business.
            start_new_session=True,
        )

    async def _answer(self, process: asyncio.subprocess.Process) -> Told:
        if process.stdin is None or process.stdout is None:
            raise EOFError("no pipes")
        process.stdin.write(b"\n")
        await process.stdin.drain()
        (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
        if length > ANSWER_BYTES_MAX:
            raise EOFError("no answer is as long as that")
        answer = _DECODER.decode(await process.stdout.readexactly(length))
        if answer.told is None:
            raise WorldError(answer.problem)
        return answer.told

    async def _last_words(self) -> str:
        """The last line on its standard error, which is what went wrong."""
        process = self._process
        if process is None or process.stderr is None:
            return ""
        lines: list[bytes] = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                lines = (await process.stderr.read(1 << 16)).splitlines()
        return f": {printable(lines[-1].decode('utf-8', 'replace'), 200)}" if lines else ""

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
