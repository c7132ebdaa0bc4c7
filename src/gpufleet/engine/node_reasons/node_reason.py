"""What there is to know of a reason of a node against a pod."""

import enum
from collections.abc import Callable

import msgspec

from gpufleet.engine.node_reasons.case import Case, Finding
from gpufleet.model.gpu_unit import GpuUnit


class Kind(enum.Enum):
    """What makes a reason go away.

    ``ROOM``: work on the node ends. ``OTHER_PODS``: certain pods end, on the node or near it. ``UNMET``: what
    the pod needs there comes. ``CHANGE``: a person or a controller changes the pod or the node.
    """

    ROOM = "room"
    OTHER_PODS = "other-pods"
    UNMET = "unmet"
    CHANGE = "change"


class NodeReason(msgspec.Struct, frozen=True):
    """A reason of a node against a pod.

    ``name`` stands in JSON and in tables, ``bit`` in compiled code. ``height`` says how much would have to
    change for the reason to go away: only the order and rough distances matter. ``words`` follow a count of
    nodes ("3 short of CPU"). ``remedy`` completes a sentence that depends on ``kind``: "nearest is a, where
    ..." for ``OTHER_PODS``, "3 nodes would do if ..." for ``CHANGE``; it is a whole sentence for ``UNMET``.
    ``finding`` says of one pod why, and the ways out; ``detail`` says more of the nodes with the reason.
    ``counts_gpus`` says that the reason is a number of GPUs, or of what nodes give out as GPUs.
    """

    name: str
    bit: int
    height: int
    kind: Kind
    words: str
    finding: Callable[[Case], Finding]
    remedy: str = ""
    detail: Callable[[Case], str] | None = None
    counts_gpus: bool = False

    def words_of(self, unit: GpuUnit) -> str:
        """The words, of nodes whose devices are called so."""
        return self._with(self.words, unit)

    def remedy_of(self, unit: GpuUnit) -> str:
        """The remedy, of nodes whose devices are called so."""
        return self._with(self.remedy, unit)

    def _with(self, words: str, unit: GpuUnit) -> str:
        return words.replace(GpuUnit.GPU, unit) if self.counts_gpus else words
