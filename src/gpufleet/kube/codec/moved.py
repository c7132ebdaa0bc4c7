"""What a pod stands in for that was moved: written with its Binding, read by explain and by the next leader.

An admission policy keeps all others from writing it, as it does with the grant: it counts against the budget
of moves.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.kube import keys
from gpufleet.kube.objects.pod import Pod

# More than two names of pods, a node and numbers take; what is beyond was not written by us.
TEXT_MAX = 2048
GPU_S_MAX = 10**12


class Moved(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod ("namespace/name") left ``node`` at ``at_us``, for ``beneficiary``, or "" for no pod in
    particular.
    """

    pod: str
    node: str
    at_us: int
    lost_gpu_s: float
    beneficiary: str = ""


def write_moved(moved: Moved) -> str:
    """The text of the annotation."""
    return msgspec.json.encode(moved).decode()


def read_moved(pod: Pod) -> Moved | None:
    """What a pod says; None if it says nothing, or nothing that makes sense."""
    text = pod.metadata.annotations.get(keys.MOVED, "")
    if not text or len(text) > TEXT_MAX:
        return None
    try:
        found = msgspec.json.decode(text, type=Moved)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return found if 0 <= found.lost_gpu_s <= GPU_S_MAX and 0 <= found.at_us < 1 << 60 else None


def moves_before(pods: Iterable[Pod]) -> tuple[tuple[int, int], ...]:
    """What earlier leaders moved, as (when, GPU-milliseconds of work that ended)."""
    told = [read_moved(pod) for pod in pods]
    return tuple(sorted((one.at_us, int(one.lost_gpu_s * 1000)) for one in told if one is not None))
