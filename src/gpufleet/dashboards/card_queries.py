"""Queries about cards and what pods hold of them, which several boards show.

A card is one by its node and uuid, whatever labels of its series change (driver, mode, address).
"""

from gpufleet.dashboards.promql import one_per, series

CARD = "node, uuid"
HELD_PART = "node, uuid, mig_id, namespace, pod"
"""A part of a card that a pod holds: a card, a MIG instance or a share."""

CARDS = one_per(CARD, series("gpufleet_gpu_info"))
IN_SERVICE = f"{one_per(CARD, series('gpufleet_gpu_healthy'))} == 1"
OUT_OF_SERVICE = f"{one_per(CARD, series('gpufleet_gpu_healthy'))} == 0"
BUSY = one_per(CARD, series("gpufleet_gpu_busy_ratio"))
HELD = one_per(HELD_PART, series("gpufleet_pod_gpu_held_ratio"))
USED = one_per(HELD_PART, series("gpufleet_pod_gpu_used_ratio"))
MODEL = one_per(f"{CARD}, model", series("gpufleet_gpu_info"))
"""1 for each card, with its model."""
FREE = f"({IN_SERVICE}) unless on (cluster, node, uuid) {HELD}"
"""Cards in service of which no pod holds a part."""
COMPUTING = f"{HELD} * on (cluster, {HELD_PART}) {USED}"
"""What is held, by the part of the time in which the pod computes there."""
IDLE = f"{HELD} * on (cluster, {HELD_PART}) (1 - {USED})"


def room_for(gpus: int) -> str:
    """How many pods with so many whole GPUs of one node the free cards have room for."""
    by_node = f"count by (cluster, node) ({FREE})"
    return f"sum(floor({by_node} / {gpus})) or 0 * count({CARDS})"
