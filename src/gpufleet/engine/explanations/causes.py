"""The cause by which work waits: one list of them, and the one function that finds it.

A verdict says everything that stands against a pod; its cause is the first thing to know. What nodes have
against work does not matter while its queue is closed, and that a hundred nodes have no GPU does not matter
where others are only busy. Conditions, answers, tables and checks tell the cause that is found here.
"""

import msgspec

from gpufleet.engine.instruction import GangUnschedulable, QuotaLimit, Verdict, WhyBarred
from gpufleet.engine.node_reasons import cordoned, gpu_sick, gpu_unreported, node_not_ready, rejects_pods
from gpufleet.engine.node_reasons.node_reason import Kind
from gpufleet.engine.node_reasons.table import TABLE, ReasonTable


class Cause(msgspec.Struct, frozen=True):
    """A cause by its name in JSON, and in one sentence."""

    name: str
    words: str


ABOUT_TO_RUN = "about-to-run"
BACKOFF = "backoff"
BEHIND_OTHERS = "behind-others"
GANG_FIT = "gang-fit"
GANG_SHORT = "gang-short"
GANG_UNKNOWN = "gang-unknown"
NO_NODES = "no-nodes"
NOMINATED = "nominated"
QUEUE_BUDGET = "queue-budget"
RESERVATION = "reservation"
RESERVED = "reserved"

BY_BAR = {
    WhyBarred.UNKNOWN: "queue-unknown",
    WhyBarred.INNER: "queue-inner",
    WhyBarred.HELD: "queue-closed",
    WhyBarred.DRAINING: "queue-closed",
    WhyBarred.STOPPED: "queue-closed",
    WhyBarred.CYCLE: "queue-broken",
    WhyBarred.NO_PARENT: "queue-broken",
    WhyBarred.TOO_DEEP: "queue-broken",
    WhyBarred.NOT_ADMITTED: "queue-not-admitted",
    WhyBarred.OVER_BUDGET: QUEUE_BUDGET,
}
"""The causes of a queue that lets no work start."""

BY_LIMIT = {
    QuotaLimit.NOMINAL: "queue-quota",
    QuotaLimit.LENDING: "queue-quota",
    QuotaLimit.BORROWING: "queue-quota",
    QuotaLimit.HARD: "queue-quota",
    QuotaLimit.PROTECTED: "queue-quota-protected",
    QuotaLimit.OUTSIDE: "queue-outside",
}
"""The causes of quota."""

PASSING_BARS = frozenset({WhyBarred.HELD, WhyBarred.DRAINING, WhyBarred.STOPPED, WhyBarred.OVER_BUDGET})
"""What keeps a queue from starting work for a while."""

PASSING_REASONS = frozenset(
    module.REASON.name for module in (cordoned, node_not_ready, gpu_sick, gpu_unreported, rejects_pods)
)
"""Reasons of nodes that go away when the node is well again, though nothing about it is changed."""

BESIDE_NODES = (
    Cause(RESERVED, "The work holds a reservation and waits for what runs there to end."),
    Cause(RESERVATION, "The work could run now, but others hold the room reserved."),
    Cause("queue-unknown", "The queue that the work names is not described, or cannot be read."),
    Cause("queue-inner", "The queue that the work names has queues below it."),
    Cause("queue-closed", "The queue, or one above it, is held, draining or stopped."),
    Cause(QUEUE_BUDGET, "The budget of the queue, or of one above it, is spent."),
    Cause(
        "queue-broken", "The parent of the queue is not described, or the queue is below itself or too deep."
    ),
    Cause("queue-not-admitted", "The work's namespace may not use the queue."),
    Cause("queue-quota", "A limit of a queue leaves too little for the work."),
    Cause("queue-quota-protected", "The queue owns too little for work that is never evicted."),
    Cause("queue-outside", "The work is in no queue, and queues own what it needs."),
    Cause(NO_NODES, "The cluster has no nodes."),
    Cause(GANG_SHORT, "Too few members of the gang have come, or too few of one role."),
    Cause(GANG_UNKNOWN, "The gang that the pod names is not described."),
    Cause(GANG_FIT, "Nodes have room for the gang's next member, but not where its others must be."),
    Cause(BEHIND_OTHERS, "Nodes have room, and other work comes first."),
    Cause(BACKOFF, "The last bind was refused; the pod is tried again after a pause."),
    Cause(NOMINATED, "A node is kept for the work until pods that were told to end have left."),
    Cause(ABOUT_TO_RUN, "A node has room for the work, and the Binding is under way."),
)
"""All causes that are no reason of nodes, in the order in which they count."""


def all_causes(table: ReasonTable = TABLE) -> tuple[Cause, ...]:
    """Every cause that the engine tells."""
    by_node = (Cause(one.name, f"Of the nodes that come nearest: {one.words}.") for one in table.reasons)
    return (*BESIDE_NODES, *by_node)


def cause_of(verdict: Verdict) -> str:
    """The cause by which a pod with this verdict waits.

    Of the nodes' reasons it is the one that is hardest to change at the nodes that come nearest.
    """
    # From what decides first to what decides last: while a queue is closed, nothing about nodes matters.
    if verdict.reserved is not None:
        return RESERVED
    if verdict.kept_off_by is not None:
        return RESERVATION
    if verdict.bar is not None:
        return BY_BAR[verdict.bar.why]
    if verdict.quota is not None:
        return BY_LIMIT[verdict.quota.limit]
    if not verdict.nodes:
        return NO_NODES
    # Some node would take it, so other work is in front.
    if has_room(verdict) or verdict.lacking is None:
        return BEHIND_OTHERS
    return verdict.lacking.reasons[0]


def never_fits(verdict: Verdict) -> bool:
    """True if the work starts only after it, its queue or the nodes are changed, whatever else ends."""
    if verdict.bar is not None:
        return verdict.bar.why not in PASSING_BARS
    if verdict.quota is not None:
        return verdict.quota.asked > verdict.quota.allowed
    if not verdict.nodes:
        return True
    # A nearest node lacks only amounts, which come back when other work ends.
    if verdict.nearest is not None or verdict.lacking is None or has_room(verdict):
        return False
    hardest = verdict.lacking.reasons[0]
    return hardest not in PASSING_REASONS and TABLE.by_name[hardest].kind is Kind.CHANGE


def has_room(verdict: Verdict) -> bool:
    """True if some node would take the pod as far as nodes go."""
    return sum(verdict.first_reasons.values()) < verdict.nodes


def cause_of_gang(said: GangUnschedulable) -> str:
    """The cause by which a gang waits: that of its next member."""
    if said.verdict is None:
        return GANG_SHORT
    found = cause_of(said.verdict)
    # Some node has room for this member, so what fails is the gang as a whole.
    return GANG_FIT if found == BEHIND_OTHERS else found
