"""Pods that went from the API without a word that they ended: their containers may run on.

A pod that is deleted without grace, by hand or by the collection of garbage, goes from the API at once. The
kubelet then forgets its devices at once too and ends its containers within the grace that the pod named,
so its silence says nothing. Such a pod counts as ended when that grace and a margin have passed since
it was missed, while the kubelet answered. A kubelet that comes back ends what has no pod at once, so after
a silence, and after a start of the agent, the margin alone has to pass anew.
"""

from collections.abc import Collection, Iterable

import msgspec

from gpufleet.agent.holders.holder_record import LastSeen
from gpufleet.agent.state.node_state import GRACE_S, NodePods
from gpufleet.kube.clock import Clock

MARGIN_S = 15.0
"""For a kubelet that learns of an end late, and for processes that take a while to die."""


class VanishedPods:
    """The pods that hold something, as last seen; ``left`` is what an earlier process of this boot knew."""

    def __init__(self, clock: Clock, left: Iterable[LastSeen] = ()) -> None:
        self._clock = clock
        self._last = {one.pod_uid: one for one in left}
        self._steady_since_s: float | None = None

    @property
    def last(self) -> tuple[LastSeen, ...]:
        """What is to be kept."""
        return tuple(self._last[uid] for uid in sorted(self._last))

    def kubelet_silent(self) -> None:
        """The kubelet does not answer: it ends nothing now."""
        self._steady_since_s = None

    def look(self, uids: Collection[str], pods: NodePods, *, complete: bool) -> None:
        """The kubelet answers, and these pods may hold something. ``complete``: ``pods`` are all pods."""
        now_s = self._clock.monotonic_s()
        if self._steady_since_s is None:
            self._steady_since_s = now_s
        # Pods that hold nothing any more are forgotten with this.
        self._last = {uid: self._seen(uid, pods, now_s, complete=complete) for uid in uids}

    def is_over(self, uid: str) -> bool:
        """Whether a pod that is not in the API has none of its containers any more."""
        one, now_s = self._last.get(uid), self._clock.monotonic_s()
        if one is None or one.gone_since_s is None or self._steady_since_s is None:
            return False
        past_grace = now_s >= one.gone_since_s + one.grace_s + MARGIN_S
        return past_grace and now_s >= self._steady_since_s + MARGIN_S

    def _seen(self, uid: str, pods: NodePods, now_s: float, *, complete: bool) -> LastSeen:
        pod, before = pods.get(uid), self._last.get(uid)
        if pod is not None:
            return LastSeen(uid, pod.grace_s)
        found = before or LastSeen(uid, GRACE_S)
        if not complete:
            return found
        # A moment to come is of another clock.
        since_s = now_s if found.gone_since_s is None else min(found.gone_since_s, now_s)
        return msgspec.structs.replace(found, gone_since_s=since_s)
