"""What a pod's queue and priority are, as columns by pod row: to find candidates for eviction at once.

These follow from a pod's description alone, so no trial changes them.
"""

import numpy as np

from gpufleet.engine.layout import NOT_SET
from gpufleet.engine.numbering import Numbering
from gpufleet.engine.tables import Int64Array
from gpufleet.model.identifiers import QueueName
from gpufleet.model.pod import Pod


class Standing:
    """Columns by pod row; those of rows without a pod hold any value.

    ``alone`` is 1 for pods of no gang that may be evicted for another's sake; gangs are looked at as a
    whole.
    """

    def __init__(self) -> None:
        self.priority: Int64Array = np.zeros(256, np.int64)
        self.queue: Int64Array = np.zeros(256, np.int64)
        self.alone: Int64Array = np.zeros(256, np.int64)
        self._queues: Numbering[QueueName] = Numbering()

    def put(self, row: int, pod: Pod) -> None:
        """A row stands for this pod from now on."""
        if row >= len(self.priority):
            more = np.zeros(max(row + 1 - len(self.priority), len(self.priority)), np.int64)
            self.priority = np.concatenate([self.priority, more])
            self.queue = np.concatenate([self.queue, more])
            self.alone = np.concatenate([self.alone, more])
        self.priority[row] = pod.priority
        self.queue[row] = self._queues.hold(pod.queue)
        self.alone[row] = int(pod.preemptible and pod.gang is None)

    def drop(self, row: int) -> None:
        """A row no longer stands for its pod."""
        self._queues.drop(int(self.queue[row]))

    def code(self, queue: QueueName) -> int:
        """The number of a queue; one that no pod has for a queue without pods."""
        return self._queues.number_by_value.get(queue, NOT_SET)
