"""A seat: a pod runs where another workload will start, because it promised to be gone by then."""

import msgspec


class Seat(msgspec.Struct, frozen=True, gc=False):
    """The promise with which a pod was let in behind a reservation.

    ``holder`` is the uid of the pod, or the name of the gang, that holds it. ``within_us`` is how long after
    its start the pod said that it has ended; None for one that may be interrupted at any time.
    """

    holder: str
    within_us: int | None = None
