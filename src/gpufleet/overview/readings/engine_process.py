"""The engine's answer from a process of its own (``engine_worker``), which is started once and asked again
and again. ``worker_process`` starts it and talks to it.
"""

from typing import Self

import msgspec

from gpufleet.model.model_errors import WorldError
from gpufleet.overview.readings.engine_protocol import EngineQuestion, EngineReply
from gpufleet.overview.readings.worker_process import WorkerProcess
from gpufleet.overview.rows.engine_report import EngineReport

MODULE = "gpufleet.overview.readings.engine_worker"
_DECODER = msgspec.json.Decoder(EngineReply)


class EngineProcess:
    """One process, ended with the block of ``async with``."""

    def __init__(self, asked: EngineQuestion) -> None:
        self._worker = WorkerProcess(MODULE, msgspec.json.encode(asked).decode())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._worker.end()

    async def ask(self) -> EngineReport:
        """The answer. Raises WorldError."""
        answer = await self._worker.ask(b"", _DECODER.decode)
        if answer.engine_report is None:
            raise WorldError(answer.problem)
        return answer.engine_report
