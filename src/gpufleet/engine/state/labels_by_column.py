"""Node labels turned on their side: one array a label, one code a distinct value.

A requirement of a selector is then judged once for each distinct value, and spread over the nodes
by one array look-up. Labels that differ on every node (a host name, an instance id) cost no more
than others, which classes of equal nodes would not survive. ``eligibility`` asks the questions.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from gpufleet.engine.arrays.array_types import BoolArray
from gpufleet.engine.arrays.numbering import Numbering

ABSENT = -1
"""The code of a node without the label, and as an index the last place: the verdict about no label."""


class LabelColumn:
    """The values of one label over all node rows."""

    def __init__(self, node_rows: int) -> None:
        self.codes: npt.NDArray[np.int32] = np.full(node_rows, ABSENT, np.int32)
        self.values: Numbering[str] = Numbering()

    def set(self, row: int, value: str | None) -> None:
        """Give a node this value, None for no such label."""
        if row >= len(self.codes):
            longer = np.full(max(row + 1, 2 * len(self.codes)), ABSENT, np.int32)
            longer[: len(self.codes)] = self.codes
            self.codes = longer
        before = int(self.codes[row])
        self.codes[row] = ABSENT if value is None else self.values.hold(value)
        if before != ABSENT:
            self.values.drop(before)

    def where(self, accepts: Callable[[str | None], bool], node_rows: int) -> BoolArray:
        """For each node row, whether its value (None: absent) is accepted."""
        # One place more: index -1, the code of nodes without the label, is the last.
        verdicts = np.zeros(self.values.bound + 1, np.bool_)
        for value, code in self.values.number_by_value.items():
            verdicts[code] = accepts(value)
        verdicts[ABSENT] = accepts(None)
        known = verdicts[self.codes[:node_rows]]
        if len(known) == node_rows:
            return known
        # Nodes that came after the last one with this label are not in the column.
        rest = np.full(node_rows - len(known), verdicts[ABSENT], np.bool_)
        return np.concatenate([known, rest])


class LabelsByColumn:
    """All labels of all nodes."""

    def __init__(self) -> None:
        self.columns: dict[str, LabelColumn] = {}

    def replace(self, row: int, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """A node's labels change from ``old`` to ``new``."""
        for key in old:
            if key not in new:
                self._drop(key, row)
        for key, value in new.items():
            if key not in self.columns:
                self.columns[key] = LabelColumn(row + 1)
            self.columns[key].set(row, value)

    def _drop(self, key: str, row: int) -> None:
        column = self.columns[key]
        column.set(row, None)
        if not column.values.number_by_value:
            del self.columns[key]

    def where(self, key: str, accepts: Callable[[str | None], bool], node_rows: int) -> BoolArray:
        """For each node row, whether its value of the label is accepted."""
        column = self.columns.get(key)
        if column is None:
            return np.full(node_rows, accepts(None), np.bool_)
        return column.where(accepts, node_rows)
