"""A queue: the line in which work of one team waits, what that team is owed, and what it may take.

Queues form trees; work waits in the leaves. What the amounts mean together is written in ``engine.queueing``;
these are the amounts that an administrator states.
"""

import enum

import msgspec

from gpufleet.model.identifiers import QueueName, QuotaResource
from gpufleet.model.labels import LabelSelector

GPU = QuotaResource("gpu")
"""GPUs of any model, in thousandths."""
GPU_MEMORY = QuotaResource("gpu-memory")
"""Memory of GPUs, in MiB."""
MIG_SLICES = QuotaResource("mig-slices")
"""Compute slices of MIG instances."""
CPU = QuotaResource("cpu")
"""Cores, in thousandths."""
MEMORY = QuotaResource("memory")
"""Memory of hosts, in bytes."""
COST = QuotaResource("cost")
"""GPUs weighed by the price of their model, in thousandths of the unit of prices."""
GPU_MODEL_PREFIX = "gpu/"
"""Before the name of a model: GPUs of that model, in thousandths."""

# Weights are counted in thousandths, so that shares are divided without fractions.
WEIGHT_ONE_MILLI = 1000
RESERVE_AFTER_US = 300_000_000
"""Five minutes: work that starts sooner by itself does not hold resources back from others."""


class QueueState(enum.StrEnum):
    """Whether a queue's work may start and stay.

    ``HELD``: nothing starts, what runs goes on. ``DRAINING``: what waits may still start, nothing
    new is taken in. ``STOPPED``: nothing starts, and what runs is evicted.
    """

    OPEN = "open"
    HELD = "held"
    DRAINING = "draining"
    STOPPED = "stopped"


class VictimScope(enum.StrEnum):
    """Which workloads another may evict, as far as priority and age go."""

    NEVER = "never"
    LOWER_PRIORITY = "lower-priority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "lower-or-newer-equal-priority"
    ANY = "any"


class VictimOrder(enum.StrEnum):
    """What decides first between victims of other queues that are alike in number and priorities."""

    SHARE_FIRST = "share-first"
    WORK_LOST_FIRST = "work-lost-first"


class Quota(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a queue may have of one resource, in that resource's unit.

    ``nominal`` is its own. It may take ``borrowing_limit`` more of what others of its tree leave
    idle, and lend ``lending_limit`` of its own to them; None is without a limit. Beyond
    ``hard_limit`` it never gets anything.
    """

    resource: QuotaResource
    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    hard_limit: int | None = None


class PreemptionPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which work a queue's work may evict, and for how long its own is left alone.

    ``within_queue`` is about work of the same queue; ``reclaim`` about work of other queues that borrow, for
    a workload that stays within the nominal quota; ``borrowing`` about that for a workload that would borrow
    itself, and then only victims up to ``borrowing_priority_max``. Work of this queue is not preempted before
    ``preempt_after_us`` of running, nor reclaimed before ``reclaim_after_us``. A pod of a gang above its
    minimum goes alone once it has run for ``elastic_after_us`` instead, where that is set.
    ``victim_order`` says which work of other queues goes first: of the one that has borrowed the most, or
    that which loses the least.
    """

    within_queue: VictimScope = VictimScope.LOWER_PRIORITY
    reclaim: VictimScope = VictimScope.ANY
    borrowing: VictimScope = VictimScope.NEVER
    borrowing_priority_max: int | None = None
    preempt_after_us: int = 0
    reclaim_after_us: int = 0
    elastic_after_us: int | None = None
    victim_order: VictimOrder = VictimOrder.SHARE_FIRST


class AdmittedNamespaces(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which namespaces may use a queue: those that are listed, and those that the selector accepts."""

    namespaces: tuple[str, ...] = ()
    selector: LabelSelector | None = None


class Queue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A queue with its place among the others.

    Queues of higher ``priority`` are served first, beyond what each is owed. ``weight_milli`` is its part of
    what is left over, against its siblings' (1000 is one part; 0: only what no other queue wants). In a
    ``strict`` queue the first workload that cannot run holds back all behind it; otherwise later work may
    overtake. ``parent`` None: the queue is the root of a tree. Work that has run for ``run_time_max_us`` is
    ended. ``half_life_us`` lets past usage count in the comparison with its siblings, half as much after each
    such time; 0 looks at the present only. What was made after ``draining_since_us`` came too late for a
    draining queue; where that is None, what the engine hears of after it heard that the queue drains. Work
    that has waited for ``reserve_after_us`` may hold a reservation of the place where it will start first;
    None: never. With ``learn_run_times``, work that does not say how long it runs is let in before others'
    reservations by how long work like it ran. ``spent_budget`` says in words which budget is spent, so that
    nothing new starts while what runs goes on; "" for none. ``admitted`` says which namespaces may use the
    queue and those below it that say nothing of their own; None: the queue says nothing.
    """

    name: QueueName
    priority: int = 0
    strict: bool = False
    parent: QueueName | None = None
    weight_milli: int = WEIGHT_ONE_MILLI
    quotas: tuple[Quota, ...] = ()
    state: QueueState = QueueState.OPEN
    preemption: PreemptionPolicy = PreemptionPolicy()
    run_time_max_us: int | None = None
    half_life_us: int = 0
    draining_since_us: int | None = None
    reserve_after_us: int | None = RESERVE_AFTER_US
    learn_run_times: bool = False
    spent_budget: str = ""
    admitted: AdmittedNamespaces | None = msgspec.field(default=None, name="door")
