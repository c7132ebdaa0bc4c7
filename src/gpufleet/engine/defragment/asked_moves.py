"""Moves that others ask for, to empty nodes: a gang whole or not at all, each pod to the node that is named.

``event.MoveAsked`` names pod and node. Once all members of a gang that run are asked for, and all of them fit
where they were asked to go when the gang is gone, the places are kept (``replacements``) and the gang is told
to end, in one decision. A single pod is a unit by itself. What does not fit yet stays asked for and is tried
again at each step: the caller knows of other nodes too, and asks for another one where this takes too long.

Priorities, minimum run times and budgets of automatic moves do not count here, because the nodes are to be
emptied in any case. Disruption budgets do.
"""

from collections.abc import Iterator

import numpy as np

from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.defragment.left_claims import leave_claims, left_with
from gpufleet.engine.defragment.moves import Relocation, by_size, placed_on
from gpufleet.engine.defragment.replacements import Replacements
from gpufleet.engine.event import MoveAsked
from gpufleet.engine.instruction import AnyInstruction, Evict, MovedTo, WhyEvicted
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Nominations, placement_of
from gpufleet.engine.preempt.candidates import work_lost
from gpufleet.model.identifiers import NodeName, PodUid


class AskedMoves:
    """What was asked for and is not done yet."""

    def __init__(self, state: EngineState, nominations: Nominations, replacements: Replacements) -> None:
        self.state = state
        self.nominations = nominations
        self.replacements = replacements
        self.targets: dict[PodUid, NodeName] = {}

    def ask(self, happened: MoveAsked) -> None:
        """A pod is to go to a node, or is not any more."""
        if happened.node is None:
            self.targets.pop(happened.uid, None)
        else:
            self.targets[happened.uid] = happened.node

    def run(self, at_us: int) -> list[AnyInstruction]:
        """Make the moves whose places are free."""
        if not self.targets:
            return []
        known = self.state.pods.row_by_uid
        self.targets = {uid: node for uid, node in self.targets.items() if uid in known}
        told: list[AnyInstruction] = []
        for rows in list(self._units()):
            found = self._places(rows, at_us)
            if found:
                told += self._move(found)
        return told

    def next_due_us(self) -> int | None:
        """When a pod that was refused may be asked to end again."""
        if not self.targets:
            return None
        refused = self.state.departures.refused_until_us
        return min((refused[uid] for uid in self.targets if uid in refused), default=None)

    def _units(self) -> Iterator[list[int]]:
        """The pods that move together, where all of them were asked for and may move."""
        state, seen = self.state, set()
        for uid in self.targets:
            row = state.pods.row_by_uid[uid]
            members = state.workloads.members_of(row)
            rows = [row] if members is None else sorted(members.placed)
            if row in seen:
                continue
            seen.update(rows)
            # A member that waits is in no unit: only those that have a place move.
            if row in rows and all(map(self._may_move, rows)):
                pods = [state.pods.pod_at(one) for one in rows]
                if state.budgets.allow(pods):
                    yield rows

    def _may_move(self, row: int) -> bool:
        pod, departures = self.state.pods.pod_at(row), self.state.departures
        return (
            pod.uid in self.targets
            and pod.replaceable
            and not pod.foreign
            and self.state.pods.state(row) is PodState.BOUND
            and not departures.is_departing(pod.uid)
            and pod.uid not in departures.refused_until_us
            and not self.state.budgets.forbids(pod)
        )

    def _places(self, rows: list[int], at_us: int) -> list[Relocation]:
        """Where the pods of a unit go, once all of it has left; empty where one of them does not fit."""
        state = self.state
        tables, cells = state.store.tables, state.pods.eviction_columns.cells
        lost = {row: int(work_lost(tables, cells, row, at_us)) for row in rows}
        with state.trial() as trial:
            leave_claims(state, trial, rows)
            trial.release_all(rows)
            for row in by_size(state, rows):
                node = state.fleet.row_by_name.get(self.targets[state.pods.pod_at(row).uid])
                if node is None or node not in state.related.feasible(row):
                    return []
                if not placed_on(state, trial, row, np.array([node], np.int64)):
                    return []
            return [Relocation(row, placement_of(state, row), lost[row]) for row in rows]

    def _move(self, found: list[Relocation]) -> list[AnyInstruction]:
        state = self.state
        told: list[AnyInstruction] = []
        left = left_with(state, [one.row for one in found])
        places = [self.replacements.made_for(one.place, left) for one in found]
        for one, place in zip(found, places, strict=True):
            pod = state.pods.pod_at(one.row)
            state.departures.evict(pod.uid)
            if state.update_end(one.row):
                self.nominations.cancel_of_gang(one.row)
            state.budgets.spend(pod)
            moved = MovedTo(state.fleet.node_at(place.node).name, one.lost)
            told.append(Evict(pod.uid, None, WhyEvicted.DRAINED.value, moved=moved))
            del self.targets[pod.uid]
        # Only now, when the engine knows of all of them that they leave: their own room counts.
        for place in places:
            self.replacements.keep(place, None)
        return told
