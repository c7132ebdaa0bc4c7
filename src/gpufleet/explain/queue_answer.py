"""How the queues stand, as values: what ``gpufleet queues -o json`` prints.

Amounts are quantities, written as in the quotas of a FleetQueue. What is unknown, or not limited, is absent.
Names stay as they are from one version to the next; a change that breaks readers gets another ``schema``.
"""

import enum

import msgspec

SCHEMA = "gpufleet.io/queues/v1"
"""A change that breaks readers of the JSON gets another version."""

WORDS_MAX = 20
"""More than a reason is said of so many waiting workloads of a queue: each costs a decision."""

MALFORMED = "Malformed"
"""The reason of a queue that cannot be understood; its problem names the field."""


class AnswerSource(enum.Enum):
    """Where the figures are from: the engine, asked now, or the statuses that a scheduler wrote."""

    ENGINE = "engine"
    STATUS = "status"


class ResourceRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource of one queue and all below it.

    ``nominal`` is the queue's own, ``quota`` that of all below it too. ``fair_share`` is what it would have
    if all were divided anew, as far as it wants it; ``available`` what one workload may still be charged.
    ``protected`` is what work that is never evicted has of ``nominal``; it may have no more than that.
    """

    resource: str
    used: str = "0"
    quota: str = "0"
    nominal: str = "0"
    borrowed: str = "0"
    lent: str = "0"
    fair_share: str | None = None
    available: str | None = None
    borrowing_limit: str | None = None
    lending_limit: str | None = None
    hard_limit: str | None = None
    protected: str = "0"


class PendingRow(msgspec.Struct, frozen=True):
    """How many pods of a queue wait for one reason."""

    reason: str
    pods: int


class WaitingRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A workload that waits, by its place in the queue; none for a gang of which members have not come.

    ``reason`` says what it waits for (quota, nodes, its turn, ...), ``cause`` why, as ``explain`` does.
    ``why`` is said of the first ``WORDS_MAX`` of a queue where others' reservations keep them off.
    """

    kind: str
    namespace: str
    name: str
    pods: int
    priority: int
    reason: str
    position: int | None = None
    created: str = ""
    why: str = ""
    cause: str = ""


class PolicyRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a queue's owner decided, in the words of FleetQueue."""

    state: str = "Open"
    priority: int = 0
    weight: str = "1"
    ordering: str = "BestEffort"
    within_queue: str = "LowerPriority"
    reclaim: str = "Any"
    borrowing: str = "Never"
    preempt_after: str | None = None
    reclaim_after: str | None = None
    run_time_max: str | None = None
    half_life: str | None = None
    namespaces: tuple[str, ...] = ()
    learn_run_times: bool = False
    elastic_after: str | None = None
    victim_order: str = "ShareFirst"


class Problem(msgspec.Struct, frozen=True):
    """Why a queue is not in force, or not as it was meant."""

    reason: str
    message: str


class ReservationRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """Work that holds so many nodes until it can start; ``expected_start`` is absent where it is unknown."""

    kind: str
    namespace: str
    name: str
    nodes: int
    since: str = ""
    expected_start: str | None = None


class QueueRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One queue. ``policy`` is None where no FleetQueue of that name can be read.

    ``pending`` counts pods by reason, those below the queue left out. ``share`` is the dominant share by its
    weight; absent where the queue comes after all others. ``waiting`` is None where the engine was not asked.
    """

    name: str
    parent: str | None = None
    active: bool = True
    problems: tuple[Problem, ...] = ()
    policy: PolicyRow | None = None
    share: str | None = None
    dominant_resource: str | None = None
    resources: tuple[ResourceRow, ...] = ()
    pending: tuple[PendingRow, ...] = ()
    waiting: tuple[WaitingRow, ...] | None = None
    reservation: ReservationRow | None = None

    @property
    def pods_waiting(self) -> int:
        """How many pods wait in it."""
        return sum(one.pods for one in self.pending)

    def resource(self, name: str) -> ResourceRow | None:
        """What it has of a resource; None where that neither is limited nor used."""
        return next((one for one in self.resources if one.resource == name), None)


class QueuesAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """All queues, parents before their children, siblings by name; ``at`` is when they were looked at."""

    schema: str
    source: AnswerSource
    at: str
    queues: tuple[QueueRow, ...] = ()
    notes: tuple[str, ...] = ()
