"""Victims over the whole fleet: for gangs, and for pods whose place depends on other pods.

Candidates are released in the order of their cost until the workload fits, in steps that double and
then halve; what it does not use is put back at once, and of the rest the dearest is taken off again as
long as the workload still fits. What is left is minimal: without any one of them it would not fit.

For a gang of equal pods that want whole GPUs it begins with those whose room costs the least
(``cheapest_room``), if the gang fits without them and that is just.

Whether it is just to evict these is asked in the end. If it is not, they are looked for once more among
those that may justly go together, and taken off as long as that stays just.

Of a gang of which only some members may go, those come first that are on nodes which suit the workload.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.preempt.candidates import Surplus, Unit
from gpufleet.engine.preempt.capacity_bound import suitable
from gpufleet.engine.preempt.cheapest_room import cheapest_room
from gpufleet.engine.preempt.every_set import nodes_of
from gpufleet.engine.preempt.proof import Placements, Proof

PROOFS_MAX = 512
"""How many proofs a search makes at most before it is cut short, and says so; once more among the just."""


class OverFleet:
    """A search for one workload. ``departing`` are rows of pods that end anyway, ``surplus`` says how many
    members of gangs may go (``Candidates``).
    """

    def __init__(
        self,
        proof: Proof,
        state: EngineState,
        departing: Int64Array,
        surplus: Mapping[int, Surplus] = MappingProxyType({}),
    ) -> None:
        self.proof = proof
        self.state = state
        self.departing = departing
        self.surplus = surplus
        self.cut = False
        self._tries = proof.tries
        self._node_by_row: dict[int, int] = {}

    def find(self, units: list[Unit]) -> tuple[list[Unit], Placements] | None:
        """A minimal set of these units, given the cheapest first, and where the workload goes."""
        units = self._within_surplus(units)
        self._node_by_row = nodes_of(self.state, units)
        allowed = self._within_budgets(units)
        fits = bool(allowed and self._proven(allowed))
        found = self._minimal(allowed) if fits else None
        if found is not None or not (fits or len(allowed) < len(units)):
            return found
        # Without a set that is just among the cheapest, sets are tried that may go together.
        parts = filter(self._proven, self.proof.reclaimable_subsets(units))
        return next(filter(None, (self._minimal(part, judged=True) for part in parts)), None)

    def _minimal(self, units: list[Unit], *, judged: bool = False) -> tuple[list[Unit], Placements] | None:
        """A minimal set of these units, and where the workload goes; without all of them it fits.

        ``judged``: only what it is just to evict is preferred to more.
        """
        with self.proof.without_leaving(self.departing):
            chosen = units[: self._enough(units)]
        cheapest = self._cheapest_room(units, chosen)
        if cheapest:
            # The cheapest room is proven to be just, so only sets that are just replace it.
            chosen, judged = cheapest, True
        with self.proof.without_leaving(self.departing):
            return self._taken_off(chosen, judged=judged, is_used=bool(cheapest))

    def _taken_off(
        self, chosen: list[Unit], *, judged: bool, is_used: bool
    ) -> tuple[list[Unit], Placements] | None:
        """What is left of these once all that can be spared are taken off, the dearest first.

        ``is_used``: none of them is of no use on the nodes where the workload goes.
        """
        if not is_used:
            chosen = self._only_used(chosen, self._proven(chosen), judged=judged)
        tries_max = PROOFS_MAX + (self.proof.tries if judged else self._tries)
        # The dearest first, so that they are spared if any can be.
        for unit in reversed(list(chosen)):
            # It was found to be of no use together with one before it.
            if unit not in chosen:
                continue
            if self.proof.tries > tries_max:
                self.cut = True
                break
            fewer = [one for one in chosen if one is not unit]
            without = self._proven(fewer, judged=judged)
            if without:
                chosen = self._only_used(fewer, without, judged=judged)
        placements = self._proven(chosen, judged=True)
        return (chosen, placements) if placements else None

    def _cheapest_room(self, units: list[Unit], enough: list[Unit]) -> list[Unit]:
        """Of these, none of higher priority than any of ``enough``, those whose room costs the least; none if
        that is not enough.
        """
        workload = self.proof.unplaced.workload
        if workload.is_single or self.proof.is_tied or any(unit.whole for unit in enough):
            return []
        # Cheaper room may cost no higher priority than the set that is enough: priority goes before cost.
        of_queue = max(unit.queue_priority for unit in enough)
        priority = max(unit.priority for unit in enough)
        among = [
            unit
            for unit in units
            if not unit.whole and unit.queue_priority <= of_queue and unit.priority <= priority
        ]
        chosen = cheapest_room(self.state, workload, self.proof.leaving, among)
        return chosen if chosen and self._proven(chosen, judged=True) else []

    def _within_surplus(self, units: list[Unit]) -> list[Unit]:
        """The units, but of members of each gang only as many as may go one by one."""
        if not self.surplus:
            return units
        pods = self.state.store.tables.pods
        shapes: Int64Array = pods[layout.POD_SHAPE, self.proof.unplaced.rows]
        suits = suitable(self.state, np.unique(shapes).tolist())
        going: dict[int, list[int]] = {gang: [] for gang in self.surplus}
        kept: set[int] = set()
        # Of a gang's members those first whose nodes the workload could use; the sort keeps the order of
        # their cost.
        for unit in sorted(units, key=lambda unit: not suits[pods[layout.POD_NODE, unit.rows[0]]]):
            if unit.gang in going and self.surplus[unit.gang].allows([*going[unit.gang], *unit.rows]):
                going[unit.gang] += unit.rows
                kept.update(unit.rows)
        return [unit for unit in units if unit.gang not in going or kept.issuperset(unit.rows)]

    def _within_budgets(self, units: list[Unit]) -> list[Unit]:
        """The cheapest of them that disruption budgets let go together."""
        pods, budgets = self.state.pods, self.state.budgets
        if not budgets.any_is_known:
            return units
        allowed: list[Unit] = []
        rows: dict[int, None] = {}
        for unit in units:
            # A member may be a unit of its own and one of its gang's; a budget counts each pod once.
            more = rows | dict.fromkeys(unit.rows)
            if budgets.allow(map(pods.pod_at, more)):
                allowed.append(unit)
                rows = more
        return allowed

    def _enough(self, units: list[Unit]) -> int:
        """How many of the units must go so that the workload fits, the cheapest first."""
        enough = 1
        while enough < len(units) and not self._proven(units[:enough]):
            enough *= 2
        few, enough = enough // 2, min(enough, len(units))
        while enough - few > 1:
            middle = (few + enough) // 2
            if self._proven(units[:middle]):
                enough = middle
            else:
                few = middle
        return enough

    def _only_used(self, units: list[Unit], placements: Placements, *, judged: bool) -> list[Unit]:
        """Without the units that hold nothing on the nodes where the workload goes.

        Where more than room decides, no candidate can be told to be of no use.
        """
        if self.proof.is_tied:
            return units
        nodes = {one.node for one in placements}
        here = self._node_by_row
        used = [unit for unit in units if any(here[row] in nodes for row in unit.rows)]
        return used if len(used) < len(units) and self._proven(used, judged=judged) else units

    def _proven(self, units: list[Unit], *, judged: bool = False) -> Placements:
        rows = list(dict.fromkeys([row for unit in units for row in unit.rows]))
        with self.proof.without_leaving(self.departing):
            return self.proof.fits_without(rows, judged=judged)
