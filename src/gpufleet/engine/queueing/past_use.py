"""What queues with a half-life have used in the past, and how it weighs.

Between the steps of the engine use is steady, so it is enough to look at the end of each step at what
changed in it (``follow``); ``decay`` works out what became of it since. In comparisons the past and
the present weigh alike: taken is the mean of both, which is what the decayed use will be a half-life from
now if nothing changes. So a queue that has used nothing for long does not get everything in one cycle,
before its past knows of it.

What is known leaves as the event by which it comes back (``Engine.past_use``), so that a restart
goes on as if there had been none.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.engine_errors import EventError
from gpufleet.engine.event import PastUseOf, PastUseRecalled
from gpufleet.engine.queueing.decay import FRACTION_BITS, DecayedUse
from gpufleet.engine.queueing.resources import QuotaResources
from gpufleet.engine.queueing.tree import QueueTree
from gpufleet.engine.state.bounds import check_range
from gpufleet.model.identifiers import QueueName, QuotaResource
from gpufleet.model.queue import Queue

MEAN_SCALE = 2 << FRACTION_BITS
"""In what parts of a unit ``weighed`` counts."""

WHOLE_NUMBER_MAX = 1 << 120
"""Far more than the use of any fleet comes to in any tick."""


class PastUse:
    """Remembers what queues with a half-life used."""

    def __init__(self, store: TableStore, tree: QueueTree, resources: QuotaResources) -> None:
        self.store = store
        self.tree = tree
        self.resources = resources
        self._use: dict[QueueName, dict[QuotaResource, DecayedUse]] = {}
        self._half_life_us: dict[QueueName, int] = {}
        self._rows: list[int] = []
        self._seen: Int64Array | None = None
        self._as_of = layout.NOT_SET

    def _find_queues(self, at_us: int) -> None:
        """Queues or their resources are others: what is followed from now on is found anew."""
        described = self.tree.described
        for name in [name for name in self._half_life_us if name not in described]:
            del self._half_life_us[name]
            self._use.pop(name, None)
        for queue in described.values():
            self._regauge(queue, at_us)
        self._rows = [self.tree.row_by_name[queue.name] for queue in described.values() if queue.half_life_us]
        self._seen = None
        self._as_of = self.tree.changes

    def _regauge(self, queue: Queue, at_us: int) -> None:
        before_us = self._half_life_us.pop(queue.name, queue.half_life_us)
        if not queue.half_life_us:
            self._use.pop(queue.name, None)
            return
        self._half_life_us[queue.name] = queue.half_life_us
        if before_us != queue.half_life_us:
            known = self._use.get(queue.name, {})
            for resource, use in known.items():
                # Forgotten by the old half-life up to this moment, and by the new one from then on.
                known[resource] = use.at(at_us, before_us).regauged(queue.half_life_us)

    def is_due(self) -> bool:
        """True if there may be something to ``follow``."""
        return bool(self._rows) or self._as_of != self.tree.changes

    def follow(self, at_us: int) -> None:
        """What queues use from this moment on."""
        if self._as_of != self.tree.changes:
            self._find_queues(at_us)
        if not self._rows:
            return
        counted = self.store.tables.queue_counted[self._rows]
        # One comparison tells of a cycle that changed nothing.
        if self._seen is not None and np.array_equal(counted, self._seen):
            return
        changed = range(len(self._rows)) if self._seen is None else rows_that_differ(counted, self._seen)
        columns = list(self.resources.column_by_name.items())
        for index in changed:
            queue, amounts = self.tree.queue_at(self._rows[index]), counted[index].tolist()
            known = self._use.setdefault(queue.name, {})
            for resource, column in columns:
                use = known.get(resource) or DecayedUse(at_us)
                if use.used != amounts[column]:
                    known[resource] = use.at(at_us, queue.half_life_us).using(amounts[column])
        self._seen = counted

    def weighed(self, row: int, amounts: Sequence[int], at_us: int) -> list[int]:
        """By column, the mean of past and present use of a queue with a half-life, over MEAN_SCALE; it uses
        these amounts now.
        """
        queue = self.tree.queue_at(row)
        known = self._use.get(queue.name, {})
        weighed = [amount << FRACTION_BITS for amount in amounts]
        for resource, column in self.resources.column_by_name.items():
            use = known.get(resource)
            if use is not None:
                weighed[column] += use.at(at_us, queue.half_life_us).value
        return weighed

    def remembered(self) -> PastUseRecalled:
        """All that is known, as the event that brings it back."""
        return PastUseRecalled(
            tuple(
                # As text: they may have more digits than a number of JSON.
                PastUseOf(name, resource, use.at_us, use.used, str(use.value), str(use.area))
                for name, known in sorted(self._use.items())
                for resource, use in sorted(known.items())
            )
        )

    def recall(self, recalled: PastUseRecalled, at_us: int) -> None:
        """Take over what was known before a restart, in place of what is known of these queues.

        What was written at a later moment than this one, by a clock that went back, counts as of now.
        """
        # All are checked before the first is taken over.
        uses = [(one.queue, one.resource, recalled_use(one, at_us)) for one in recalled.uses]
        for queue, resource, use in uses:
            self._use.setdefault(queue, {})[resource] = use
        self._seen = None


def rows_that_differ(one: Int64Array, other: Int64Array) -> list[int]:
    """The rows in which two arrays of one shape have another number."""
    found: list[int] = np.flatnonzero((one != other).any(axis=1)).tolist()
    return found


def recalled_use(recalled: PastUseOf, at_us: int) -> DecayedUse:
    """What an event says of one queue and resource. Raises EventError for what cannot be."""
    field = f"past use of {recalled.queue}: {recalled.resource}"
    check_range(recalled.at_us, 0, layout.NO_LIMIT, f"{field}: at_us")
    check_range(recalled.used, 0, layout.NO_LIMIT, f"{field}: used")
    value = whole_number(recalled.value, f"{field}: value")
    area = whole_number(recalled.area, f"{field}: area")
    use = DecayedUse(recalled.at_us, recalled.used, value, area)
    return use if recalled.at_us <= at_us else replace(use, at_us=at_us, area=0)


def whole_number(text: str, field: str) -> int:
    """An integer that may be too long for a number of JSON."""
    digits = text.removeprefix("-")
    # 2^120 has 37 digits, and Python refuses to read numbers of some thousands.
    if not (
        digits.isascii() and digits.isdigit() and int(digits[:40]) <= WHOLE_NUMBER_MAX and len(digits) <= 40
    ):
        raise EventError("no whole number", field=field, value=text[:40], expected="at most 37 digits")
    return int(text)
