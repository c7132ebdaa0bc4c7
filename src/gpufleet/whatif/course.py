"""What follows from a picture of a cluster: the engine decides, everything it says comes true, time passes.

Binds are confirmed at once. An evicted pod has ended at once, and waits again if a controller makes it anew.
Then ``virtual_time.player`` goes from one thing that is due to the next: pods that are being deleted end, and
pods that say how long they run end after that time. The engine is that of the live scheduler, with its search
for victims.
"""

import enum
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec

from gpufleet.cluster.engine_of_settings import engine_of
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.pods.pod_tracker import started_at_us
from gpufleet.cluster.pods.ready_times import ReadyTimes
from gpufleet.cluster.verdict_words import words_for_gang, words_for_pod
from gpufleet.engine.event import Event, PodAdded, PodBound, PodRemoved
from gpufleet.engine.explanations.queue_report import QueueUse
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, Rejected
from gpufleet.kube.codec.times import microseconds
from gpufleet.model.identifiers import GangName, NodeName, PodUid
from gpufleet.model.model_errors import InputError
from gpufleet.model.pod import Pod
from gpufleet.virtual_time.player import Player

MOMENTS_MAX = 1_000
"""Moments that are played. A question is answered in seconds, and the answer says if it was cut short."""

HORIZON_US = 7 * 86_400 * 10**6
"""How far ahead is played. What starts later than in a week is as good as unknown."""


class Running(msgspec.Struct, frozen=True):
    """Where a pod runs, and since when; None since before the picture."""

    node: NodeName
    since_us: int | None = None


class Eviction(msgspec.Struct, frozen=True):
    """An eviction for ``beneficiary``; ``again`` is the pod that its controller made in its place."""

    at_us: int
    beneficiary: str
    reason: str
    again: PodUid | None


class State(enum.Enum):
    """How a pod ends up."""

    RUNS = "runs"
    STARTS = "starts"
    WAITS = "waits"
    EVICTED = "evicted"
    ABSENT = "absent"


