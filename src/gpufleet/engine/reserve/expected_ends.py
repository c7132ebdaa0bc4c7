"""When running work is expected to end: from what it declared, or when it must, and never from an end that
has passed.

A pod that says how long it runs ends that long after it began. One that still runs then has told
something wrong: its end is unknown from then on, and not "any moment now". Unless there is a limit to its run
time (``preempt.overtime``): then it ends at that.
"""

from gpufleet.engine.preempt.overtime import Overtime
from gpufleet.engine.state.pods import PodTable


class ExpectedEnds:
    """Works out when a pod will be gone."""

    def __init__(self, pods: PodTable, overtime: Overtime) -> None:
        self.pods = pods
        self.overtime = overtime

    def end_us(self, row: int, at_us: int) -> int | None:
        """When a pod that has a place is expected to end, None if that is not known."""
        run_times_us = self._run_times_us(row)
        # Most work says nothing, and this is asked of all that a holder waits for.
        if not run_times_us:
            return None
        start_us = self._start_us(row, at_us)
        ends_us = (start_us + length_us for length_us in run_times_us)
        # An end that has passed was told wrong; what remains is the end that a limit enforces.
        return min((end_us for end_us in ends_us if end_us > at_us), default=None)

    def has_limit(self, row: int) -> bool:
        """True if a pod says how long it runs, or may not run for ever."""
        return bool(self._run_times_us(row))

    def end_if_started_us(self, row: int, at_us: int) -> int | None:
        """When a waiting pod would end if it began now."""
        shortest_us = min(self._run_times_us(row), default=None)
        return None if shortest_us is None else at_us + shortest_us

    def _run_times_us(self, row: int) -> list[int]:
        """How long a pod says that it runs, and how long it may."""
        said_us, limit = self.pods.pod_at(row).run_time_us, self.overtime.limit(row)
        found = [] if said_us is None else [said_us]
        return found if limit is None else [*found, limit.run_time_us]

    def age_us(self, row: int, at_us: int) -> int:
        """For how long a pod has had its place."""
        return at_us - self._start_us(row, at_us)

    def _start_us(self, row: int, at_us: int) -> int:
        assumed_at_us = self.pods.assumed_at_us.get(row, at_us)
        return self.pods.started_at_us.get(row, assumed_at_us)
