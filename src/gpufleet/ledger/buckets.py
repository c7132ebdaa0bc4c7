"""Which bucket each part of a GPU is in at an instant; every part is in exactly one.

What a pod holds goes by the pod's life: it ends, it waits for its gang, it starts, it loads, or it computes,
and then measured use divides it into used and idle. What is held by nothing goes by the state of card and
node. ``node_hour`` asks for the bucket between any two changes, within which it is one and the same.
"""

import enum
from fractions import Fraction

import msgspec

from gpufleet.ledger.spans import Span
from gpufleet.model.identifiers import DeviceId, PodUid


class Bucket(enum.StrEnum):
    """What a part of a GPU is for at an instant."""

    USED = "used"
    IDLE_HELD = "idle-held"
    LOADING = "loading"
    STARTING = "starting"
    WAITING = "waiting"
    ENDING = "ending"
    UNMEASURED = "unmeasured"
    OUT = "out"
    JOINING = "joining"
    DRAINING = "draining"
    RESERVED = "reserved"
    STRANDED = "stranded"
    IDLE_FREE = "idle-free"


HELD_BUCKETS = frozenset(
    {
        Bucket.USED,
        Bucket.IDLE_HELD,
        Bucket.LOADING,
        Bucket.STARTING,
        Bucket.WAITING,
        Bucket.ENDING,
        Bucket.UNMEASURED,
    }
)
"""Buckets of what a pod holds; the pod pays for them unless a policy says otherwise."""

FREE_ORDER = (Bucket.OUT, Bucket.JOINING, Bucket.DRAINING, Bucket.RESERVED, Bucket.STRANDED)
"""States of what is held by nothing, the first that applies first; what is left is idle and free."""

BUSY_WHOLE = 1_000_000
"""Busy shares are counted in millionths, as use is measured no finer."""


class Holding(msgspec.Struct, frozen=True):
    """A part of a GPU that a pod holds, from its Binding until it has ended or is gone.

    Moments that have not come are None. ``gang_whole_us`` is when the last member of its gang was bound, the
    moment of its own Binding for a pod without a gang. ``started_us`` is when all containers had started
    once. ``ready_us`` counts only where the pod ``has_readiness_probe``. ``seen_until_us`` is set where the
    end was not seen: what comes after that moment is an estimate.
    """

    device: DeviceId
    pod_uid: PodUid
    part: Fraction
    span: Span
    gang_whole_us: int | None = None
    started_us: int | None = None
    ready_us: int | None = None
    has_readiness_probe: bool = False
    deletion_us: int | None = None
    seen_until_us: int | None = None

    def phase(self, at_us: int) -> Bucket | None:
        """The bucket by the pod's life; None where measured use decides."""
        # Before all else: when the end of a pod was not seen, none of its other moments is certain.
        if self.is_estimated(at_us):
            return Bucket.UNMEASURED
        if self.deletion_us is not None and self.deletion_us <= at_us:
            return Bucket.ENDING
        if not _has_come(self.gang_whole_us, at_us):
            return Bucket.WAITING
        if not _has_come(self.started_us, at_us):
            return Bucket.STARTING
        if self.has_readiness_probe and not _has_come(self.ready_us, at_us):
            return Bucket.LOADING
        return None

    def is_estimated(self, at_us: int) -> bool:
        """True after the moment at which the pod was last seen."""
        return self.seen_until_us is not None and self.seen_until_us <= at_us

    def bounds(self) -> tuple[int, ...]:
        """The moments at which its bucket may change."""
        marks = (self.gang_whole_us, self.started_us, self.ready_us, self.deletion_us, self.seen_until_us)
        return (*self.span.bounds(), *(mark for mark in marks if mark is not None))


class BusySpan(msgspec.Struct, frozen=True):
    """The measured use of what a pod holds of a GPU: how busy that part was, in millionths."""

    device: DeviceId
    pod_uid: PodUid
    span: Span
    busy: int


class FreeState(msgspec.Struct, frozen=True):
    """Why what is free of a GPU, or of all GPUs of a node (``device`` is None), is not for use.

    ``bucket`` is one of FREE_ORDER. ``milli`` limits it to so many thousandths of the card, as a stranded
    remainder does. ``reason`` is the cause of a stranded part, or the queue of a reservation.
    """

    device: DeviceId | None
    bucket: Bucket
    span: Span
    reason: str = ""
    milli: int | None = None


def _has_come(moment_us: int | None, at_us: int) -> bool:
    return moment_us is not None and moment_us <= at_us
