"""The promise of backfilled work: to be gone by the time at which work that waits for its place can start."""

import msgspec


class BackfillPromise(msgspec.Struct, frozen=True, gc=False):
    """The promise with which a pod was let in behind a reservation.

    ``holder`` is the uid of the pod, or the name of the gang, that holds it. ``within_us`` is how long after
    its start the pod said that it has ended; None for one that may be interrupted at any time.
    """

    holder: str
    within_us: int | None = None
