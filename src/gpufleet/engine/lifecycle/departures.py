"""Which pods are leaving, and which workloads wait for which of them.

A pod that was told to end holds what it has until it is gone: its booking stays, whatever told it. A workload
that needs its room is *nominated*: booked there in addition, so that the node counts as over-committed and no
other pod is placed into that room. Nothing here touches a booking; ``nominations`` does. What kernels ask is
noted by row too (``arrays.eviction_columns``).
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.eviction_columns import AWAITED_BY, LEAVING, NO_NOMINATION, NOMINATION, REFUSED
from gpufleet.engine.state.pods import PodTable
from gpufleet.model.identifiers import PodUid

Key = TypeVar("Key")

REFUSED_MOST_US = 160_000_000
"""``eviction.evictions.REFUSED_MOST_S``: a refused eviction is asked for again after at most so long."""

US_PER_S = 1_000_000

NO_ROWS = np.zeros(0, np.int64)
"""The rows of no pod."""


@dataclass(slots=True)
class Nomination:
    """A workload with places that others still leave.

    ``rows`` are its pods, ``waits_for`` the departing pods without which it fits. ``elsewhere`` are those
    among them that hold nothing where it was placed, but something else that it needs, such as quota.
    ``alike`` is what it shares with single pods of the same needs, None for a gang. ``reserved``: those it
    waits for were not told to end (``reserve``).
    """

    number: int
    rows: tuple[int, ...]
    alike: int | None
    waits_for: dict[PodUid, None]
    elsewhere: dict[PodUid, None]
    reserved: bool = False


class Departures:
    """Pods that end, and the nominations that wait for them.

    ``changes`` counts evictions, nominations, and whatever else happens to them: one each. ``evictions``
    counts the evictions alone. ``evicted`` has the pods that do not end yet, with True for those that are to
    end for a workload.
    """

    def __init__(self, pods: PodTable) -> None:
        self.pods = pods
        self.announced: dict[PodUid, None] = {}
        self.evicted: dict[PodUid, bool] = {}
        self.refused_until_us: dict[PodUid, int] = {}
        self.nominations: dict[int, Nomination] = {}
        self.by_row: dict[int, Nomination] = {}
        self.by_needs: dict[int, dict[int, None]] = {}
        self.unsettled: dict[int, None] = {}
        self._by_departing: dict[PodUid, dict[int, None]] = {}
        self._number = 0
        self.changes = 0
        self.evictions = 0
        self._rows: Int64Array = NO_ROWS
        self._rows_as_of = 0

    @property
    def are_pending(self) -> bool:
        """True if some pod ends, is not to be told to end yet, or is waited for."""
        told = self.announced or self.evicted or self.refused_until_us
        return bool(told or self.nominations or self._by_departing)

    def is_departing(self, uid: PodUid) -> bool:
        """True if the pod was told to end, by us or by others."""
        return uid in self.announced or uid in self.evicted

    def departing(self) -> list[PodUid]:
        """Every pod that was told to end, in the order in which that was heard."""
        return list(dict.fromkeys((*self.announced, *self.evicted)))

    def rows(self) -> Int64Array:
        """The rows of the pods that were told to end."""
        if not (self.announced or self.evicted):
            # As nearly always: then no column has to be read.
            return NO_ROWS
        if self._rows_as_of != self.changes:
            cells = self.pods.eviction_columns.cells
            self._rows = np.flatnonzero(cells[LEAVING, : len(self.pods.pods)])
            self._rows_as_of = self.changes
        return self._rows

    def evict(self, uid: PodUid, *, for_work: bool = True) -> None:
        """We tell a pod to end, for a workload or for the sake of none."""
        self.changes += 1
        self.evictions += 1
        self.evicted[uid] = for_work
        self._note(uid, LEAVING, 1)

    def announce(self, uid: PodUid) -> None:
        """A pod ends: the shell says so."""
        self.changes += 1
        self.announced[uid] = None
        self.evicted.pop(uid, None)
        self.refused_until_us.pop(uid, None)
        self._note(uid, LEAVING, 1)
        self._note(uid, REFUSED, 0)

    def stays(self, uid: PodUid) -> None:
        """A pod that was said to end does not."""
        self.changes += 1
        self.announced.pop(uid, None)
        self.evicted.pop(uid, None)
        self._note(uid, LEAVING, 0)

    def refuse(self, uid: PodUid, until_us: int) -> None:
        """An eviction of ours was refused, and is not to be asked for again before ``until_us``."""
        self.changes += 1
        self.evicted.pop(uid, None)
        self.refused_until_us[uid] = until_us
        # The refused eviction is ours; others may have told the pod to end all the same.
        self._note(uid, LEAVING, int(uid in self.announced))
        self._note(uid, REFUSED, 1)

    def recall_refusal(self, uid: PodUid, until_us: int, at_us: int) -> None:
        """What was written down before a restart: it counts for no longer than any refusal."""
        # A whole second, as in the condition that tells the next leader.
        most_us = -(-(at_us + REFUSED_MOST_US) // US_PER_S) * US_PER_S
        if until_us > at_us:
            self.refuse(uid, min(until_us, most_us))

    def end_refusals(self, at_us: int) -> bool:
        """Forget refusals that no longer hold; True if there were any."""
        if not self.refused_until_us:
            return False
        self.changes += 1
        over = [uid for uid, until_us in self.refused_until_us.items() if until_us <= at_us]
        for uid in over:
            del self.refused_until_us[uid]
            self._note(uid, REFUSED, 0)
        return bool(over)

    def nominate(
        self,
        rows: tuple[int, ...],
        alike: int | None,
        waits_for: tuple[PodUid, ...],
        elsewhere: tuple[PodUid, ...],
        *,
        reserved: bool = False,
        number: int | None = None,
    ) -> Nomination:
        """A workload waits for these pods to go; ``number`` is free, or None for the next."""
        self.changes += 1
        # A nomination that goes on after a restart keeps its number, and so its place before later ones.
        is_late = number is not None and number < self._number and number not in self.nominations
        if number is None or number in self.nominations:
            number = self._number + 1
        self._number = max(self._number, number)
        nomination = Nomination(
            number, rows, alike, dict.fromkeys(waits_for), dict.fromkeys(elsewhere), reserved
        )
        self.nominations[number] = nomination
        self.by_row.update(dict.fromkeys(rows, nomination))
        if alike is not None:
            self.by_needs.setdefault(alike, {})[number] = None
        # Dictionaries keep the order in which keys came, and nominations are read in the order of their
        # numbers.
        if is_late:
            self._put_in_order(alike)
        for row in rows:
            self.pods.eviction_columns.cells[NOMINATION, row] = number
        for uid in waits_for:
            self._by_departing.setdefault(uid, {})[number] = None
            self._note_who_waits(uid)
        return nomination

    def _put_in_order(self, alike: int | None) -> None:
        """A nomination that goes on stands before those that came after it."""
        self.nominations = dict(sorted(self.nominations.items()))
        if alike is not None:
            self.by_needs[alike] = dict(sorted(self.by_needs[alike].items()))

    def end(self, nomination: Nomination) -> None:
        """A workload is bound, or waits for no pod any more."""
        self.changes += 1
        del self.nominations[nomination.number]
        self.unsettled.pop(nomination.number, None)
        for row in nomination.rows:
            del self.by_row[row]
            self.pods.eviction_columns.cells[NOMINATION, row] = NO_NOMINATION
        if nomination.alike is not None:
            _take_out(self.by_needs, nomination.alike, nomination.number)
        for uid in nomination.waits_for:
            _take_out(self._by_departing, uid, nomination.number)
            self._note_who_waits(uid)

    def wait_also(self, nomination: Nomination, uid: PodUid) -> None:
        """A nomination waits for one more pod."""
        self.changes += 1
        nomination.waits_for[uid] = None
        self._by_departing.setdefault(uid, {})[nomination.number] = None
        self._note_who_waits(uid)

    def waiting_for(self, uid: PodUid) -> list[Nomination]:
        """The nominations that wait for a pod."""
        return [self.nominations[number] for number in self._by_departing.get(uid, ())]

    def gone(self, uid: PodUid) -> None:
        """A pod holds nothing any more, wherever it was."""
        self.changes += 1
        is_departing = uid in self.announced or uid in self.evicted
        if not (is_departing or uid in self.refused_until_us or uid in self._by_departing):
            # As of most pods: then nothing of this is noted by its row either.
            return
        for nomination in self.waiting_for(uid):
            del nomination.waits_for[uid]
            nomination.elsewhere.pop(uid, None)
            # It may be complete now: ``Nominations.settle`` looks.
            self.unsettled[nomination.number] = None
        self._by_departing.pop(uid, None)
        self.announced.pop(uid, None)
        self.evicted.pop(uid, None)
        self.refused_until_us.pop(uid, None)
        self._note_who_waits(uid)
        self._note(uid, LEAVING, 0)
        self._note(uid, REFUSED, 0)

    def _note_who_waits(self, uid: PodUid) -> None:
        """The first of the nominations that wait for a pod is that of the smallest number."""
        self._note(uid, AWAITED_BY, min(self._by_departing.get(uid, ()), default=NO_NOMINATION))

    def _note(self, uid: PodUid, column: int, value: int) -> None:
        row = self.pods.row_by_uid.get(uid)
        if row is not None:
            self.pods.eviction_columns.cells[column, row] = value


def _take_out(groups: dict[Key, dict[int, None]], key: Key, number: int) -> None:
    """Take a number out of its group, and the group away with its last one."""
    del groups[key][number]
    if not groups[key]:
        del groups[key]
