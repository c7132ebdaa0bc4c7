"""Measures the fragmentation of the fleet after every decision, whatever the policy.

Only the node that changed is measured again, so that a whole run costs a few milliseconds. The
measure is that of ``engine.place.score.fragmentation``, in exact integers.
"""

import numpy as np

from gpufleet.engine.place.choose.policy_state import PolicyState
from gpufleet.engine.place.score.fragmentation import node_fragmentation
from gpufleet.engine.policy import Policy
from gpufleet.engine.scheduler import Engine
from gpufleet.model.shape import Shape


class FragmentationMeter:
    """The fragmentation of one engine's fleet against a workload.

    ``fragmented`` is in thousandths of a GPU times the number of tasks in the workload.
    """

    def __init__(self, engine: Engine, workload: tuple[tuple[Shape, int], ...]) -> None:
        self._state = engine.state
        # Of its own, as the policy of the run may have another target, or none.
        self._ruler = PolicyState(Policy("ruler"), 0, engine.state.fleet)
        self._ruler.set_target(workload)
        self._by_row = np.zeros(engine.state.fleet.row_count, np.int64)
        self.weight = sum(count for _, count in workload)
        self.fragmented = 0
        for row in range(engine.state.fleet.row_count):
            self.measure(row)

    def measure(self, row: int) -> None:
        """The node in this row changed."""
        now = node_fragmentation(self._state.store.tables, self._ruler.tables, row)
        self.fragmented += now - int(self._by_row[row])
        self._by_row[row] = now
