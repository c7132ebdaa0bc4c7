"""Copies to the node what work that will start there reads, before it starts.

    NodeData's annotation -> what the stores have of it and the cache has not -> room -> copies, one by one

The scheduler writes the annotation while a place is kept for work. A name that is taken back ends its copy:
the place has changed. A copy that fails is tried again a minute later.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from gpufleet.agent.data.copy_rate import CopyRate
from gpufleet.agent.data.staging_cache import Lacking
from gpufleet.agent.data.staging_errors import CopyStoppedError
from gpufleet.agent.data.wishes import Wishes
from gpufleet.kube.clock import Clock
from gpufleet.kube.codec.data_copies import copy_of
from gpufleet.kube.objects.node_data import DataEntry
from gpufleet.model.data import DataAsk
from gpufleet.model.model_errors import WorldError

LOG = logging.getLogger(__name__)
LOOK_EVERY_S = 60.0
"""How soon a copy that failed is tried again, and what came into a store is seen."""


class StagingDisk(Protocol):
    """The cache and its stores, off the event loop; ``staging_cache`` says what each call does."""

    async def lacking(self, asks: Sequence[DataAsk]) -> Lacking:
        """What is to be copied."""
        ...

    async def note_named(self, asks: Sequence[DataAsk], anew: frozenset[DataAsk]) -> None:
        """What work names."""
        ...

    async def make_room(self, wanted: DataEntry, asks: Sequence[DataAsk] | None) -> list[DataEntry]:
        """What was removed for it; with None everything stays. Raises NotCopiedError."""
        ...

    async def copy(self, wanted: DataEntry, still_wanted: Callable[[], bool]) -> int:
        """Copy it, and say how many bytes that were. Raises NotCopiedError, CopyStoppedError and OSError."""
        ...

    async def tidy(self, wanted: Sequence[DataEntry]) -> None:
        """Remove what was broken off."""
        ...


class Stager:
    """Follows the wish while ``run`` runs. ``report`` is called when the cache has changed, and ``rate``
    told how fast copies came.
    """

    def __init__(
        self,
        wishes: Wishes,
        clock: Clock,
        disk: StagingDisk,
        report: Callable[[], None],
        rate: CopyRate,
    ) -> None:
        self.problem = ""
        """Why something that is wanted is not copied; empty where all is well."""
        self._wishes = wishes
        self._disk = disk
        self._report = report
        self._rate = rate
        self._named: frozenset[DataAsk] = frozenset()
        self._news = asyncio.Event()
        self._clock = clock
        wishes.heard.append(self._news.set)

    async def run(self) -> None:
        """Copy what is wanted until cancelled."""
        await self._wishes.wait_listed()
        while True:
            self._news.clear()
            problems = await self._turn()
            self.problem = "; ".join(problems)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._news.wait()

    async def _turn(self) -> list[str]:
        """Copy what is wanted now. Returns what failed."""
        wish = self._wishes.wish
        asks = (*wish.stage, *wish.keep)
        anew, self._named = frozenset(asks) - self._named, frozenset(asks)
        problems: list[str] = []
        try:
            await self._disk.note_named(asks, anew)
            lacking = await self._disk.lacking(wish.stage)
            await self._disk.tidy(lacking.entries)
        except (WorldError, OSError) as error:
            return [f"the cache of models and datasets is not looked after: {error}"]
        problems += lacking.problems
        for one in lacking.entries:
            problem = await self._bring(one, None if wish.keep_all else asks)
            problems += [problem] if problem else []
            if self._news.is_set():
                break
        return problems

    async def _bring(self, one: DataEntry, asks: Sequence[DataAsk] | None) -> str:
        """Make room for a copy, and make it. Returns what failed, "" for nothing."""
        extra = {"data": f"{one.kind}/{one.name}", "revision": one.revision, "bytes": one.size_bytes}
        began_s = self._clock.monotonic_s()
        try:
            for gone in await self._disk.make_room(one, asks):
                LOG.info("a staged copy is removed", extra={"data": f"{gone.kind}/{gone.name}"})
            copied_bytes = await self._disk.copy(one, lambda: self._is_wanted(one))
        except CopyStoppedError:
            LOG.info("a copy is given up: nothing that is to start here reads it", extra=extra)
            return ""
        except (WorldError, OSError) as error:
            LOG.warning("a model or dataset is not staged", extra={**extra, "problem": str(error)})
            return f"{one.kind}/{one.name} is not staged: {error}"
        took_s = self._clock.monotonic_s() - began_s
        self._rate.copied(copied_bytes, took_s)
        LOG.info("a model or dataset is staged", extra={**extra, "took_s": round(took_s, 1)})
        self._report()
        return ""

    def _is_wanted(self, one: DataEntry) -> bool:
        """Asked in the thread of a copy, which only reads."""
        copy = copy_of(one)
        return any(ask.is_of(copy) for ask in self._wishes.wish.stage)
