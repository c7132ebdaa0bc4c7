"""What can be set about the live scheduler, with defaults that suit a cluster of any size."""

import msgspec

from gpufleet.mig.demand import DemandRules
from gpufleet.model.defragmentation import DefragmentationRules

# The names that the chart and the documents use.
SCHEDULER_NAME = "gpufleet"
LEASE_NAMESPACE = "gpufleet-system"
LEASE_NAME = "gpufleet-scheduler"


BY_QUEUES = "by-queues"
BY_PRIORITY = "by-queues-and-priority"
"""The engine's searches for victims that a cluster may have (``engine.preempt.by_name``)."""


class LeaseTimes(msgspec.Struct, frozen=True):
    """How long leadership lasts unrenewed, until when it is renewed, and how often that is tried.

    The defaults are those of kube-scheduler.
    """

    duration_s: int = 15
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


class Settings(msgspec.Struct, frozen=True):
    """All settings. Times are in seconds.

    ``identity`` names this process in the Lease. ``binds_at_once`` bounds the writes under way; more of them
    do not make an API server faster. ``gang_deadline_s`` counts from the first member's PodScheduled time; a
    gang that was whole and lost members has ``stale_gang_s`` to get others (at most the deadline; below 0:
    any time). ``silent_watch_s`` is how long a watch may say nothing at all. ``require_fence`` makes a leader
    wait until the API server refuses an older leader's Bindings; without it two leaders at once are only kept
    apart by the Lease's clock. ``evict_memory_offenders`` ends pods that go on using more GPU memory than
    their share; without it they are only warned. ``victims`` names the engine's search for victims
    (``engine.preempt.by_name``). ``defragmentation`` says when pods are moved without a request, and
    ``mig_demand`` when cards are cut for pods that wait; None: never.
    """

    identity: str
    scheduler_name: str = SCHEDULER_NAME
    policy: str = "gpufleet"
    victims: str = BY_PRIORITY
    lease_namespace: str = LEASE_NAMESPACE
    lease_name: str = LEASE_NAME
    lease: LeaseTimes = LeaseTimes()
    binds_at_once: int = 32
    reports_at_once: int = 8
    evictions_at_once: int = 16
    gang_deadline_s: float = 600.0
    stale_gang_s: float = 60.0
    silent_watch_s: float = 90.0
    request_timeout_s: float = 30.0
    require_fence: bool = True
    evict_memory_offenders: bool = False
    defragmentation: DefragmentationRules | None = None
    mig_demand: DemandRules | None = None
