"""Asks the process that answers questions (``worker``): one question at a time, and not too many waiting."""

import asyncio
from typing import Protocol

import msgspec

from gpufleet.model.model_errors import WorldError
from gpufleet.overview.readings.worker_process import WorkerProcess
from gpufleet.web.asking.questions import Asked, Problem, Question, Reply

MODULE = "gpufleet.web.asking.worker"
WAITING_MAX = 16
"""More questions than people wait for at one time; the next is refused and asked again."""

ANSWER_S = 400.0
"""The first answer may have to wait for kernels to be compiled, minutes on a busy machine; later ones take
seconds.
"""

_DECODER = msgspec.json.Decoder(Reply)
BUSY = Problem("too many questions are being answered", way_out="ask again in a moment")
SLOW = Problem(f"no answer came within {ANSWER_S:.0f} s", way_out="ask again, or ask the command line")


class Asking(Protocol):
    """What answers questions: a process, or a fake in tests."""

    async def ask(self, question: Question) -> Reply:
        """The answer, or the problem."""
        ...


class AskingProcess:
    """The process that answers, started with the first question."""

    def __init__(self, asked: Asked) -> None:
        self._worker = WorkerProcess(MODULE, msgspec.json.encode(asked).decode())
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def ask(self, question: Question) -> Reply:
        """The answer, or the problem."""
        if self._waiting >= WAITING_MAX:
            return Reply(problem=BUSY)
        self._waiting += 1
        try:
            async with asyncio.timeout(ANSWER_S), self._turn:
                return await self._worker.ask(msgspec.json.encode(question), _DECODER.decode)
        except TimeoutError:
            return Reply(problem=SLOW)
        except WorldError as error:
            return Reply(problem=Problem(str(error)))
        finally:
            self._waiting -= 1

    async def end(self) -> None:
        """End the process."""
        await self._worker.end()
