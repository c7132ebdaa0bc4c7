"""The parts of the agent, each kept running by itself: one that fails is started again and stops no other.

A part is anything with a ``run`` that lasts until it is cancelled. One that ends or raises is a bug, or a
world so broken that it saw no other way; either way the node is better off with the rest of the agent,
so it is started again after a pause that grows, and readiness names it meanwhile.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import msgspec

from gpufleet.kube.backoff import Backoff, RetryLimits
from gpufleet.kube.clock import Clock
from gpufleet.model.model_errors import printable

LOG = logging.getLogger(__name__)
# A part that fails is started again, ever later while it goes on failing.
PAUSES = RetryLimits(first_s=1.0, longest_s=60.0)
STEADY_AFTER_S = 60.0
"""A part that ran for so long begins anew with short pauses."""

TRUSTED_AFTER_S = 5.0
"""How long a part that failed has to run before it counts as well."""

NO_PROBLEMS: Callable[[], tuple[str, ...]] = tuple


def said(problem: str) -> tuple[str, ...]:
    """A problem as a part tells it; nothing where there is none."""
    return (problem,) if problem else ()


class AgentPart(msgspec.Struct, frozen=True):
    """One part. ``problems`` tells what keeps it from its work though it runs, for readiness."""

    name: str
    run: Callable[[], Awaitable[None]]
    problems: Callable[[], tuple[str, ...]] = NO_PROBLEMS


class Supervisor:
    """All parts, in the order of their start."""

    def __init__(self, parts: list[AgentPart], clock: Clock, jitter: random.Random) -> None:
        self._parts = parts
        self._clock = clock
        self._jitter = jitter
        self._failed: dict[str, str] = {}
        self.restarts = 0

    async def run(self) -> None:
        """Keep all of them running until cancelled."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(self._keep(part), name=part.name)

    def problems(self) -> tuple[str, ...]:
        """What is not as it should be, by part; empty where all is well."""
        found = [f"{name}: {problem}" for name, problem in self._failed.items()]
        found += [f"{part.name}: {problem}" for part in self._parts for problem in part.problems()]
        return tuple(dict.fromkeys(found))

    async def _keep(self, part: AgentPart) -> None:
        backoff = Backoff(PAUSES, self._jitter)
        while True:
            began_s = self._clock.monotonic_s()
            trust = asyncio.create_task(self._trust(part))
            try:
                await part.run()
                self._failed[part.name] = "it ended by itself"
                LOG.error("a part of the agent ended by itself", extra={"part": part.name})
            except Exception as error:
                self._failed[part.name] = f"it failed: {printable(str(error) or type(error).__name__, 300)}"
                LOG.exception("a part of the agent failed", extra={"part": part.name})
            finally:
                trust.cancel()
            if self._clock.monotonic_s() - began_s >= STEADY_AFTER_S:
                backoff.reset()
            self.restarts += 1
            await self._clock.sleep(backoff.next_s())

    async def _trust(self, part: AgentPart) -> None:
        await self._clock.sleep(TRUSTED_AFTER_S)
        self._failed.pop(part.name, None)