class Course:
    """One engine on one picture, from its moment on."""

    def __init__(self, facts: Facts, now_us: int, horizon_us: int = HORIZON_US) -> None:
        self.facts = facts
        self.now_us = now_us
        self.horizon_us = horizon_us
        self.engine = engine_of(facts.settings)
        self.player = Player(self.engine, self, now_us)
        self.meanings: dict[PodUid, Pod] = {}
        self.running: dict[PodUid, Running] = {}
        self.finished: dict[PodUid, Running] = {}
        self.evictions: dict[PodUid, Eviction] = {}
        self.rejected: list[str] = []
        self.cut = False
        self._take_in()
        for wave in facts.waves:
            self.player.happen(wave)
        # Before time passes, since changes of queues are told as of the first moment.
        self.usage: tuple[QueueUse, ...] = self.engine.queue_report()
        self._let_time_pass()

    @cached_property
    def ready_times(self) -> ReadyTimes:
        """How long pods take until they are ready where they start."""
        return ReadyTimes(self.facts.picture)

    def _take_in(self) -> None:
        for uid, entry in self.facts.pods.entries.items():
            if entry.meaning is None:
                continue
            self.meanings[uid] = entry.meaning
            if entry.place is PodStage.PLACED:
                self.running[uid] = Running(entry.node)
                self._ends_at(uid, leaves_at_us(entry))
                self._finishes(uid, entry.meaning, started_at_us(entry.object))

    def _ends_at(self, uid: PodUid, end_us: int | None) -> None:
        if end_us is not None:
            self.player.later(max(end_us, self.now_us), uid)

    def _finishes(self, uid: PodUid, pod: Pod, started_at_us: int | None) -> None:
        """A pod that says how long it runs ends then; the end of one that runs longer is unknown."""
        if pod.run_time_us is not None:
            end_us = (self.player.at_us if started_at_us is None else started_at_us) + pod.run_time_us
            self._ends_at(uid, end_us if end_us > self.now_us else None)

    def started(self, bind: Bind) -> Iterable[Event]:
        """A pod runs where it was bound."""
        pod, at_us = self.meanings[bind.uid], self.player.at_us
        self.running[bind.uid] = Running(bind.node, at_us)
        self._finishes(bind.uid, pod, at_us)
        return (PodBound(pod, bind.node, bind.devices, at_us),)

    def other_instruction(self, said: AnyInstruction) -> None:
        """The answer says what the engine refused to take in."""
        if isinstance(said, Rejected):
            self.rejected.append(f"{said.subject}: {said.problem}")

    def evicted(self, evict: Evict) -> Iterable[Event]:
        """A pod has ended; its controller, if it has one, makes another in its place."""
        uid, at_us = evict.uid, self.player.at_us
        pod = self.meanings[uid]
        self.running.pop(uid, None)
        origin = before_evictions(uid)
        entry = self.facts.pods.entries.get(origin)
        again = None
        events: list[Event] = [PodRemoved(uid)]
        if entry is not None and entry.object.metadata.controller is not None:
            again = PodUid(f"{origin}~{len(self.evictions) + 1}")
            self.meanings[again] = msgspec.structs.replace(pod, uid=again, created_at_us=at_us, leaving=False)
            events.append(PodAdded(self.meanings[again]))
        self.evictions[uid] = Eviction(at_us, str(evict.beneficiary or ""), evict.reason, again)
        return events

    def _let_time_pass(self) -> None:
        """Go from one due moment to the next, until nothing is due within ``horizon_us``."""
        for _ in range(MOMENTS_MAX):
            due_us = self.player.next_due_us()
            if due_us is None or due_us > self.now_us + self.horizon_us:
                return
            self.player.go_on()
        self.cut = True

    def due(self, uids: Sequence[PodUid]) -> Iterable[Event]:
        """The time of these pods is over; those that were evicted meanwhile are gone already."""
        events: list[Event] = []
        for uid in uids:
            running = self.running.pop(uid, None)
            if running is None:
                continue
            if self._is_deleted(uid):
                del self.meanings[uid]
            else:
                self.finished[uid] = running
            events.append(PodRemoved(uid))
        return events

    def _is_deleted(self, uid: PodUid) -> bool:
        entry = self.facts.pods.entries.get(uid)
        return entry is not None and leaves_at_us(entry) is not None

    def state(self, uid: PodUid) -> State:
        """How a pod of the picture ends up."""
        if uid in self.evictions:
            return State.EVICTED
        running = self.place(uid)
        if running is not None:
            return State.RUNS if running.since_us is None else State.STARTS
        entry = self.facts.pods.entries.get(uid)
        waits = uid in self.meanings or (entry is not None and entry.place in {PodStage.HELD, PodStage.GATED})
        return State.WAITS if waits else State.ABSENT

    def place(self, uid: PodUid) -> Running | None:
        """Where a pod runs, or ran until it was done."""
        return self.running.get(uid) or self.finished.get(uid)

    def start_of(self, uid: PodUid | None) -> Running | None:
        """Where and when a pod started after the picture; None if it did not."""
        running = None if uid is None else self.place(uid)
        return None if running is None or running.since_us is None else running

    def waiting(self) -> list[PodUid]:
        """All pods that wait in the end, those held back before the engine hears of them too."""
        elsewhere = (self.running, self.finished, self.evictions)
        known = [uid for uid in self.meanings if not any(uid in one for one in elsewhere)]
        aside = (PodStage.HELD, PodStage.GATED)
        return known + [uid for uid, one in self.facts.pods.entries.items() if one.place in aside]

    def why(self, uid: PodUid) -> str:
        """Why a pod waits in the end; "" where nothing stands in its way."""
        pod = self.meanings.get(uid)
        if pod is None:
            entry = self.facts.pods.entries.get(uid)
            if entry is None:
                return ""
            return "its scheduling gates must be opened" if entry.held is None else entry.held.message
        if pod.gang is not None:
            said = self.engine.explain_gang(GangName(pod.gang))
            problem = self.facts.gangs.problem(pod.gang)
            return problem or ("" if said is None else words_for_gang(said, pod.shape))
        verdict = self.engine.explain(uid)
        return "" if verdict is None else words_for_pod(verdict, pod.shape)


def before_evictions(uid: PodUid) -> PodUid:
    """The UID in the picture of a pod that was made anew: "uid~2" came with the second eviction."""
    return PodUid(uid.partition("~")[0])


def leaves_at_us(entry: Entry) -> int | None:
    """When a placed pod that is being deleted will be gone; None for one that stays."""
    deleted = entry.object.metadata.deletion_timestamp
    if deleted is None:
        return None
    try:
        return microseconds(deleted)
    except InputError:
        return None
