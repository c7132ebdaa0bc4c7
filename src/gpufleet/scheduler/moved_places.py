"""Pods that are moved end only when their new places are written down, in the condition of their nodes.

The next leader reads there which places are kept, and for which pods (``cluster.nodes.replacement_records``).
So a leader that dies between its decision and the write has moved no pod, and one that dies later leaves a
record of each place whose pod it had evicted. Evictions are refused, and their pods stay, where the place is
not written within ``RECORD_WITHIN_S``, is given up meanwhile, or the condition has no room for it.
"""

from collections.abc import Callable, Iterable

import msgspec

from gpufleet.cluster.nodes import replacement_records
from gpufleet.engine.instruction import ReplacementsKept
from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import Cause, EvictionPlan
from gpufleet.kube.clock import Clock
from gpufleet.kube.codec.lasting_conditions import Said
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.scheduler.condition_writer import ConditionWriter
from gpufleet.scheduler.write_ahead import RECORD_WITHIN_S

NO_PODS: frozenset[PodUid] = frozenset()
"""The pods of a node whose condition names no place."""

NOT_NAMED = "the condition of the node of its new place does not name that place"
NOT_WRITTEN = "the condition of the node of its new place cannot be written"


class HeldMoves(msgspec.Struct, frozen=True):
    """Evictions that wait, until when, on which node each pod has its new place, and what follows."""

    plan: EvictionPlan
    nodes: dict[PodUid, NodeName]
    release: Callable[[EvictionPlan], None]
    until_s: float

    def is_in(self, victims: dict[NodeName, frozenset[PodUid]]) -> bool:
        """True if each of the pods is among those of its node."""
        return all(uid in victims.get(node, NO_PODS) for uid, node in self.nodes.items())


class MovedPlaces:
    """Has kept places written down, and holds the evictions of moved pods back until that is done."""

    def __init__(self, conditions: ConditionWriter, evictions: Evictions, clock: Clock) -> None:
        self.conditions = conditions
        self.conditions.places_written = self._written
        self.evictions = evictions
        self.clock = clock
        self._held: list[HeldMoves] = []
        self._named: dict[NodeName, frozenset[PodUid]] = {}
        self._recorded: dict[NodeName, frozenset[PodUid]] = {}

    def kept(self, places_kept: ReplacementsKept) -> None:
        """A node keeps these places, and no others."""
        said = replacement_records.written(places_kept.places)
        # A node that is gone can name no place, so what waits for one there is refused at once.
        can_be_written = self.conditions.places(places_kept.node, said)
        _put(
            self._named, places_kept.node, replacement_records.victims_of(said) if can_be_written else NO_PODS
        )
        self._look()

    def hold(
        self, plan: EvictionPlan, nodes: dict[PodUid, NodeName], release: Callable[[EvictionPlan], None]
    ) -> None:
        """Have a plan carried out as soon as the places of its pods are written down."""
        until_s = self.clock.monotonic_s() + RECORD_WITHIN_S
        self._held.append(HeldMoves(plan, nodes, release, until_s))
        self._look()

    def after_round(self) -> None:
        """Refuse what has waited for too long."""
        if self._held:
            now_s = self.clock.monotonic_s()
            self._refuse((one for one in self._held if one.until_s <= now_s), NOT_WRITTEN)

    def next_due_s(self) -> float | None:
        """When to look again."""
        return min((one.until_s for one in self._held), default=None)

    def _written(self, node: NodeName, said: Said | None) -> None:
        """The condition of a node says this now; None where the node is gone."""
        if said is None:
            _put(self._named, node, NO_PODS)
        _put(self._recorded, node, NO_PODS if said is None else replacement_records.victims_of(said))
        self._look()

    def _look(self) -> None:
        """Release what is written down, and refuse what will not be."""
        # Refused first: a place that was given up may still stand in the record that was written before.
        self._refuse((one for one in self._held if not one.is_in(self._named)), NOT_NAMED)
        ready = [one for one in self._held if one.is_in(self._recorded)]
        self._held = [one for one in self._held if one not in ready]
        for one in ready:
            one.release(one.plan)

    def _refuse(self, refused: Iterable[HeldMoves], words: str) -> None:
        gone = list(refused)
        # Taken out first: what is refused may lead to further words of the engine.
        self._held = [one for one in self._held if one not in gone]
        for one in gone:
            self.evictions.refuse(one.plan, Cause.NOT_RECORDED, words)


def _put(victims: dict[NodeName, frozenset[PodUid]], node: NodeName, of_node: frozenset[PodUid]) -> None:
    """Note the pods of a node; a node without any takes no room."""
    if of_node:
        victims[node] = of_node
    else:
        victims.pop(node, None)
