"""A disruption budget: how many of some pods may be told to end now."""

import msgspec

from gpufleet.model.identifiers import PodUid
from gpufleet.model.labels import LabelSelector


class DisruptionBudget(msgspec.Struct, frozen=True):
    """The pods of a namespace that a selector selects, of which ``allowed`` more may be evicted.

    ``disrupted`` are the evicted pods that the number counts already though they have not ended. ``selector``
    None selects no pod.
    """

    name: str
    namespace: str
    selector: LabelSelector | None
    allowed: int
    disrupted: tuple[PodUid, ...] = ()
