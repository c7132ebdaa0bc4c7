"""Moves that let one waiting workload start: every pod that makes room for it has a place elsewhere.

The search for victims, with another question about what is just: with the workload placed, every pod that
left must fit somewhere too, at the same moment. No pod is sent back to wait, so priorities do not matter.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.defragment.moves import Relocation, place_elsewhere
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Placement, placement_of
from gpufleet.engine.preempt.by_node import ByNode
from gpufleet.engine.preempt.candidates import Candidates, Singles, Unit
from gpufleet.engine.preempt.leaving import Leaving
from gpufleet.engine.preempt.over_fleet import OverFleet
from gpufleet.engine.preempt.proof import Placements, Proof
from gpufleet.engine.preempt.victims import UnplacedWorkload


class MovesFor(NamedTuple):
    """Where each moved pod goes, and the workload then, once pods that ``leave`` anyway have left too."""

    relocations: tuple[Relocation, ...]
    placements: Placements
    leave: tuple[int, ...]


class RelocationCheck:
    """Asks whether all pods that left fit somewhere, and remembers where."""

    def __init__(self, state: EngineState) -> None:
        self.state = state
        self.places: dict[int, Placement] = {}

    def has_room(self, rows: list[int]) -> bool:
        """True if these pods, which a trial released, have a place each in what that trial left free."""
        with self.state.trial() as trial:
            targets = place_elsewhere(self.state, trial, rows) or {}
            self.places = {row: placement_of(self.state, row) for row in targets}
        return len(self.places) == len(rows)


def moves_for(
    unplaced: UnplacedWorkload, state: EngineState, units: list[Unit], moves_max: int
) -> MovesFor | None:
    """Few moves among these units that let the workload start; None if none are found.

    No move of them can be left out. Changes nothing.
    """
    leaving, elsewhere = Leaving(state), RelocationCheck(state)
    proof = Proof(unplaced, state, leaving)
    proof.is_just = elsewhere.has_room
    rows: tuple[int, ...] | None = None
    if unplaced.workload.is_single and not proof.is_tied:
        short = leaving.left.shortage(int(state.store.tables.pods[layout.POD_SHAPE, unplaced.row]))
        on_one_node = ByNode(proof, state, leaving, short, Candidates(singles(units), [])).find()
        rows = None if on_one_node is None else on_one_node.rows
    going = leaving.rows.tolist()
    if rows is None:
        over_fleet = OverFleet(proof, state, going).find(units)
        rows = None if over_fleet is None else tuple(row for unit in over_fleet[0] for row in unit.rows)
    if rows is None or len(rows) > moves_max:
        return None
    # First without those that leave anyway, so that the workload waits for them only where it must.
    for leave in ((), tuple(going)) if going else ((),):
        placements = proof.fits_without([*leave, *rows])
        if placements:
            lost = {unit.rows[0]: unit.lost for unit in units}
            found = (Relocation(row, place, lost[row]) for row, place in elsewhere.places.items())
            return MovesFor(tuple(found), placements, leave)
    return None


def singles(units: list[Unit]) -> Singles:
    """Units of one pod each as columns, none of them dearer than another by priority or right."""
    rows = np.array([unit.rows[0] for unit in units], np.int64)
    lost = np.array([unit.lost for unit in units], np.int64)
    nothing = np.zeros_like(rows)
    none = np.full_like(rows, layout.NOT_SET)
    order = np.array([unit.order for unit in units], np.int64)
    return Singles(rows, nothing, lost, nothing, nothing, nothing, none, order)
