"""Pods with a device that another pod holds in fact: the one that came last gives way.

Facts come from agents one after another, so what looks like a conflict may be one half of a swap. Only
what stays for a while counts. Then the later pod (``held_devices`` says which that is) is evicted and its
controller makes it anew; a bare pod stays, with the reason, and so does a pod that is not ours.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.cluster.pods.holdings import Overlap
from gpufleet.eviction.evictions import Evictions
from gpufleet.kube.clock import Clock
from gpufleet.model.identifiers import PodUid
from gpufleet.scheduler.ending import STAYS, TRY_AGAIN_S, end_pod
from gpufleet.scheduler.reporting import Reporter

REASON = "DeviceConflict"
"""The reason that people read in Events."""

SETTLES_WITHIN_S = 10.0
"""Agents report within seconds, so both halves of a swap are known by then."""


class _Watch(msgspec.Struct):
    due_s: float
    told: bool = False


class DeviceConflicts:
    """Watches overlaps and takes back what does not go away by itself."""

    def __init__(self, evictions: Evictions, reporter: Reporter, clock: Clock) -> None:
        self.evictions = evictions
        self.reporter = reporter
        self.clock = clock
        self._watches: dict[PodUid, _Watch] = {}

    def regard(self, overlaps: Iterable[Overlap]) -> None:
        """Take all overlaps that there are now, and act on those that stayed."""
        now_s = self.clock.monotonic_s()
        by_uid = {overlap.pod.pod.uid: overlap for overlap in overlaps}
        for uid in [uid for uid in self._watches if uid not in by_uid]:
            del self._watches[uid]
        for uid, overlap in by_uid.items():
            watch = self._watches.setdefault(uid, _Watch(now_s + SETTLES_WITHIN_S))
            if watch.due_s <= now_s:
                self._give_way(overlap, first=not watch.told)
                watch.told = True
                watch.due_s = now_s + TRY_AGAIN_S

    def next_due_s(self) -> float | None:
        """When the next overlap has lasted long enough."""
        return min((watch.due_s for watch in self._watches.values()), default=None)

    def _give_way(self, overlap: Overlap, *, first: bool) -> None:
        taken = overlap.pod.may_be_taken
        if taken:
            end_pod(self.evictions, overlap.pod, "device-conflict")
        if first:
            what = "it is evicted to get another one" if taken else STAYS
            note = f"the node gave device {overlap.device} to {', '.join(overlap.holders)}; {what}"
            self.reporter.warns(overlap.pod.pod, REASON, note)
