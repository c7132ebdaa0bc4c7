"""How much work one slice of a step may have.

A step that has much to do is cut into slices, between which its caller may do other things. Work is counted
and never timed, so a step is cut at the same places whenever it runs again. What is decided does not depend
on where it is cut: ``cycle`` goes on exactly where it stopped.
"""

SLICE_WORK = 1_000
"""The work of a slice where others wait for the loop: some 100 milliseconds, so that probes are answered."""
SEARCH_WORK = 64
"""The work of a search for victims that begins anew. It takes about as long as that many pods that start."""


class WorkSlice:
    """Counts the work since the last cut. ``work_max`` is what a slice may have; None cuts nowhere.

    ``events_max``: so many events may be taken in before it is asked whether the slice ends.
    """

    def __init__(self, work_max: int | None) -> None:
        self._work_max = work_max
        self._work = 0
        self.events_max = None if work_max is None else max(1, work_max)

    def spend(self, work: int) -> None:
        """So much work was done: 1 for an event, a pod that starts, or a pod that is told why it waits."""
        self._work += work

    def ends(self) -> bool:
        """True if the slice has had its work; the next one begins then."""
        if self._work_max is None or self._work < self._work_max:
            return False
        self._work = 0
        return True
