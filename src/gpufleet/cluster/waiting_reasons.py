"""The reasons of the condition PodScheduled: ``Unschedulable`` only where nodes would help.

Cluster Autoscaler and Karpenter buy nodes for pods whose reason is exactly that word. Work that waits for
quota, for members of its gang or for its turn would leave such nodes empty, so its reason is another word.
A cause that is a reason of nodes counts as one that nodes help against: the autoscaler tries itself whether
a node that it can buy has what today's nodes lack. ``scheduler`` writes the reason beside the words.
"""

from gpufleet.cluster.verdict_words import GANG_MALFORMED
from gpufleet.engine.explanations.causes import (
    ABOUT_TO_RUN,
    BACKOFF,
    BEHIND_OTHERS,
    BY_BAR,
    BY_LIMIT,
    GANG_SHORT,
    GANG_UNKNOWN,
    QUEUE_BUDGET,
)
from gpufleet.kube.codec.chosen_nodes import Postponed, read_chosen_nodes
from gpufleet.kube.objects.pod import Pod

UNSCHEDULABLE = "Unschedulable"
"""Nodes would help; the word is kube-scheduler's."""

NEVER_FITS = "NeverFits"
"""The work asks for more than its queue can ever give."""

WAITING_FOR_BUDGET = "WaitingForBudget"
"""The budget of the work's queue is spent, so that nodes would stay empty."""

WAITING_FOR_GANG = "WaitingForGang"
WAITING_FOR_NODE_LIMITS = "WaitingForNodeLimits"
"""Nodes would help, and the limits of the pools that have such nodes do not allow all of them."""

WAITING_FOR_PROVISIONING = "WaitingForProvisioning"
"""Nodes would help, and are asked for by a ProvisioningRequest."""

WAITING_FOR_QUEUE = "WaitingForQueue"
WAITING_FOR_QUOTA = "WaitingForQuota"
WAITING_FOR_TURN = "WaitingForTurn"
"""Nodes have room, and other work comes first or a pause is not over."""

ABOUT_NODES = "; nodes: "
"""What follows in the message says how nodes are asked for, or why none are; ``explain`` repeats it."""

_BY_CAUSE = {
    **dict.fromkeys(BY_BAR.values(), WAITING_FOR_QUEUE),
    QUEUE_BUDGET: WAITING_FOR_BUDGET,
    **dict.fromkeys(BY_LIMIT.values(), WAITING_FOR_QUOTA),
    **dict.fromkeys((GANG_SHORT, GANG_UNKNOWN, GANG_MALFORMED), WAITING_FOR_GANG),
    **dict.fromkeys((ABOUT_TO_RUN, BACKOFF, BEHIND_OTHERS), WAITING_FOR_TURN),
}


def is_postponed(pod: Pod, now_us: int) -> bool:
    """Whether the nodes that can be bought now are for other work, so that none are asked for."""
    said = read_chosen_nodes(pod)
    return isinstance(said, Postponed) and now_us < said.until_us


def as_shown(reason: str, pod: Pod, now_us: int) -> str:
    """The reason that a pod shows autoscalers: while it is postponed, nodes are not asked for."""
    return WAITING_FOR_TURN if reason == UNSCHEDULABLE and is_postponed(pod, now_us) else reason


def waiting_reason(cause: str, *, never_fits: bool) -> str:
    """The reason for a cause; ``never_fits`` where the work waits until it or its queue is changed."""
    found = _BY_CAUSE.get(cause, UNSCHEDULABLE)
    return NEVER_FITS if never_fits and found == WAITING_FOR_QUOTA else found
