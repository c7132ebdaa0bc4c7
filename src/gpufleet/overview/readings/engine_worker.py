"""The process in which a view of the fleet has the engine asked: an answer for each line on standard input.

An answer is the length of its JSON in eight bytes, then the JSON: ``EngineReport``, or a sentence. The
process ends with its input. So the engine, which computes for seconds on a large fleet, never keeps the view
waiting.
"""

import asyncio
import logging
import sys
from pathlib import Path

import msgspec

from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.picture import CONNECTIONS
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.model.model_errors import GpufleetError
from gpufleet.overview.readings.engine_asking import ask_engine
from gpufleet.overview.readings.engine_protocol import LENGTH, EngineQuestion, EngineReply
from gpufleet.overview.rows.engine_report import EngineReport


def main(argument: str) -> None:
    """Answer until the input ends."""
    logging.getLogger("gpufleet").addHandler(logging.NullHandler())
    asked = msgspec.json.decode(argument, type=EngineQuestion)
    for _ in sys.stdin:
        body = msgspec.json.encode(_answer(asked))
        sys.stdout.buffer.write(LENGTH.pack(len(body)) + body)
        sys.stdout.buffer.flush()


def _answer(asked: EngineQuestion) -> EngineReply:
    try:
        return EngineReply(asyncio.run(_ask(asked)))
    except ExceptionGroup as group:
        # A fault of ours must not be hidden by an error of the cluster that came with it.
        known, others = group.split((GpufleetError, OSError))
        if known is None or others is not None:
            raise
        # Groups of tasks wrap errors in groups; only the innermost one has the words.
        first: BaseException = known
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return EngineReply(problem=str(first))
    except (GpufleetError, OSError) as error:
        return EngineReply(problem=str(error))


async def _ask(asked: EngineQuestion) -> EngineReport:
    path = Path(asked.kubeconfig) if asked.kubeconfig else None
    settings = Settings(
        identity="top", scheduler_name=asked.scheduler_name, lease_namespace=asked.lease_namespace
    )
    async with connect(ClusterChoice(path, asked.context), connections=CONNECTIONS) as connection:
        return await ask_engine(connection.client, settings)


if __name__ == "__main__":
    main(sys.argv[1])
