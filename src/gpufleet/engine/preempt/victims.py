"""What the cycle asks about work that does not fit, and what it is answered: the seam for preemption.

The cycle asks a ``VictimSearch`` about each workload that does not fit. The search may try anything on
trials of the state, as long as it takes all of it back. What it proposes is an ``EvictionPlan``, which the
cycle carries out: victims are told to end, and the places are kept (``lifecycle.nominations``).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from gpufleet.engine.instruction import WhyEvicted
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.lifecycle.nominations import Placement
from gpufleet.engine.place.workloads.workload import Workload
from gpufleet.model.identifiers import PodUid
from gpufleet.model.queue import Queue


class UnplacedWorkload(NamedTuple):
    """A workload that does not fit, and the moment."""

    workload: Workload
    at_us: int

    @property
    def row(self) -> int:
        """The row of the first of its pods that wait."""
        return self.workload.row

    @property
    def rows(self) -> list[int]:
        """The rows of all its pods that wait."""
        return self.workload.rows


class EvictionPlan(NamedTuple):
    """How a workload comes to fit.

    ``victims`` are to be told to end; ``waits_for`` names them and the pods that end anyway without which
    the placements would not fit. ``why`` they end, where it is not for the right of a queue.
    """

    placements: tuple[Placement, ...]
    victims: tuple[PodUid, ...]
    waits_for: tuple[PodUid, ...]
    why: WhyEvicted | None = None


class NoEvictionPlan(NamedTuple):
    """No eviction helps now.

    ``cut``: not everything was looked at, because that would have taken too long. ``again_at_us``: from
    then on some pods may be evicted that may not be yet. ``lacks_lower_priority``: nothing but a pod of lower
    priority than any known one would be a victim.
    """

    cut: bool = False
    again_at_us: int | None = None
    lacks_lower_priority: bool = False


class VictimSearch(Protocol):
    """Finds running pods whose end would let refused work run.

    ``runs`` counts the searches that began anew, which take far longer than one that goes on or has a quick
    answer.
    """

    runs: int

    def find(self, unplaced: UnplacedWorkload, state: EngineState) -> EvictionPlan | NoEvictionPlan | None:
        """A plan that is proven, or why there is none; None for work that never evicts.

        Leaves the state as it is.
        """
        ...

    def finds_none(self, priority: int, queue: Queue, state: EngineState, *, lacks_quota: bool) -> bool:
        """True if ``find`` has no plan for single pods of this priority in this described queue, as is known
        without a look at any pod. ``lacks_quota``: quota keeps them out as things are.
        """
        ...

    def finds_none_in_fleet(self, kinds: Iterable[tuple[Queue, int]], state: EngineState) -> bool:
        """True if ``finds_none`` is for each of these queues and priorities; False says nothing."""
        ...

    def finds_none_beside(self, rows: Sequence[int], reserved: Sequence[int], state: EngineState) -> bool:
        """True if ``find`` has no plan for any of these single pods, also where some of the ``reserved`` have
        no place; False says nothing.
        """
        ...

    def has_rule_for(self, unplaced: UnplacedWorkload, state: EngineState) -> bool:
        """True for work for which pods may be evicted by some rule: of its queue, or outside of queues."""
        ...

    def evictable(self, unplaced: UnplacedWorkload, state: EngineState) -> set[int]:
        """The rows of all pods that the rules let a workload evict now."""
        ...


class NoVictims:
    """No pod is ever evicted, and no place is kept."""

    runs = 0

    def find(self, unplaced: UnplacedWorkload, state: EngineState) -> None:
        """No victim."""

    def finds_none(self, _priority: int, _queue: Queue, _state: EngineState, *, lacks_quota: bool) -> bool:
        """A search that never has a plan."""
        del lacks_quota
        return True

    def finds_none_in_fleet(self, _kinds: Iterable[tuple[Queue, int]], _state: EngineState) -> bool:
        """A search that never has a plan."""
        return True

    def finds_none_beside(self, _rows: Sequence[int], _reserved: Sequence[int], _state: EngineState) -> bool:
        """A search that never has a plan."""
        return True

    def has_rule_for(self, unplaced: UnplacedWorkload, state: EngineState) -> bool:
        """Work of a queue keeps what others leave: an earlier scheduler may have evicted them."""
        return state.named_queue(unplaced.row) in state.waiting.queues

    def evictable(self, _unplaced: UnplacedWorkload, _state: EngineState) -> set[int]:
        """No pod."""
        return set()
