"""Pods that use more GPU memory than their share: warned first and, where the policy says so, evicted.

The node's agent reports them and has no right to do more. The neighbours on the same GPU are never
touched for it. A bare pod stays, with the reason.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.cluster.pods.holdings import Offence
from gpufleet.eviction.evictions import Evictions
from gpufleet.kube.clock import Clock
from gpufleet.model.identifiers import PodUid
from gpufleet.scheduler.ending import STAYS, TRY_AGAIN_S, end_pod
from gpufleet.scheduler.reporting import Reporter

REASON = "GPUMemoryExceeded"
"""The reason that people read in Events."""

WARNED_FOR_S = 60.0
"""A short peak passes, and an owner who reads the warning can still act."""

WARN_AGAIN_S = 600.0
"""Events end after an hour: an owner who looks finds one that is fresh."""


class _Watch(msgspec.Struct):
    warned_at_s: float
    due_s: float | None
    told: bool = False


class MemoryOffenders:
    """Watches offences. With ``evicts`` those that go on are ended."""

    def __init__(self, evictions: Evictions, reporter: Reporter, clock: Clock, *, evicts: bool) -> None:
        self.evictions = evictions
        self.reporter = reporter
        self.clock = clock
        self.evicts = evicts
        self._watches: dict[PodUid, _Watch] = {}

    def regard(self, offences: Iterable[Offence]) -> None:
        """Take all offences that there are now: warn, and evict after the time for it."""
        now_s = self.clock.monotonic_s()
        by_uid = {offence.pod.pod.uid: offence for offence in offences}
        for uid in [uid for uid in self._watches if uid not in by_uid]:
            del self._watches[uid]
        for uid, offence in by_uid.items():
            watch = self._watches.get(uid)
            if watch is None:
                ends = self.evicts and offence.pod.may_be_taken
                watch = self._watches[uid] = _Watch(now_s, now_s + WARNED_FOR_S if ends else None)
                self._warn(offence)
            elif now_s - watch.warned_at_s >= WARN_AGAIN_S:
                watch.warned_at_s = now_s
                self._warn(offence)
            if watch.due_s is not None and watch.due_s <= now_s:
                self._end(offence, first=not watch.told)
                watch.told = True
                watch.due_s = now_s + TRY_AGAIN_S

    def next_due_s(self) -> float | None:
        """When the next one has been warned for long enough."""
        dues = [watch.due_s for watch in self._watches.values() if watch.due_s is not None]
        return min(dues, default=None)

    def _end(self, offence: Offence, *, first: bool) -> None:
        end_pod(self.evictions, offence.pod, "gpu-memory")
        if first:
            self.reporter.warns(offence.pod.pod, REASON, f"{_words(offence)}; it is evicted")

    def _warn(self, offence: Offence) -> None:
        after = "it may disturb others on this GPU"
        if self.evicts and offence.pod.may_be_taken:
            after = f"it is evicted if that goes on for {WARNED_FOR_S:.0f} s"
        elif self.evicts:
            after = STAYS
        self.reporter.warns(offence.pod.pod, REASON, f"{_words(offence)}; {after}")


def _words(offence: Offence) -> str:
    return f"it uses {offence.used_mib} MiB of {offence.device} and has a share of {offence.share_mib} MiB"
