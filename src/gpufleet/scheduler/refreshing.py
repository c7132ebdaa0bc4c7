"""Keeping true what waiting pods were told: the answer changes while nothing happens to the pod.

The engine says once why a pod waits. Since then nodes came, GPUs were freed and taken, members of the gang
arrived. So all waiting pods are gone through again and again, a few at a time and only while nothing more
urgent is to be done, and a pod with another answer than before is told. Pods of one shape share one answer,
so what is bounded is the number of answers made and of conditions written in each turn. What a server would
not take when it was first said is said again in the same way.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator

import msgspec

from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.pods.pod_tracker import PodTracker
from gpufleet.cluster.verdict_words import GANG_MALFORMED, words_for_gang, words_for_pod
from gpufleet.cluster.waiting_reasons import waiting_reason
from gpufleet.engine.explanations.causes import cause_of, cause_of_gang, never_fits
from gpufleet.engine.instruction import GangUnschedulable
from gpufleet.engine.scheduler import Engine
from gpufleet.kube.clock import Clock
from gpufleet.model.identifiers import GangName, PodUid
from gpufleet.model.pod import Pod
from gpufleet.model.relations import Relations
from gpufleet.model.shape import Shape
from gpufleet.scheduler.reporting import Reporter
from gpufleet.scheduler.shown_reasons import Shown

# Each turn is bounded, so that it delays no decision for long; a large queue takes many turns.
TURN_EVERY_S = 10.0
SOON_S = 0.5
"""While something more urgent is under way, it is asked again after so long."""

PODS_A_TURN = 2_000
ANSWERS_A_TURN = 16
WRITES_A_TURN = 50
MEMBERS_AN_ANSWER = 64
"""How many members of a gang cost about as much to try as one answer for a pod."""


class FreshVerdict(msgspec.Struct, frozen=True):
    """What there is to say of a pod: no words where nothing stands in its way."""

    words: str = ""
    cause: str = ""
    never_fits: bool = False


NOTHING = FreshVerdict()


class Refreshing:
    """Goes round the waiting pods. ``busy`` tells whether something more urgent is under way."""

    def __init__(
        self,
        engine: Engine,
        pods: PodTracker,
        reporter: Reporter,
        clock: Clock,
        busy: Callable[[], bool],
        shown: Shown,
    ) -> None:
        self.engine = engine
        self.pods = pods
        self.reporter = reporter
        self.clock = clock
        self.busy = busy
        self.shown = shown
        self._round: Iterator[PodUid] = iter(())
        self._first: dict[PodUid, None] = {}
        self._wake = asyncio.Event()

    def soon(self, uids: Iterable[PodUid]) -> None:
        """Have these pods gone through before others, and before the next turn is due."""
        self._first.update(dict.fromkeys(uids))
        if self._first:
            self._wake.set()

    async def run(self) -> None:
        """Take turns until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TURN_EVERY_S):
                    await self._wake.wait()
            self._wake.clear()
            while self._first and self.busy():
                await self.clock.sleep(SOON_S)
            if not self.busy():
                self.turn()

    def turn(self) -> None:
        """Look at some of the waiting pods, from where the last turn ended."""
        answers = _Answers(self.engine)
        written = 0
        for _ in range(PODS_A_TURN):
            # The round goes on with the next pod in the next turn.
            if written >= WRITES_A_TURN or answers.made >= ANSWERS_A_TURN:
                return
            uid = next(iter(self._first), None) or next(self._round, None)
            if uid is None:
                self._begin()
                return
            self._first.pop(uid, None)
            entry = self.pods.entries.get(uid)
            if entry is not None:
                written += self._tell(entry, answers)

    def _begin(self) -> None:
        """Start a round, with the pods that wait now."""
        entries = self.pods.entries
        self.reporter.forget_others(lambda uid: uid in entries)
        waiting = [uid for uid, entry in entries.items() if entry.place in {PodStage.WAITING, PodStage.HELD}]
        self._round = iter(waiting)

    def _tell(self, entry: Entry, answers: "_Answers") -> bool:
        if entry.held is not None:
            held = entry.held
            return self.reporter.still_waits(entry.name, held.reason, held.message, held.reason)
        if entry.place is not PodStage.WAITING or entry.intent is not None or entry.meaning is None:
            return False
        gang = entry.meaning.gang
        if gang is None:
            answer = answers.of_pod(entry.meaning)
        else:
            problem, size = self.pods.gangs.problem(gang), self.pods.gangs.size(gang)
            answer = FreshVerdict(problem, GANG_MALFORMED, never_fits=True)
            if not problem:
                answer = answers.of_gang(gang, size, entry.meaning.shape)
        if not answer.words:
            return False
        reason = waiting_reason(answer.cause, never_fits=answer.never_fits)
        shown, note = self.shown(reason, entry)
        return self.reporter.still_waits(
            entry.name, shown, answer.words + note, answer.cause, never_fits=answer.never_fits
        )


class _Answers:
    """Why pods and gangs wait as of now, in words and by cause, each asked once."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.made = 0
        self._asked: set[tuple[Shape, object]] = set()
        self._gangs: dict[GangName, GangUnschedulable | None] = {}

    def of_pod(self, pod: Pod) -> FreshVerdict:
        """The words for a pod that stands alone."""
        # What neighbours make of a pod depends on its labels too.
        labels = pod.labels if pod.shape.relations != Relations() else None
        if (pod.shape, labels) not in self._asked:
            self._asked.add((pod.shape, labels))
            # Only the first pod of a shape costs a look at the fleet; the engine remembers the answer.
            self.made += 1
        verdict = self.engine.explain(pod.uid)
        if verdict is None:
            return NOTHING
        by_queue = verdict.bar is not None or verdict.quota is not None
        # A node without a reason against it: the engine places the pod there soon, and no words are due.
        if not by_queue and sum(verdict.first_reasons.values()) < verdict.nodes:
            return NOTHING
        return FreshVerdict(words_for_pod(verdict, pod.shape), cause_of(verdict), never_fits(verdict))

    def of_gang(self, gang: GangName, size: int, shape: Shape) -> FreshVerdict:
        """The words for a member of a gang of this many waiting members."""
        if gang not in self._gangs:
            self._gangs[gang] = self.engine.explain_gang(gang)
            self.made += 1 + size // MEMBERS_AN_ANSWER
        said = self._gangs[gang]
        if said is None:
            return NOTHING
        never = said.verdict is not None and never_fits(said.verdict)
        return FreshVerdict(words_for_gang(said, shape), cause_of_gang(said), never)
