"""Too few GPUs of the node are free."""

from gpufleet.engine.reasons.case import Case, Finding
from gpufleet.engine.reasons.node_reason import Kind, NodeReason
from gpufleet.engine.reasons.room_words import shares_in_use, when_gpus_are_free
from gpufleet.model.phrases import counted

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
    smaller = (
        [f"ask for at most {counted(most, 'GPU')} in one pod (several pods can be a gang)"] if most else []
    )
    ways = (when_gpus_are_free(best, count - most), *smaller)
    if total >= count:
        why = (
            f"{total} GPUs are free on the {nodes} that would do, but at most {most} on one; it needs {count}"
        )
        return Finding(why, ways)
    of = sum(len(room.node.devices) for room in case.near_rooms)
    return Finding(
        f"of the {of} GPUs of the {nodes} that would do {total} are free; it needs {count} on one node", ways
    )


REASON = NodeReason(
    "gpu-busy",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="with their GPUs in use",
    finding=finding,
)
