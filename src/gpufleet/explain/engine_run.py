"""What the engine says of one pod or gang, on the cluster as it is.

It is fed what the live scheduler would feed its own after a restart, and takes the step that would come next.
A pod that it binds there has room and only waits for the scheduler's next round. For one that it does not
bind it tells every node's reasons; whether the room went to other waiting pods is found by asking again
without them, and whether disruption budgets keep room from it by asking again without these.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.engine.event import DisruptionBudgetSet, Event, GangSet, PodAdded
from gpufleet.engine.instruction import (
    AnyInstruction,
    Bind,
    Evict,
    GangUnschedulable,
    Nominated,
    Reservation,
)
from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.by_name import BY_QUEUES, find_search
from gpufleet.engine.scheduler import Engine
from gpufleet.explain.engine_answer import EngineAnswer, ReasonsByNode
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.pod import Pod


class EngineRun:
    """An engine that was told everything at the time ``at_us`` of its own, to be asked about pods."""

    def __init__(self, waves: list[list[Event]], policy: str, at_us: int) -> None:
        self.policy = policy
        self.waves = waves
        self.at_us = at_us
        self.engine = self._new_engine()
        said = self._steps(self.engine, waves)
        self.binds = {one.uid: one.node for one in said if isinstance(one, Bind)}
        self.nominated = {one.uid: one for one in said if isinstance(one, Nominated)}
        self.evicted = [one for one in said if isinstance(one, Evict)]
        self.reserved = {place.uid: one for one in self.engine.reservations() for place in one.places}
        self.gangs = {one.gang: one for one in said if isinstance(one, GangUnschedulable)}

    def judge(self, pod: Pod, gang: Gang | None) -> EngineAnswer:
        """What the engine says of a pod that waits."""
        if pod.uid in self.binds:
            return EngineAnswer(self.binds[pod.uid])
        kept = self.nominated.get(pod.uid)
        if kept is not None:
            victims = _victims(self.evicted, pod, gang)
            return EngineAnswer(kept=kept.node, waits_for=kept.waits_for, victims=victims)
        said = None if gang is None else self.gangs.get(gang.name)
        held = self.reserved.get(pod.uid)
        if gang is not None and said is not None and held is None:
            return self._of_gang(pod, gang, said)
        verdict, by_node = self.engine.explain(pod.uid), self.engine.reasons_by_node(pod.uid) or {}
        ahead = self._ahead(pod, gang, by_node)
        protected = self._protected(pod, gang)
        waits_for = () if held is None else self._awaited(held)
        return EngineAnswer(
            verdict=verdict, by_node=by_node, ahead=ahead, protected=protected, waits_for=waits_for
        )

    def _awaited(self, held: Reservation) -> tuple[PodUid, ...]:
        """The pods that a holder of a reservation waits for; without its guests, unless all are guests."""
        outlooks = ((uid, self.engine.outlook(uid)) for uid in held.waits_for)
        others = [
            uid
            for uid, one in outlooks
            if one is None or all(host.holder != held.holder for host in one.guest_of)
        ]
        return tuple(others) or held.waits_for

    def _of_gang(self, pod: Pod, gang: Gang, said: GangUnschedulable) -> EngineAnswer:
        if said.verdict is None:
            return EngineAnswer(placeable=said.placeable, short_role=said.role)
        by_node = self._when_others_are_placed(pod, gang, said.placeable)
        ahead = self._ahead(pod, gang, by_node)
        return EngineAnswer(
            verdict=said.verdict,
            by_node=by_node,
            ahead=ahead,
            protected=self._protected(pod, gang),
            placeable=said.placeable,
            short_role=said.role,
        )

    def _when_others_are_placed(self, pod: Pod, gang: Gang, placeable: int) -> ReasonsByNode:
        """Every node's reasons against the next member, when as many members as fit have their place."""
        if placeable:
            smaller = msgspec.structs.replace(gang, min_members=placeable, role_minimums=())
            said = self.engine.step(self.engine.at_us + 1, [GangSet(smaller)])
            bound = {one.uid for one in said if isinstance(one, Bind)}
        else:
            bound = set()
        waiting = [uid for uid in self._members(gang.name) if uid not in bound]
        asked = pod.uid if pod.uid not in bound else next(iter(waiting), pod.uid)
        return self.engine.reasons_by_node(asked) or {}

    def _members(self, gang: GangName) -> list[PodUid]:
        added = (event for event in self._events() if isinstance(event, PodAdded))
        return [event.pod.uid for event in added if event.pod.gang == gang]

    def _events(self) -> Iterable[Event]:
        return (event for wave in self.waves for event in wave)

    def _ahead(self, pod: Pod, gang: Gang | None, by_node: ReasonsByNode) -> tuple[PodUid, ...]:
        """The pods that would get the room if the pod, or its gang, could run but for others that wait."""
        if not self.binds or not any(by_node.values()):
            return ()
        alone = [[event for event in wave if _concerns(event, pod, gang)] for wave in self.waves]
        said = self._steps(self._new_engine(), alone)
        if not any(isinstance(one, Bind) and one.uid == pod.uid for one in said):
            return ()
        return tuple(self.binds)

    def _protected(self, pod: Pod, gang: Gang | None) -> tuple[PodUid, ...]:
        """The pods that would end for the pod, or its gang, if there were no disruption budgets."""
        if not any(isinstance(event, DisruptionBudgetSet) for event in self._events()):
            return ()
        unguarded = [
            [event for event in wave if not isinstance(event, DisruptionBudgetSet)] for wave in self.waves
        ]
        said = self._steps(self._new_engine(), unguarded)
        return _victims([one for one in said if isinstance(one, Evict)], pod, gang)

    def _new_engine(self) -> Engine:
        return Engine(find_policy(self.policy), victims=find_search(BY_QUEUES))

    def _steps(self, engine: Engine, waves: list[list[Event]]) -> list[AnyInstruction]:
        return [said for number, wave in enumerate(waves) for said in engine.step(self.at_us + number, wave)]


def _victims(evicted: list[Evict], pod: Pod, gang: Gang | None) -> tuple[PodUid, ...]:
    """The evicted pods that end for a pod, or for its gang."""
    names = {pod.uid} if gang is None else {pod.uid, gang.name}
    return tuple(one.uid for one in evicted if one.beneficiary in names)


def _concerns(event: Event, pod: Pod, gang: Gang | None) -> bool:
    """True for all but the arrival of other pods that wait."""
    if not isinstance(event, PodAdded):
        return True
    return event.pod.uid == pod.uid or (gang is not None and event.pod.gang == gang.name)
