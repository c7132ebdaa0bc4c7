"""A process that answers questions, one line each, with a length and as many bytes: it computes for seconds,
and the view goes on meanwhile.

A process that ended is started anew with the next question; what it said last goes into the message.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec

from gpufleet.model.model_errors import WorldError, printable
from gpufleet.overview.readings.engine_protocol import LENGTH

ANSWER_BYTES_MAX = 1 << 30
"""An answer has some hundred bytes for each workload that waits."""
# What a process that ended has written lies in the pipe already.
END_S = 1.0
Answered = TypeVar("Answered")


class WorkerProcess:
    """A Python module that is run with one argument. One question at a time."""

    def __init__(self, module: str, argument: str) -> None:
        self._module = module
        self._argument = argument
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, question: bytes, read: Callable[[bytes], Answered]) -> Answered:
        """The answer to one line. Raises WorldError where the process ended, or gave what cannot be read."""
        try:
            if self._process is None or self._process.returncode is not None:
                self._process = await self._started()
            return read(await self._answer(self._process, question))
        except (OSError, EOFError, msgspec.DecodeError) as error:
            said = await self._last_words()
            await self.end()
            raise WorldError(f"the process that asks the engine ended{said}") from error
        except asyncio.CancelledError:
            # Its answer would be taken for that to the next question.
            await self.end()
            raise

    async def _started(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", self._module, self._argument),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C and a resized terminal are the parent's business.
            start_new_session=True,
        )

    async def _answer(self, process: asyncio.subprocess.Process, question: bytes) -> bytes:
        if process.stdin is None or process.stdout is None:
            raise EOFError("no pipes")
        process.stdin.write(question + b"\n")
        await process.stdin.drain()
        (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
        if length > ANSWER_BYTES_MAX:
            raise EOFError("no answer is as long as that")
        return await process.stdout.readexactly(length)

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

    async def end(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
