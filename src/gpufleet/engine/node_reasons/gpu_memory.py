"""Too little memory is free on the node's GPUs."""

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.engine.node_reasons.node_reason import Kind, NodeReason

BIT = 1 << 13


def finding(case: Case) -> Finding:
    """How much memory the GPUs have, and how much of it is left."""
    wanted = case.shape.gpu.memory_mib or 0
    left = [
        (room.free_mib[device.id], device, room.node.name)
        for room in case.near_rooms
        for device in room.node.devices
        if device.healthy
    ]
    most, device, node = max(left, key=lambda one: one[0])
    largest = max(device.memory_mib or 0 for _, device, _ in left)
    if largest and wanted > largest:
        why = f"it needs {wanted} MiB of one GPU, and the largest have {largest} MiB"
        return Finding(why, (f"ask for at most {largest} MiB of one GPU",))
    need = f"it needs {wanted} MiB" if wanted else "its share's memory does not fit"
    why = f"{need} of one GPU, and the most that one has left is {most} MiB ({device.id} on {node})"
    return Finding(why, (f"ask for at most {most} MiB", "wait until a pod there ends"))


REASON = NodeReason(
    "gpu-memory",
    BIT,
    height=1,
    kind=Kind.ROOM,
    words="short of GPU memory",
    finding=finding,
)
