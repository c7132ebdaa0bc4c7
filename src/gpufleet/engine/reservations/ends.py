"""When running work is expected to end: from what it declared, and never from an end that has passed.

A pod that says how long it runs ends that long after it began. One that still runs then has told
something wrong: its end is unknown from then on, and not "any moment now".
"""

from gpufleet.engine.pods import PodBook


class ExpectedEnds:
    """Asks the books when a pod will be gone."""

    def __init__(self, pods: PodBook) -> None:
        self.pods = pods

    def end_us(self, row: int, at_us: int) -> int | None:
        """When a pod that has a place is expected to end, None if nobody knows."""
        run_time_us = self.pods.pod_at(row).run_time_us
        if run_time_us is None:
            return None
        end_us = self._start_us(row, at_us) + run_time_us
        return end_us if end_us > at_us else None

    def end_if_started_us(self, row: int, at_us: int) -> int | None:
        """When a waiting pod would end if it began now."""
        run_time_us = self.pods.pod_at(row).run_time_us
        return None if run_time_us is None else at_us + run_time_us

    def age_us(self, row: int, at_us: int) -> int:
        """For how long a pod has had its place."""
        return at_us - self._start_us(row, at_us)

    def _start_us(self, row: int, at_us: int) -> int:
        assumed_at_us = self.pods.assumed_at_us.get(row, at_us)
        return self.pods.started_at_us.get(row, assumed_at_us)
