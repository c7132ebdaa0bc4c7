"""Whose end would make room for work that was refused: the seam for preemption and reclaim.

The cycle asks a ``VictimSearch`` about each workload that does not fit. The search may try anything
on trials of the books, as long as it takes all of it back; what it proposes is a ``Plan``, which the
cycle carries out: victims are told to end, and the places are kept (``nominations``).
"""

from typing import NamedTuple, Protocol

from gpufleet.engine.instruction import WhyEvicted
from gpufleet.engine.lifecycle.books import Books
from gpufleet.engine.lifecycle.nominations import Placement
from gpufleet.engine.state.members import Members
from gpufleet.model.identifiers import PodUid


class Asking(NamedTuple):
    """A workload that does not fit: the row of one pod, or the members of a gang, and the moment."""

    row: int
    members: Members | None
    at_us: int


class Plan(NamedTuple):
    """How a workload comes to fit.

    ``victims`` are to be told to end; ``waits_for`` names them and those who end anyway without whom
    the placements would not fit. ``why`` they end, where it is not for the right of a queue.
    """

    placements: tuple[Placement, ...]
    victims: tuple[PodUid, ...]
    waits_for: tuple[PodUid, ...]
    why: WhyEvicted | None = None


class NoPlan(NamedTuple):
    """Nobody's end helps now.

    ``cut``: not everything was looked at, because that would have taken too long. ``again_at_us``: from
    then on some pods may be evicted that may not be yet.
    """

    cut: bool = False
    again_at_us: int | None = None


class VictimSearch(Protocol):
    """Finds running pods whose end would let refused work run."""

    def find(self, asking: Asking, books: Books) -> Plan | NoPlan | None:
        """A plan that is proven, or why there is none; None for work that never evicts anybody.

        Leaves the books as they are.
        """
        ...


class NoVictims:
    """Nobody is ever evicted, and no place is kept."""

    def find(self, asking: Asking, books: Books) -> None:
        """No one."""
