"""Which nodes have which models and datasets, and how long a node takes to get what it lacks.

``Fleet`` keeps the copies in step with its nodes. ``eligibility`` asks which nodes lack data that a pod
requires, ``choose.related_places`` how long the others would copy.
"""

import numpy as np

from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.model.data import SIZE_MAX, DataAsk, DataCopy

COPY_BYTES_PER_S = 1_100_000_000
"""What a node copies in a second: 10 Gbit/s less its overhead, the slowest network of usual GPU nodes."""

COPY_BYTES_PER_MS = COPY_BYTES_PER_S // 1000
"""What a node copies in a millisecond, the unit in which times to ready are compared."""


class DataCopies:
    """Copies by name, and by the row of their node."""

    def __init__(self) -> None:
        self._by_name: dict[str, dict[int, tuple[DataCopy, ...]]] = {}

    def replace(self, row: int, old: tuple[DataCopy, ...], new: tuple[DataCopy, ...]) -> None:
        """The node of this row had the old copies and has the new ones."""
        if old == new:
            return
        for name in dict.fromkeys(one.name for one in old):
            of_name = self._by_name[name]
            del of_name[row]
            if not of_name:
                del self._by_name[name]
        for name in dict.fromkeys(one.name for one in new):
            self._by_name.setdefault(name, {})[row] = tuple(one for one in new if one.name == name)

    def has_all(self, asks: tuple[DataAsk, ...], rows: int) -> BoolArray:
        """For each node row, whether it has complete copies of everything that is asked for."""
        found = np.ones(rows, np.bool_)
        for ask in asks:
            has = np.zeros(rows, np.bool_)
            has[self._complete(ask)] = True
            found &= has
        return found

    def ready_ms(self, asks: tuple[DataAsk, ...], rows: int) -> Int64Array:
        """For each node row, the milliseconds in which it would copy what it lacks.

        The size is what the pod says; else that of the largest complete copy; else the most that is there of
        one that still arrives; 0 where no node has any of it.
        """
        missing = np.zeros(rows, np.int64)
        for ask in asks:
            missing += self._missing_bytes(ask, rows)
        # Divided first, so that even several of the largest stay within 64 bits.
        return missing // COPY_BYTES_PER_MS

    def lacking_bytes(self, asks: tuple[DataAsk, ...], row: int | None) -> int | None:
        """How many bytes the node of this row, or one without any copy (None), lacks.

        None where the size of something that it lacks is not known.
        """
        missing = 0
        for ask in asks:
            found = self._asked_for(ask)
            size = _size(ask, found)
            if size is None:
                return None
            missing += _lacks(size, found.get(row, []) if row is not None else [])
        return missing

    def _asked_for(self, ask: DataAsk) -> dict[int, list[DataCopy]]:
        """The copies of what is asked for, by the row of their node."""
        found = self._by_name.get(ask.name, {})
        return {row: [one for one in copies if ask.is_of(one)] for row, copies in found.items()}

    def _complete(self, ask: DataAsk) -> list[int]:
        of_name = self._by_name.get(ask.name, {})
        return [row for row, copies in of_name.items() if ask.is_met_by(copies)]

    def _missing_bytes(self, ask: DataAsk, rows: int) -> Int64Array:
        copies = self._asked_for(ask)
        size = _size(ask, copies) or 0
        missing = np.full(rows, size, np.int64)
        for row, found in copies.items():
            missing[row] = _lacks(size, found)
        return missing


def _size(ask: DataAsk, copies: dict[int, list[DataCopy]]) -> int | None:
    """How large what is asked for is: as the pod says, else as the copies are; None without both."""
    if ask.size_bytes is not None:
        return min(ask.size_bytes, SIZE_MAX)
    every = [one for found in copies.values() for one in found]
    complete = [one.size_bytes for one in every if one.complete]
    size = max(complete or [one.size_bytes for one in every], default=None)
    return None if size is None else min(size, SIZE_MAX)


def _lacks(size: int, found: list[DataCopy]) -> int:
    """How many bytes of it a node lacks that has these copies."""
    if any(one.complete for one in found):
        return 0
    return max(0, size - max((one.size_bytes for one in found), default=0))
