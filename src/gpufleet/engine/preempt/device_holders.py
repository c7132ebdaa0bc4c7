"""Which candidates may help a workload that waits for devices of resource claims.

Thousands of pods without claims may run beside a few that hold devices, and each is a candidate to be tried.
Where a workload would fit if claims gave back their devices, with all pods still there, only pods with claims
help it. Otherwise a pod without claims is of no use on a node that has room and no devices. ``victim_search``
leaves these out.
"""

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.node_reasons.claim_devices import BIT as CLAIM_DEVICES
from gpufleet.engine.node_reasons.claim_elsewhere import BIT as CLAIM_ELSEWHERE
from gpufleet.engine.preempt.candidates import Candidates
from gpufleet.engine.preempt.leaving import Leaving
from gpufleet.engine.preempt.victims import UnplacedWorkload

OF_CLAIMS = CLAIM_DEVICES | CLAIM_ELSEWHERE
"""What nodes say of claims."""


def without_useless(
    found: Candidates, state: EngineState, unplaced: UnplacedWorkload, short: Int64Array, leaving: Leaving
) -> Candidates:
    """These, but for single pods that give the workload nothing.

    ``short`` says what nodes lack for its first pod. All stay where quota is lacking, which pods give back
    wherever they are.
    """
    if not len(found.singles.rows) or (state.gate.is_active and state.gate.keeps_out(unplaced.row)):
        return found
    rows = found.singles.rows
    asks = state.neighbours.asks_for_devices
    holds = np.fromiter(map(asks, rows.tolist()), np.bool_, len(rows))
    is_useless = ~holds
    if not _lacks_devices_alone(state, unplaced, rows[holds]):
        # What members of a gang lack together on a node is not known.
        if not unplaced.workload.is_single:
            return found
        without_devices = _with_room_alone(state, unplaced.row, short, leaving)
        is_useless &= without_devices[state.store.tables.pods[layout.POD_NODE, rows]]
    return Candidates(found.singles.at(~is_useless), found.gangs, found.again_at_us, found.surplus)


def _lacks_devices_alone(state: EngineState, unplaced: UnplacedWorkload, holders: Int64Array) -> bool:
    """True if the workload fits once these pods have given back their devices, and keep all else."""
    with state.trial() as gone:
        gone.end_all(holders, ended_claims=state.neighbours.ended_claims())
        left = state.neighbours.left_claims
    with state.trial() as trial:
        trial.put(state.neighbours, "left_claims", left)
        return bool(unplaced.workload.place(trial))


def _with_room_alone(state: EngineState, row: int, short: Int64Array, leaving: Leaving) -> BoolArray:
    """The nodes that have all that a pod needs but for devices."""
    reasons = state.neighbours.reasons(row)
    lacks_devices = (reasons & OF_CLAIMS != 0) & (reasons & ~OF_CLAIMS == 0)
    found: BoolArray = lacks_devices & (short[: len(reasons)] <= 0).all(axis=1)
    # Of what leaves there not all may be needed, and the room that is left then is not known here.
    found[leaving.nodes] = False
    return found
