"""The reason that a waiting pod shows node autoscalers: ``Unschedulable`` while nodes are asked for.

Nodes are not asked for while the pod is postponed, and not beyond the quota of its queue or the limits of
the pools that nodes come from: work that was shown before counts against both. After a restart the conditions
of the pods say which work that was.
"""

from collections.abc import Callable
from typing import NamedTuple

from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.cluster.waiting_reasons import (
    UNSCHEDULABLE,
    WAITING_FOR_NODE_LIMITS,
    WAITING_FOR_PROVISIONING,
    WAITING_FOR_QUOTA,
    WAITING_FOR_TURN,
    as_shown,
)
from gpufleet.engine.scheduler import Engine
from gpufleet.kube.objects.pod import POD_SCHEDULED
from gpufleet.model.identifiers import GangName
from gpufleet.scheduler.node_pool_limits import NodePoolLimits
from gpufleet.scheduler.provisioning.gang_requests import GangRequests

PROMISED = "; its queue's quota is promised to work for which nodes were asked before"

AS_A_WHOLE = "; its queue has too little quota for the whole gang"


class ShownReason(NamedTuple):
    """The reason, and what is said beside the words of why the pod waits."""

    reason: str
    note: str = ""


Shown = Callable[[str, Entry], ShownReason]
"""The reason that is shown for the one that the engine's verdict has."""


class ShownReasons:
    """Decides which of the work that nodes would help asks for them."""

    def __init__(
        self,
        engine: Engine,
        pods: PodTracker,
        limits: NodePoolLimits,
        requests: GangRequests,
        now_us: Callable[[], int],
    ) -> None:
        self._promised = engine.promised_quota
        self._limits = limits
        self._requests = requests
        self._pods = pods
        self._now_us = now_us
        self._knows_shown = False

    def of(self, reason: str, entry: Entry) -> ShownReason:
        """The reason that a pod shows."""
        shown = self._shown(reason, entry)
        gang = None if entry.meaning is None else entry.meaning.gang
        if gang is not None:
            self._stop_requests(shown.reason, gang)
        return shown

    def _shown(self, reason: str, entry: Entry) -> ShownReason:
        if entry.meaning is None:
            return ShownReason(reason)
        now_us = self._now_us()
        shown = as_shown(reason, entry.object, now_us)
        work = entry.meaning.workload
        if shown != UNSCHEDULABLE:
            self._promised.withdraw(work)
            self._limits.withdraw(work)
            return ShownReason(shown)
        if not self._knows_shown:
            self._knows_shown = True
            self._take_up(now_us)
        if self._promised.is_beyond_quota(work):
            self._promised.withdraw(work)
            self._limits.withdraw(work)
            return ShownReason(WAITING_FOR_QUOTA, AS_A_WHOLE)
        if not self._promised.promise(work, now_us):
            self._limits.withdraw(work)
            return ShownReason(WAITING_FOR_QUOTA, PROMISED)
        beyond = self._limits.ask(work, entry, now_us)
        if beyond:
            self._promised.withdraw(work)
            return ShownReason(WAITING_FOR_NODE_LIMITS, beyond)
        requested = self._requests.ask(entry)
        return ShownReason(WAITING_FOR_PROVISIONING, requested) if requested else ShownReason(UNSCHEDULABLE)

    def _stop_requests(self, reason: str, gang: GangName) -> None:
        if reason == WAITING_FOR_TURN:
            self._requests.pause(gang)
        elif reason != WAITING_FOR_PROVISIONING:
            self._requests.withdraw(gang)

    def _take_up(self, now_us: int) -> None:
        """Work that asked for nodes before this process began goes on doing so before any other."""
        for entry in self._pods.entries.values():
            if entry.place is PodStage.WAITING and entry.meaning is not None:
                said = entry.object.condition(POD_SCHEDULED)
                if said is not None and said.reason in {UNSCHEDULABLE, WAITING_FOR_PROVISIONING}:
                    self._promised.promise(entry.meaning.workload, now_us)
                    self._limits.ask(entry.meaning.workload, entry, now_us, asked_before=True)
