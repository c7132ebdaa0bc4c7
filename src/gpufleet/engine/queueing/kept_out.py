"""Lines that quota keeps out: each with its queue and the least that it needs.

They are apart from the lines that lack room, because other things wake them. Only when usage fell in a tree
are its lines looked at, all in one pass of compiled code, and only lines that may now have what they need
are woken. ``gate`` puts lines here, ``waiting`` takes them away when they are woken or empty.
"""

from collections.abc import Iterable, KeysView
from typing import Generic, TypeVar

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import (
    TableStore,
    grown,
)
from gpufleet.engine.queueing.available import who_fits

Key = TypeVar("Key")

NO_NUMBERS: Int64Array = np.zeros(0, np.int64)
"""The numbers of no line."""


class KeptOut(Generic[Key]):
    """The lines that quota keeps out, by key."""

    def __init__(self) -> None:
        self._number_by_key: dict[Key, int] = {}
        self._keys: list[Key | None] = []
        self._changed: dict[int, None] = {}
        self._free: list[int] = []
        self._queues: Int64Array = np.full(16, layout.NOT_SET, np.int64)
        self._asked: Int64Array = np.zeros((16, 4), np.int64)
        self._protected: Int64Array = np.zeros((16, 4), np.int64)

    def __contains__(self, key: Key) -> bool:
        return key in self._number_by_key

    def __len__(self) -> int:
        return len(self._number_by_key)

    def put(self, key: Key, queue_row: int, asked: Int64Array, protected: Int64Array) -> None:
        """A line waits until its queue may have ``asked``, by resource column, and ``protected`` of that for
        protected work.
        """
        number = self._number_by_key.get(key)
        if number is None:
            number = self._free.pop() if self._free else len(self._keys)
            self._make_room(number + 1, len(asked))
            self._number_by_key[key] = number
            self._keys[number] = key
        self._changed[number] = None
        self._queues[number] = queue_row
        # The number may be that of a line that is gone, and ``asked`` shorter than the row.
        self._asked[number] = 0
        self._asked[number, : len(asked)] = asked
        self._protected[number] = 0
        self._protected[number, : len(protected)] = protected

    def _make_room(self, rows: int, columns: int) -> None:
        if rows > len(self._keys):
            self._keys.append(None)
        if rows > len(self._queues):
            # Twice as many each time, so that a line costs the same however many come.
            self._queues = np.concatenate([self._queues, np.full_like(self._queues, layout.NOT_SET)])
            self._asked = np.concatenate([self._asked, np.zeros_like(self._asked)])
            self._protected = np.concatenate([self._protected, np.zeros_like(self._protected)])
        if columns > self._asked.shape[1]:
            self._asked = np.asarray(grown(self._asked, 1, columns, 0), np.int64)
            self._protected = np.asarray(grown(self._protected, 1, columns, 0), np.int64)

    def discard(self, key: Key) -> None:
        """The line waits for quota no longer."""
        number = self._number_by_key.pop(key, None)
        if number is not None:
            self._keys[number] = None
            self._changed[number] = None
            self._queues[number] = layout.NOT_SET
            self._free.append(number)

    def keys(self) -> KeysView[Key]:
        """Every line, in the order in which they came."""
        return self._number_by_key.keys()

    def take_fitting(self, store: TableStore) -> Int64Array:
        """The numbers of lines that may have what they need since usage fell; it has been looked at then."""
        fell = store.tables.queues[layout.QUEUE_FELL]
        if not fell.any():
            return NO_NUMBERS
        found = self._fitting(store, fell)
        fell[:] = 0
        return found

    def fitting(self, store: TableStore) -> Iterable[Key]:
        """The lines that may have what they need now, wherever usage fell."""
        found = self._fitting(store, np.ones_like(store.tables.queues[layout.QUEUE_FELL]))
        return map(self.key_at, found.tolist())

    def _fitting(self, store: TableStore, trees: Int64Array) -> Int64Array:
        if not self._number_by_key:
            return NO_NUMBERS
        found = np.zeros(len(self._queues), np.int64)
        count = who_fits(store.tables, trees, self._queues, self._asked, self._protected, found)
        return found[:count]

    def key_at(self, number: int) -> Key:
        """The line of a number in use."""
        key = self._keys[number]
        if key is None:
            raise KeyError(number)
        return key

    def number_of(self, key: Key) -> int:
        """The number of a line."""
        return self._number_by_key[key]

    def queue_rows(self, numbers: Int64Array) -> Int64Array:
        """The rows of the queues of lines, by number."""
        return self._queues[numbers]

    def take_changed(self) -> set[int]:
        """The numbers that were given, given again or given back since this was last asked."""
        changed = set(self._changed)
        self._changed.clear()
        return changed
