"""What stands between a shape and the nodes that would need the least change to take it.

Most nodes fail for reasons that cannot be changed: a pod that wants GPUs is refused by every node without
any. So the reasons that matter are not those of most nodes, but those of the nodes that come nearest: where
work must only end, before those where a taint or the pod's selector must be changed, before those that could
never take it. ``verdict`` collects the reasons by node.
"""

import functools

from gpufleet.engine.instruction import Hurdle
from gpufleet.engine.reason import GPU_SHORT, HOST_SHORT, NEIGHBOURS, Reason

REASONS = len(Reason)
# A fleet has few sets of reasons, and the same ones come with every refusal.
KEPT_MAX = 4096
NAMES = tuple((one.name or "").lower().replace("_", "-") for one in Reason)
"""The names of the reasons in JSON and in tables: "gpu-busy"."""

HEIGHTS: dict[Reason, int] = {
    **dict.fromkeys(GPU_SHORT | HOST_SHORT, 1),
    **dict.fromkeys(NEIGHBOURS, 2),
    Reason.VOLUME_UNBOUND: 4,
    Reason.POD_AFFINITY: 4,
    Reason.CORDONED: 5,
    Reason.GPU_UNREPORTED: 5,
    Reason.TAINT: 6,
    Reason.GPU_SICK: 6,
    Reason.SELECTOR: 7,
    Reason.VOLUME_AFFINITY: 8,
    Reason.DOMAIN: 8,
    Reason.GPU_SHARING: 9,
    Reason.GPU_APART: 10,
    Reason.FEATURE: 12,
    Reason.GPU_MODEL: 14,
    Reason.GPU_COUNT: 20,
    Reason.NO_GPU: 60,
}
"""How much would have to change for a reason to go away; only the order and rough distances matter:
room comes by itself, a pod or a taint can be edited, GPUs do not grow on nodes.
"""


@functools.lru_cache(KEPT_MAX)
def height(found: int) -> int:
    """How much would have to change for all these reasons to go away."""
    return sum(HEIGHTS[one] for one in Reason(found))


def lowest(nodes_by_reasons: dict[int, int]) -> Hurdle | None:
    """The reasons shared by the nodes that would need the least change; None without a refusal.

    Of equally low hurdles that of the most nodes, then the one told first.
    """
    if not nodes_by_reasons:
        return None
    found, nodes = min(nodes_by_reasons.items(), key=lambda one: (height(one[0]), -one[1], one[0]))
    return Hurdle(hardest_first(found), nodes)


@functools.lru_cache(KEPT_MAX)
def bits_of(found: int) -> tuple[int, ...]:
    """The numbers of the bits of all these reasons, ascending."""
    return tuple(bit for bit in range(REASONS) if found & (1 << bit))


@functools.lru_cache(KEPT_MAX)
def hardest_first(found: int) -> tuple[str, ...]:
    """The names of all these reasons, the one that is hardest to change first."""
    hardest = sorted(Reason(found), key=lambda one: (-HEIGHTS[one], one))
    return tuple(NAMES[one.bit_length() - 1] for one in hardest)
