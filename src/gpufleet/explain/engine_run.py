"""What the engine says of one pod or gang, on the cluster as it is.

It is fed what the live scheduler would feed its own after a restart, and takes the step that would come next.
A pod that it binds there has room and only waits for the scheduler's next round. Whether disruption budgets
keep room from a pod is found by asking again without these.
"""

from collections.abc import Iterable
from functools import cached_property

from gpufleet.cluster.engine_of_settings import engine_of
from gpufleet.cluster.settings import Settings
from gpufleet.engine.event import DisruptionBudgetSet, Event
from gpufleet.engine.explanations.causes import ABOUT_TO_RUN, NOMINATED
from gpufleet.engine.instruction import (
    AnyInstruction,
    Evict,
    Reservation,
)
from gpufleet.engine.node_reasons.object_details import ObjectDetails
from gpufleet.engine.scheduler import Engine
from gpufleet.explain.engine_answer import EngineAnswer
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod


class EngineRun:
    """An engine that was told everything at the time ``at_us`` of its own, to be asked about pods."""

    def __init__(self, waves: list[list[Event]], settings: Settings, at_us: int) -> None:
        self.settings = settings
        self.waves = waves
        self.at_us = at_us
        self.engine = self._new_engine()
        said = self._steps(self.engine, waves)
        self.evicted = [one for one in said if isinstance(one, Evict)]
        self.reserved = {place.uid: one for one in self.engine.reservations() for place in one.places}

    def judge(self, pod: Pod, gang: Gang | None, details: ObjectDetails) -> EngineAnswer | None:
        """What the engine says of a pod that waits; None if it does not."""
        explanation = self.engine.explanation(pod.uid, details)
        if explanation is None or explanation.cause == ABOUT_TO_RUN:
            return None if explanation is None else EngineAnswer(explanation)
        if explanation.cause == NOMINATED:
            victims = _victims(self.evicted, pod, gang)
            return EngineAnswer(explanation, explanation.waits_for, victims)
        held = self.reserved.get(pod.uid)
        waits_for = () if held is None else self._awaited(held)
        return EngineAnswer(explanation, waits_for, protected=self._protected(pod, gang))

    def _awaited(self, held: Reservation) -> tuple[PodUid, ...]:
        """The pods that a holder of a reservation waits for; without its guests, unless all are guests."""
        outlooks = ((uid, self.engine.outlook(uid)) for uid in held.waits_for)
        others = [
            uid
            for uid, one in outlooks
            if one is None or all(host.holder != held.holder for host in one.guest_of)
        ]
        return tuple(others) or held.waits_for

    def _events(self) -> Iterable[Event]:
        return (event for wave in self.waves for event in wave)

    def _protected(self, pod: Pod, gang: Gang | None) -> tuple[PodUid, ...]:
        """The pods that would end for the pod, or its gang, if there were no disruption budgets."""
        return _victims(self._evicted_without_budgets, pod, gang)

    @cached_property
    def _evicted_without_budgets(self) -> list[Evict]:
        """All that would end if there were no budgets: one answer for all pods, which costs a whole run."""
        if not any(isinstance(event, DisruptionBudgetSet) for event in self._events()):
            return []
        unguarded = [
            [event for event in wave if not isinstance(event, DisruptionBudgetSet)] for wave in self.waves
        ]
        said = self._steps(self._new_engine(), unguarded)
        return [one for one in said if isinstance(one, Evict)]

    def _new_engine(self) -> Engine:
        return engine_of(self.settings)

    def _steps(self, engine: Engine, waves: list[list[Event]]) -> list[AnyInstruction]:
        return [said for number, wave in enumerate(waves) for said in engine.step(self.at_us + number, wave)]


def _victims(evicted: list[Evict], pod: Pod, gang: Gang | None) -> tuple[PodUid, ...]:
    """The evicted pods that end for a pod, or for its gang."""
    names = {pod.uid} if gang is None else {pod.uid, gang.name}
    return tuple(one.uid for one in evicted if one.beneficiary in names)
