"""The cache and its stores, asked in threads of their own.

A network disk that hangs must stop neither the agent nor its end.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from gpufleet.agent.data.bandwidth import Bandwidth
from gpufleet.agent.data.sources.offer import DataServer
from gpufleet.agent.data.staging_cache import Lacking, StagingCache
from gpufleet.daemon.daemon_thread import in_daemon_thread
from gpufleet.kube.clock import Clock
from gpufleet.kube.objects.node_data import DataEntry
from gpufleet.model.data import DataAsk


class ThreadedDisk:
    """``bytes_per_s`` is what all copies together may take."""

    def __init__(
        self,
        stores: Sequence[Path],
        cache: Path,
        bytes_per_s: float,
        clock: Clock,
        servers: Sequence[DataServer] = (),
    ) -> None:
        self._cache = StagingCache(stores, cache, lambda: clock.now().timestamp(), servers)
        self._bytes_per_s = bytes_per_s
        self._clock = clock

    async def lacking(self, asks: Sequence[DataAsk]) -> Lacking:
        """What is to be copied."""
        return await in_daemon_thread(lambda: self._cache.lacking(asks))

    async def note_named(self, asks: Sequence[DataAsk], anew: frozenset[DataAsk]) -> None:
        """What work names."""
        await in_daemon_thread(lambda: self._cache.note_named(asks, anew))

    async def make_room(self, wanted: DataEntry, asks: Sequence[DataAsk] | None) -> list[DataEntry]:
        """What was removed for it. Raises NotCopiedError."""
        return await in_daemon_thread(lambda: self._cache.make_room(wanted, asks))

    async def copy(self, wanted: DataEntry, still_wanted: Callable[[], bool]) -> int:
        """Copy it. Raises NotCopiedError, CopyStoppedError and OSError."""

        def copy() -> int:
            # Made in the thread that asks it for the time.
            return self._cache.copy(
                wanted, Bandwidth(self._bytes_per_s, still_wanted, self._clock.monotonic_s)
            )

        return await in_daemon_thread(copy)

    async def tidy(self, wanted: Sequence[DataEntry]) -> None:
        """Remove what was broken off."""
        await in_daemon_thread(lambda: self._cache.tidy(wanted))
