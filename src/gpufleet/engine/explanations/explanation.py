"""Why work waits, as one value: what answers, tables and checks tell of it (``why`` makes it)."""

import msgspec

from gpufleet.engine.instruction import GangUnschedulable, Verdict
from gpufleet.model.identifiers import NodeName, PodUid


class ReasonCount(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reason of nodes: how many it is the first of, how many have it, and which.

    ``detail`` says more of it, such as the taints that are not tolerated.
    """

    reason: str
    words: str
    first: int
    all: int
    nodes: tuple[NodeName, ...]
    detail: str = ""


class Holder(msgspec.Struct, frozen=True):
    """A pod that has room on a node, and on how many GPUs it is."""

    uid: PodUid
    name: str
    gpus: int


class NearNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node that needs the least change: its reasons, what it lacks of what, and which pods are there."""

    node: NodeName
    reasons: tuple[str, ...]
    short: dict[str, int] = {}
    holders: tuple[Holder, ...] = ()


class Reasoned(msgspec.Struct, frozen=True):
    """A reason of the nodes that come nearest, for one pod in words."""

    reason: str
    why: str
    way_out: tuple[str, ...] = ()


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a pod waits, or the gang of which it is the next member.

    ``cause`` is one of ``causes``. ``pod`` is the one of which the rest speaks. ``findings`` has the reasons
    of the ``nearest`` nodes, the hardest first. ``node`` is the one that it is about to get, or that is kept
    for it until ``waits_for`` have ended. ``ahead`` are pods that were just given room that the pod could
    have.
    """

    cause: str
    pod: PodUid
    verdict: Verdict | None = None
    counts: tuple[ReasonCount, ...] = ()
    nearest: tuple[NearNode, ...] = ()
    findings: tuple[Reasoned, ...] = ()
    gang: GangUnschedulable | None = None
    node: NodeName | None = None
    waits_for: tuple[PodUid, ...] = ()
    ahead: tuple[PodUid, ...] = ()
