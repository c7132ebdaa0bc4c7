"""How the scheduler is doing, for /healthz and /readyz.

Alive: the loop turns. Ready: it either leads with watches that were heard lately, or stands by.
Both are asked from another thread, so they only look at values and change nothing.
"""

import time

from gpufleet.scheduler.cluster import Cluster
from gpufleet.scheduler.endpoint import Health
from gpufleet.scheduler.rounds import IDLE_S, Rounds

STUCK_AFTER_S = 6 * IDLE_S


class Status:
    """What is known of the running service."""

    def __init__(self, *, silent_after_s: float = 120.0) -> None:
        self.silent_after_s = silent_after_s
        self._cluster: Cluster | None = None
        self._rounds: Rounds | None = None
        self._beat_at_s = time.monotonic()

    def follow(self, cluster: Cluster) -> None:
        """These mirrors are being filled."""
        self._cluster, self._rounds = cluster, None

    def listed(self, rounds: Rounds) -> None:
        """Everything was listed once; decisions begin."""
        self._rounds = rounds

    def beat(self) -> None:
        """The loop has turned."""
        self._beat_at_s = time.monotonic()

    def alive(self) -> Health:
        """Whether the loop turns."""
        age_s = time.monotonic() - self._beat_at_s
        if age_s > STUCK_AFTER_S:
            return Health(well=False, reasons=(f"the loop has not turned for {age_s:.0f} s",))
        return Health(well=True)

    def ready(self) -> Health:
        """Whether what is decided rests on a fresh view; standing by is ready too."""
        if self._cluster is None:
            return Health(well=True)
        reasons = [] if self._rounds is not None else ["the cluster is still being listed"]
        for kind, health in self._cluster.health().items():
            if health.heard_s_ago is not None and health.heard_s_ago > self.silent_after_s:
                reasons.append(f"{kind.plural}: nothing heard for {health.heard_s_ago:.0f} s")
            elif health.problem and not health.following and health.listed and health.heard_s_ago is None:
                reasons.append(f"{kind.plural}: {health.problem}")
        return Health(well=not reasons, reasons=tuple(reasons))
