"""Which candidates may help a pod that waits for devices of resource claims.

On a node that has room for the pod, and no devices for its claims, a pod without claims gives it nothing.
Thousands of such pods may run beside a few that hold devices, and each is a candidate to be tried.
``victim_search`` leaves them out.
"""

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.node_reasons.claim_devices import BIT as CLAIM_DEVICES
from gpufleet.engine.node_reasons.claim_elsewhere import BIT as CLAIM_ELSEWHERE
from gpufleet.engine.preempt.candidates import Candidates
from gpufleet.engine.preempt.leaving import Leaving

OF_CLAIMS = CLAIM_DEVICES | CLAIM_ELSEWHERE
"""What nodes say of claims."""


def without_useless(
    found: Candidates, state: EngineState, row: int, short: Int64Array, leaving: Leaving
) -> Candidates:
    """These, but for single pods that give the pod of a row nothing; ``short`` says what nodes lack for it.

    All stay for a pod that lacks quota, which pods give back wherever they are.
    """
    neighbours = state.neighbours
    if not len(found.singles.rows) or (state.gate.is_active and state.gate.keeps_out(row)):
        return found
    reasons = neighbours.reasons(row)
    lacks_devices = (reasons & OF_CLAIMS != 0) & (reasons & ~OF_CLAIMS == 0)
    is_useless = lacks_devices & (short[: len(reasons)] <= 0).all(axis=1)
    # Of what leaves there not all may be needed, and the room that is left then is not known here.
    is_useless[leaving.nodes] = False
    rows = found.singles.rows
    holds = np.fromiter(map(neighbours.asks_for_devices, rows.tolist()), np.bool_, len(rows))
    singles = found.singles.at(holds | ~is_useless[state.store.tables.pods[layout.POD_NODE, rows]])
    return Candidates(singles, found.gangs, found.again_at_us, found.surplus)
