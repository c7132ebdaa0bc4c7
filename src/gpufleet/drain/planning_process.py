"""Asks a process of its own (``planning``) for a plan, and waits for it; the process ends with its answer."""

import asyncio
import contextlib
import sys
from pathlib import Path

import msgspec

from gpufleet.cluster.settings import Settings
from gpufleet.drain.planning_question import PlanningAnswer, PlanningQuestion
from gpufleet.kube.connection import ClusterChoice
from gpufleet.model.model_errors import WorldError, printable

MODULE = "gpufleet.drain.planning"
ANSWER_WITHIN_S = 300.0
"""A cluster of ten thousand nodes is listed and planned in less; what takes longer hangs."""

WORDS_MAX = 300
"""Characters of what a process that failed said last."""


class PlanningAsked(msgspec.Struct, frozen=True):
    """A question, with the cluster and the scheduler that it is about."""

    kubeconfig: str | None
    context: str
    settings: Settings
    question: PlanningQuestion


class PlanningProcess:
    """Plans in a process of its own, started for each question."""

    def __init__(self, cluster: ClusterChoice, settings: Settings) -> None:
        self._kubeconfig: Path | None = cluster.kubeconfig
        self._context = cluster.context
        self._settings = settings

    async def ask(self, question: PlanningQuestion) -> PlanningAnswer:
        """The answer. Raises WorldError where the process gave none."""
        kubeconfig = None if self._kubeconfig is None else str(self._kubeconfig)
        asked = PlanningAsked(kubeconfig, self._context, self._settings, question)
        try:
            return await self._run(msgspec.json.encode(asked))
        except (OSError, TimeoutError, msgspec.DecodeError) as error:
            raise WorldError(f"the process that plans drains gave no answer: {error}") from error

    async def _run(self, question: bytes) -> PlanningAnswer:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", MODULE),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            # A signal for the daemon is the daemon's business.
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                said, error_text = await process.communicate(question)
        finally:
            # Also where the asker was cancelled: no process is left behind.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            words = printable(
                (error_text.splitlines() or [b"no words"])[-1].decode("utf-8", "replace"), WORDS_MAX
            )
            raise WorldError(f"the process that plans drains ended with {process.returncode}: {words}")
        return msgspec.json.decode(said, type=PlanningAnswer)
