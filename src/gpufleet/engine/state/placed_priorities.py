"""How many pods of each priority have a place, by the queue that they name.

Where none of a queue has a lower priority than a workload, a search for victims in this queue finds nothing
(``preempt.quick_reject``). It is counted from the first question on, so that it costs nothing where nothing
is ever evicted.
"""

from collections.abc import Iterable

from gpufleet.model.identifiers import QueueName
from gpufleet.model.pod import Pod


class PlacedPriorities:
    """Counts pods that have places."""

    def __init__(self, placed: Iterable[Pod]) -> None:
        self._by_queue: dict[QueueName, dict[int, int]] = {}
        for pod in placed:
            self.count(pod, 1)

    def count(self, pod: Pod, more: int) -> None:
        """A pod has a place, or, with -1, has it no more."""
        counts = self._by_queue.setdefault(pod.queue, {})
        counts[pod.priority] = counts.get(pod.priority, 0) + more
        if not counts[pod.priority]:
            del counts[pod.priority]
            if not counts:
                del self._by_queue[pod.queue]

    def any_below(self, queue: QueueName, priority: int) -> bool:
        """True if a pod of this queue that has a place has a lower priority."""
        counts = self._by_queue.get(queue)
        return counts is not None and min(counts) < priority
