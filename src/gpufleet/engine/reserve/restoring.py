"""A reservation that was put aside, or that an earlier scheduler made, as ``reservations`` takes it again.

What an earlier scheduler wrote down may be old, cut short, or not its own words: only what a reservation
could be is taken up, each pod once, with as many devices as it asks for, all of them on its node. Whether
the pods still wait and the place still falls free for them is looked at when its holder's turn comes.
"""

from dataclasses import dataclass

from gpufleet.engine.instruction import Reservation
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Placement, recalled_placement


@dataclass(slots=True)
class PutAside:
    """A reservation that was put aside: it is taken again if nothing speaks against it."""

    since_us: int
    placements: tuple[Placement, ...]
    waits_for: tuple[int, ...]


def recalled(state: EngineState, told: Reservation) -> PutAside | None:
    """What was reserved before a restart, by rows; None where it cannot be any more."""
    placements = [recalled_placement(state, place) for place in told.places]
    known = tuple(one for one in placements if one is not None)
    if not known or len({one.row for one in known}) < len(placements):
        return None
    row_by_uid = state.pods.row_by_uid
    waits_for = dict.fromkeys(row_by_uid[uid] for uid in told.waits_for if uid in row_by_uid)
    return PutAside(told.since_us, known, tuple(waits_for))
