"""The topology domains of a node label: nodes that share a value of it, as arrays by node row."""

import numpy as np
import numpy.typing as npt

from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.place.relations.equivalence_classes import CountByNode
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.state.labels_by_column import ABSENT

Codes = npt.NDArray[np.int32]


class LabelDomains:
    """Every node's domain of one topology key; ``codes`` holds ABSENT for a node without the label."""

    def __init__(self, fleet: Fleet, key: str) -> None:
        column = fleet.labels.columns.get(key)
        rows = fleet.row_count
        self.codes: Codes = np.full(rows, ABSENT, np.int32)
        self.bound = 0
        if column is not None:
            known = column.codes[:rows]
            self.codes[: len(known)] = known
            self.bound = column.values.bound
        self.labelled: BoolArray = self.codes != ABSENT

    def sums(self, counts: CountByNode, counted: BoolArray | None = None) -> Int64Array:
        """The counts summed up by domain code; the last cell is for nodes without the label and stays 0.

        ``counted`` leaves nodes out.
        """
        total = np.zeros(self.bound + 1, np.int64)
        if counts:
            nodes = np.fromiter(counts, np.int64, len(counts))
            pods = np.fromiter(counts.values(), np.int64, len(counts))
            if counted is not None:
                kept = counted[nodes]
                nodes, pods = nodes[kept], pods[kept]
            # ``total[codes] += pods`` would count only one of the nodes of each domain.
            np.add.at(total, self.codes[nodes], pods)
            total[ABSENT] = 0
        return total

    def of_nodes(self, counts: CountByNode) -> BoolArray:
        """For each node row, whether its domain holds anything that is counted."""
        occupied: BoolArray = self.sums(counts)[self.codes] > 0
        return occupied
