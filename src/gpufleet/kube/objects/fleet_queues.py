"""FleetQueue: a queue as an administrator writes it, and what the scheduler tells of it.

Cluster-scoped. ``manifests`` holds the definition that the API server checks, ``codec.fleet_queues`` says
what the spec means, ``codec.queue_status`` writes the status.
"""

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.selectors import LabelSelector
from gpufleet.kube.objects.structure import Structure

IntOrString = int | str
"""A quantity as it was written: a whole number need not be quoted."""

ACTIVE = "Active"
"""The condition that says whether a queue is in force."""

NAMESPACES_CLEAR = "NamespacesClear"
"""The condition that says whether each namespace of a queue is its own."""

WITHIN_BUDGET = "WithinBudget"
"""The condition that says whether a budget of a queue is spent, where one is or was."""


class QuotaSpec(Structure, frozen=True):
    """What a queue may have of one resource."""

    resource: str
    nominal: IntOrString | None = None
    borrowing_limit: IntOrString | None = None
    lending_limit: IntOrString | None = None
    hard_limit: IntOrString | None = None


class PriceSpec(Structure, frozen=True):
    """What a GPU of a model counts in ``cost``."""

    model: str
    price: IntOrString


class PreemptionSpec(Structure, frozen=True):
    """Which work a queue may have evicted, in which order, and for how long its own is left alone."""

    within_queue: str = "LowerPriority"
    reclaim: str = "Any"
    borrowing: str = "Never"
    borrowing_priority_max: int | None = None
    preempt_after: str | None = None
    reclaim_after: str | None = None
    elastic_after: str | None = None
    victim_order: str = "ShareFirst"


class RetryStrategySpec(Structure, frozen=True):
    """How often a request for nodes that failed is made anew, and after which pauses."""

    backoff_limit_count: int = 3
    backoff_base_seconds: int = 60
    backoff_max_seconds: int = 1800


class ProvisioningSpec(Structure, frozen=True):
    """How gangs of a queue ask for nodes."""

    provisioning_class_name: str
    parameters: dict[str, str] = msgspec.field(default_factory=dict)
    retry_strategy: RetryStrategySpec = RetryStrategySpec()


class LocalQueueSpec(Structure, frozen=True):
    """A name under which work of one namespace may ask for the queue."""

    namespace: str
    name: str


class FleetQueueSpec(Structure, frozen=True):
    """What is asked for; defaults are those of the definition."""

    parent: str | None = None
    priority: int = 0
    weight: IntOrString = 1
    ordering: str = "BestEffort"
    state: str = "Open"
    quotas: tuple[QuotaSpec, ...] = ()
    prices: tuple[PriceSpec, ...] = ()
    preemption: PreemptionSpec = PreemptionSpec()
    run_time_max: str | None = None
    half_life: str | None = None
    reserve_after: str | None = None
    learn_run_times: bool = False
    provisioning: ProvisioningSpec | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    local_queues: tuple[LocalQueueSpec, ...] = ()


class Condition(Structure, frozen=True):
    """One condition, with the time when its status last changed."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int | None = None


class ResourceStatus(Structure, frozen=True):
    """What a queue has of one resource, as amounts are written in quotas."""

    resource: str
    used: str | None = None
    borrowed: str | None = None
    lent: str | None = None
    fair_share: str | None = None
    decayed: str | None = None
    protected: str | None = None


class PastUseStatus(Structure, frozen=True):
    """What is remembered of past usage of one resource; ``engine.queueing.past_use`` says what it means."""

    resource: str
    at_us: int = msgspec.field(name="atMicroseconds")
    used: int
    value: str
    area: str


class ReservedPlaceStatus(Structure, frozen=True):
    """The node and the devices that are reserved for one pod, by its uid."""

    pod: str
    node: str
    devices: tuple[str, ...] = ()


class ReservationStatus(Structure, frozen=True, omit_defaults=False):
    """Which work of a queue holds which places until it can start there.

    ``holder`` is the uid of a pod, or a gang as the scheduler names it. Nothing is left out, since a merge of
    two of them would keep what the newer one does not say.
    """

    holder: str
    name: str = ""
    since: str | None = None
    expected_start: str | None = None
    places: tuple[ReservedPlaceStatus, ...] = ()
    waits_for: tuple[str, ...] = ()


class NominationStatus(Structure, frozen=True, omit_defaults=False):
    """The places that work of a queue gets when the pods that it waits for have left them.

    ``holder`` is the uid of a pod, or a gang as the scheduler names it. Smaller numbers come first. The pods
    are not evicted for the queues ``immune_to``.
    """

    holder: str
    number: int
    places: tuple[ReservedPlaceStatus, ...] = ()
    waits_for: tuple[str, ...] = ()
    immune_to: tuple[str, ...] = ()


class LearnedRunTimeStatus(Structure, frozen=True, omit_defaults=False):
    """How long the last runs of one template took; ``engine.learn.run_times`` says what a template is."""

    template: str
    runs_us: tuple[int, ...] = msgspec.field(name="runsMicroseconds", default=())


class PendingReason(Structure, frozen=True):
    """How many pods wait for one reason."""

    reason: str
    pods: int


class PendingStatus(Structure, frozen=True, omit_defaults=False):
    """What waits in a queue."""

    pods: int = 0
    reasons: tuple[PendingReason, ...] = ()


class BudgetStatus(Structure, frozen=True, omit_defaults=False):
    """What the ledger says of a budget of the queue that is spent; absent while none is.

    ``spent`` says which in words. Until ``held_until`` nothing new starts, unless the ledger says so longer.
    """

    spent: str
    cost: str
    checked_at: str
    held_until: str


class FleetQueueStatus(Structure, frozen=True):
    """What the leading scheduler told last; words of other writers in it are overwritten."""

    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()
    share: str | None = None
    dominant_resource: str | None = None
    resources: tuple[ResourceStatus, ...] = ()
    past_use: tuple[PastUseStatus, ...] = ()
    pending: PendingStatus | None = None
    draining_since: str | None = None
    reservation: ReservationStatus | None = None
    nominations: tuple[NominationStatus, ...] = ()
    learned_run_times: tuple[LearnedRunTimeStatus, ...] = ()
    immune_pods: tuple[str, ...] = ()
    local_name_in: tuple[str, ...] = ()


class FleetQueue(Structure, frozen=True):
    """A queue. Its status is kept as it came: what is wrong in it does not make the queue unreadable."""

    metadata: Metadata
    spec: FleetQueueSpec
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _OfLedger(Structure, frozen=True):
    """What the ledger writes into a status. The scheduler writes none of it, and so takes none of it away."""

    budget: BudgetStatus | None = None


_STATUS = msgspec.json.Decoder(FleetQueueStatus)
_OF_LEDGER = msgspec.json.Decoder(_OfLedger)


def status_of(queue: FleetQueue) -> FleetQueueStatus:
    """The status as it stands; an empty one where it cannot be read, because another writer changed it."""
    return decoded_status(queue.status)


def budget_of(queue: FleetQueue) -> BudgetStatus | None:
    """What the ledger says of a spent budget; None where it says nothing that can be read."""
    try:
        return _OF_LEDGER.decode(queue.status).budget
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decoded_status(raw: msgspec.Raw) -> FleetQueueStatus:
    """A status; an empty one where it cannot be read."""
    try:
        return _STATUS.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return FleetQueueStatus()
