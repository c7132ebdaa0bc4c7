"""A pod's life as a table of transitions: from which state to which a step may bring it, and by what.

Events come before decisions in a step, so a pod may pass through two states in it: one that comes and starts
at once is absent before and assumed after.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.instruction import AnyInstruction, Bind, Nominated, NominationWithdrawn
from gpufleet.engine.scheduler import Engine
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod
from tests.engine.evictions_check import is_stand_in

ABSENT, WAITING, BACKOFF, ASSUMED, BOUND, NOMINATED = PodState


class Cause(StrEnum):
    """What brings a pod into another state."""

    ADDED = "it is added"
    REMOVED = "it is removed"
    RUNS = "it turns out to run"
    REFUSED = "its Binding is refused"
    PAUSE_ENDS = "its pause ends"
    BIND = "it is bound"
    KEPT = "a place is kept for it"
    NOT_KEPT = "no place is kept for it any more"


TRANSITIONS: dict[tuple[PodState, PodState], tuple[Cause, ...]] = {
    (ABSENT, WAITING): (Cause.ADDED,),
    (ABSENT, BACKOFF): (Cause.ADDED,),
    (ABSENT, ASSUMED): (Cause.ADDED, Cause.BIND),
    (ABSENT, NOMINATED): (Cause.ADDED, Cause.KEPT),
    (ABSENT, BOUND): (Cause.RUNS,),
    (WAITING, ASSUMED): (Cause.BIND,),
    (WAITING, NOMINATED): (Cause.KEPT,),
    (WAITING, BOUND): (Cause.RUNS,),
    (BACKOFF, WAITING): (Cause.PAUSE_ENDS,),
    (BACKOFF, ASSUMED): (Cause.PAUSE_ENDS, Cause.BIND),
    (BACKOFF, NOMINATED): (Cause.PAUSE_ENDS, Cause.KEPT),
    (BACKOFF, BOUND): (Cause.RUNS,),
    (NOMINATED, WAITING): (Cause.NOT_KEPT,),
    (NOMINATED, ASSUMED): (Cause.BIND,),
    (NOMINATED, BOUND): (Cause.RUNS,),
    (ASSUMED, BACKOFF): (Cause.REFUSED,),
    (ASSUMED, BOUND): (Cause.RUNS,),
    (WAITING, ABSENT): (Cause.REMOVED,),
    (BACKOFF, ABSENT): (Cause.REMOVED,),
    (NOMINATED, ABSENT): (Cause.REMOVED,),
    (ASSUMED, ABSENT): (Cause.REMOVED,),
    (BOUND, ABSENT): (Cause.REMOVED,),
}
"""All of these causes must hold. A pod that runs leaves that state only when it is removed."""


class PodLives:
    """Where each pod of an engine stands, and whether it came there by a transition of the table."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.state_by_uid: dict[PodUid, PodState] = {}
        self._reserved: frozenset[PodUid] = frozenset()

    def follow(self, events: Iterable[event.Event], said: Collection[AnyInstruction]) -> None:
        """Check what a step did; to be called after each."""
        pods = self.engine.state.pods
        now = {uid: pods.state(row) for uid, row in pods.row_by_uid.items() if not is_stand_in(uid)}
        reserved = self._reserved_now()
        causes = causes_of(events, said)
        causes[Cause.KEPT] |= reserved
        causes[Cause.NOT_KEPT] |= self._reserved
        # A pod that is removed and comes again in one step begins anew.
        before = {uid: state for uid, state in self.state_by_uid.items() if uid not in causes[Cause.REMOVED]}
        before |= {uid: self.state_by_uid[uid] for uid in self.state_by_uid if uid not in now}
        for uid in before | now:
            check(uid, before.get(uid, ABSENT), now.get(uid, ABSENT), causes)
        check_that_only_room_decides(self.engine)
        self.state_by_uid, self._reserved = now, reserved

    def _reserved_now(self) -> frozenset[PodUid]:
        """Pods with a place that is only reserved: the engine says nothing of it pod by pod."""
        departures, pods = self.engine.state.departures, self.engine.state.pods
        return frozenset(pods.pod_at(row).uid for row, one in departures.by_row.items() if one.reserved)


def check_that_only_room_decides(engine: Engine) -> None:
    """What the next step takes for granted if only room decides: each pod has a place, or takes no turn."""
    state = engine.state
    if not state.only_room_decides:
        return
    assert not engine.queue_report()
    assert not engine.reservations()
    assert not engine.kept_places()
    assert not any(state.shapes.asks_anything(state.shapes.row_by_shape[pod.shape]) for pod in _known(engine))
    for row, pod in enumerate(state.pods.pods):
        if pod is not None and pod.gang is None and not pod.leaving:
            assert state.pods.state(row) in {ASSUMED, BOUND}, pod.uid


def _known(engine: Engine) -> list[Pod]:
    return [pod for pod in engine.state.pods.pods if pod is not None]


def causes_of(
    events: Iterable[event.Event], said: Collection[AnyInstruction]
) -> dict[Cause, frozenset[PodUid]]:
    """Of which pods each cause holds in a step; where a pause ends depends on the time alone."""
    found: dict[Cause, set[PodUid]] = {cause: set() for cause in Cause}
    for happened in events:
        match happened:
            case event.PodAdded(pod):
                found[Cause.ADDED].add(pod.uid)
            case event.PodRemoved(uid):
                found[Cause.REMOVED].add(uid)
            case event.PodBound(pod):
                found[Cause.RUNS].add(pod.uid)
            case event.BindRefused(uid):
                found[Cause.REFUSED].add(uid)
    found[Cause.BIND] = {one.uid for one in said if isinstance(one, Bind)}
    found[Cause.KEPT] = {one.uid for one in said if isinstance(one, Nominated)}
    found[Cause.NOT_KEPT] = {one.uid for one in said if isinstance(one, NominationWithdrawn)}
    return {cause: frozenset(uids) for cause, uids in found.items()}


def check(uid: PodUid, before: PodState, after: PodState, causes: dict[Cause, frozenset[PodUid]]) -> None:
    """AssertionError for a transition that the table lacks, or that has no cause."""
    if before is after:
        return
    needed = TRANSITIONS.get((before, after))
    assert needed is not None, f"{uid} went from {before.name} to {after.name}"
    for cause in needed:
        holds = cause is Cause.PAUSE_ENDS or uid in causes[cause]
        assert holds, f"{uid} went from {before.name} to {after.name} though not: {cause}"
