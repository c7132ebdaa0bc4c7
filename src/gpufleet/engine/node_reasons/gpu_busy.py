"""Too few GPUs of the node are free."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason
from gpufleet.engine.node_reasons.room_words import shares_in_use, when_gpus_are_free
from gpufleet.model.phrases import counted, listed, subject, verb

BIT = 1 << 11


def finding(case: Case) -> Finding:
    """How many GPUs are free where, and after whose end there are enough."""
    if not case.shape.gpu.whole:
        return shares_in_use(case)
    count = case.shape.gpu.count
    total = sum(room.free_gpus for room in case.near_rooms)
    best = max(case.near_rooms, key=lambda room: room.free_gpus)
    most = best.free_gpus
    nodes = counted(len(case.near), "node")
    at_most = counted(most, case.unit)
    smaller = [f"ask for at most {at_most} in one pod (several pods can be a gang)"] if most else []
    ways = (when_gpus_are_free(best, count - most, case.unit), *smaller)
    kept = kept_words(case)
    if total >= count:
        free = f"{subject(total, case.unit, 'are')} free on the {nodes} that would do"
        return Finding(f"{free}, but at most {most} on one; it needs {count}{kept}", ways)
    of = sum(len(room.node.devices) for room in case.near_rooms)
    free = f"of the {counted(of, case.unit)} of the {nodes} that would do {total} {verb(total, 'are')} free"
    return Finding(f"{free}; it needs {count} on one node{kept}", ways)


def kept_words(case: Case) -> str:
    """How many free GPUs are kept, and for which pods; "" if there are none."""
    kept = [one for room in case.near_rooms for one in room.kept_for if one.gpus]
    if not kept:
        return ""
    count = sum(one.gpus for one in kept)
    names = listed(one.name for one in kept)
    return f"; {counted(count, case.unit)} there {verb(count, 'are')} kept for {names}"


REASON = NodeReason(
    "gpu-busy",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="with too few free GPUs",
    counts_gpus=True,
    finding=finding,
)
