"""Telling people: conditions and Events of pods, written beside the decisions and never in their way.

A condition holds the newest word on a pod, so only the newest is kept; an Event is written when the
word changed. Bindings and evictions come first: while any are under way one condition is written at a time
and Events wait for a while, so that a large reclaim does not wait for words about it. So does the condition
of a pod that says nothing yet and for which a place is kept: most such pods have their place before. Why a
pod waits is told by no Event any more once the pod has its place. What is kept is bounded; what is dropped
is counted, and told anew by ``refreshing``.

A condition is written on top of the version of the pod that we know, so that one that arrives after
the pod was bound is refused by the server instead of saying that the pod waits. With it goes the node that
is kept for the pod (``status.nominatedNodeName``), which other schedulers and autoscalers look at.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import msgspec

from gpufleet.cluster.waiting_reasons import UNSCHEDULABLE
from gpufleet.cluster.watching.mirrors import NO_NODE, WaitingPod
from gpufleet.engine.explanations.causes import NOMINATED
from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects.pod import POD_SCHEDULED
from gpufleet.kube.resources import EVENTS, PODS
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.conditions_and_events import EventText, WrittenCondition, condition_patch, event
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.waiting_metrics import ReportedCause

LOG = logging.getLogger(__name__)
# Reports wait here while the server is slow; beyond so many they are dropped and counted.
EVENTS_KEPT_MAX = 50_000
CONDITIONS_KEPT_MAX = 200_000
EVENT_PAUSE_S = 30.0
"""The least time between two Events about why one pod waits."""

EVENT_WAIT_S = 30.0
"""How long Events, and conditions of pods with a kept place that say nothing yet, wait while Bindings and
evictions are under way; after that they come one at a time."""

QUIET_S = 0.5
"""So long nothing was under way before such words are written: between two batches of a large reclaim there
is often nothing for a moment, as there is before the first eviction for a place that is kept."""

CAUSE_PAUSE_S = 5.0
"""The least time between two of which the second has another cause: what no longer holds is read as true."""

CATCH_UP_S = (0.1, 0.2, 0.4, 0.8, 1.6)
"""Where the pod is newer than we know: how long we wait for the news before each further try."""


class _UnwrittenEvent(NamedTuple):
    """An Event to be written; ``of_waiting`` if it says why its pod waits."""

    pod: PodName
    text: EventText
    made_s: float
    of_waiting: bool


class _Condition(NamedTuple):
    """The newest words about a pod, to be written into its condition; ``made_s`` is when they were first."""

    pod: PodName
    reason: str
    message: str
    made_s: float


class _Said(msgspec.Struct):
    """What was last said about a pod, nothing where that did not arrive; ``by_us`` once we wrote it.

    ``event_cause`` is the cause that its last Event told, ``now`` the cause as of now.
    """

    message: str
    event_at_s: float
    by_us: bool = False
    event_cause: str = ""
    now: ReportedCause = ReportedCause("")


class Reporter:
    """Collects what there is to say and writes it.

    ``writes_under_way`` counts Bindings and evictions that are not answered yet; ``waiting_pod`` tells how a
    pod stands now, None for one that waits no more.
    """

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        *,
        instance: str,
        at_once: int,
        writes_under_way: Callable[[], int],
        waiting_pod: Callable[[PodName], WaitingPod | None],
    ) -> None:
        self.client = client
        self.metrics = metrics
        self.instance = instance
        self.at_once = at_once
        self.writes_under_way = writes_under_way
        self.waiting_pod = waiting_pod
        self._events: deque[_UnwrittenEvent] = deque()
        self._conditions: OrderedDict[PodUid, _Condition] = OrderedDict()
        self._first_words: OrderedDict[PodUid, _Condition] = OrderedDict()
        self._said: dict[PodUid, _Said] = {}
        self._nominated: dict[PodUid, NodeName] = {}
        self._numbers = 0
        self._under_way_at_s = -QUIET_S
        self._wake = asyncio.Event()

    @property
    def backlog(self) -> int:
        """Reports not written yet."""
        return len(self._events) + len(self._conditions) + len(self._first_words)

    def reported_causes(self) -> Iterator[tuple[PodUid, ReportedCause]]:
        """Of each pod that waits and was told why, the cause as of now."""
        return ((uid, said.now) for uid, said in self._said.items())

    def bound(self, pod: PodName, note: str) -> None:
        """A pod got its place."""
        self.forget(pod.uid)
        self._event(pod, EventText("Normal", "Scheduled", "Binding", note))

    def waits(self, pod: PodName, reason: str, message: str, cause: str, *, never_fits: bool = False) -> None:
        """A pod waits, and why, in the condition that people and autoscalers look at.

        ``never_fits``: it starts only after something about it, its queue or the nodes is changed.
        """
        self._waits(pod, reason, _failed(message), cause)
        self._said[pod.uid].now = ReportedCause(cause, never_fits)

    def nominated(self, pod: PodName, node: NodeName, message: str) -> None:
        """A node is kept for a pod until others have left."""
        self._nominated[pod.uid] = node
        self.metrics.nominations.inc()
        self._waits(pod, UNSCHEDULABLE, EventText("Normal", "Nominated", "Preempting", message), NOMINATED)
        self._said[pod.uid].now = ReportedCause(NOMINATED)

    def not_nominated(self, pod: PodName, message: str) -> None:
        """No node is kept for a pod any more."""
        self._nominated.pop(pod.uid, None)
        self._waits(pod, UNSCHEDULABLE, EventText("Normal", "NominationEnded", "Preempting", message), "")
        self._said[pod.uid].now = ReportedCause("")

    def _waits(self, pod: PodName, reason: str, text: EventText, cause: str) -> None:
        message = text.note
        said = self._said.get(pod.uid)
        # Words that were told already are no news, however often the engine says them.
        if said is not None and said.message == message:
            return
        self._condition(pod, reason, message, has_time=cause == NOMINATED and self._says_nothing(pod))
        now_s = self.client.clock.monotonic_s()
        if said is None or now_s - said.event_at_s >= _pause_s(said, cause):
            self._event(pod, text, of_waiting=True)
            self._said[pod.uid] = _Said(message, now_s, said is not None and said.by_us, cause)
        else:
            said.message = message

    def still_waits(
        self, pod: PodName, reason: str, message: str, cause: str, *, never_fits: bool = False
    ) -> bool:
        """A pod waits as before: True if the words in its condition have changed.

        Makes an Event only where the last one told another cause.
        """
        now_s = self.client.clock.monotonic_s()
        # Without words, so that the condition is written at least once by this process.
        said = self._said.setdefault(pod.uid, _Said("", now_s, event_cause=cause))
        said.now = ReportedCause(cause, never_fits)
        if said.event_cause != cause and now_s - said.event_at_s >= CAUSE_PAUSE_S:
            self._event(pod, _failed(message), of_waiting=True)
            said.event_at_s, said.event_cause = now_s, cause
        if said.message == message and not self._was_overwritten(pod, reason, message):
            return False
        said.message = message
        self._condition(pod, reason, message)
        return True

    def _was_overwritten(self, pod: PodName, reason: str, message: str) -> bool:
        """True if the condition says other words, or shows another reason, than what is to be said."""
        waiting_pod = self.waiting_pod(pod)
        if waiting_pod is None or not waiting_pod.readable or self._is_unwritten(pod.uid):
            return False
        found = waiting_pod.condition
        return found is None or (found.reason, found.message) != (reason, message)

    def warns(self, pod: PodName, reason: str, note: str) -> None:
        """Something else that the owner of a pod should know."""
        self._event(pod, EventText("Warning", reason, "Scheduling", note))

    def evicted(self, pod: PodName, reason: str, note: str) -> None:
        """A pod was told to end; ``note`` says for which pod or gang, and why."""
        self._event(pod, EventText("Normal", reason, "Preempting", note))

    def withdraw(self, uid: PodUid) -> None:
        """The pod has a place now: what is not written yet about its waiting stays unsaid."""
        self._nominated.pop(uid, None)
        if self._is_unwritten(uid):
            self._take_back(uid)
            self._forget_words(uid)

    def forget(self, uid: PodUid) -> None:
        """Nothing more is to be said about why this pod waits."""
        self._said.pop(uid, None)
        self._nominated.pop(uid, None)
        self._take_back(uid)

    def forget_others(self, waiting: Callable[[PodUid], bool]) -> None:
        """Forget what was said about pods that wait no more."""
        for uid in [uid for uid in {**self._said, **self._nominated} if not waiting(uid)]:
            self.forget(uid)

    def _forget_words(self, uid: PodUid) -> None:
        """What was said last did not arrive; the same words are news again."""
        said = self._said.get(uid)
        if said is not None:
            said.message = ""

    def _event(self, pod: PodName, said: EventText, *, of_waiting: bool = False) -> None:
        if len(self._events) >= EVENTS_KEPT_MAX:
            # The oldest is dropped: it tells least of how things are.
            self._events.popleft()
            self.metrics.reports_dropped.inc()
        self._events.append(_UnwrittenEvent(pod, said, self.client.clock.monotonic_s(), of_waiting))
        self._wake.set()

    def _is_unwritten(self, uid: PodUid) -> bool:
        return uid in self._conditions or uid in self._first_words

    def _says_nothing(self, pod: PodName) -> bool:
        """True for a pod that was told nothing yet, so that nothing about it has to be corrected."""
        if pod.uid in self._first_words:
            return True
        waiting_pod = self.waiting_pod(pod)
        return pod.uid not in self._said and waiting_pod is not None and waiting_pod.condition is None

    def _take_back(self, uid: PodUid) -> _Condition | None:
        """What is not written yet about a pod is not to be written any more."""
        return self._conditions.pop(uid, None) or self._first_words.pop(uid, None)

    def _condition(self, pod: PodName, reason: str, message: str, *, has_time: bool = False) -> None:
        """Have the newest words written; ``has_time``: after Bindings and evictions that are under way."""
        # So that the newest words stand at the end of the line and are not overtaken by older ones.
        before = self._take_back(pod.uid)
        line = self._first_words if has_time else self._conditions
        if len(line) >= CONDITIONS_KEPT_MAX:
            dropped, _ = line.popitem(last=False)
            self._forget_words(dropped)
            self.metrics.reports_dropped.inc()
        # Words that replace others have waited as long as these.
        made_s = self.client.clock.monotonic_s() if before is None else before.made_s
        line[pod.uid] = _Condition(pod, reason, message, made_s)
        self._wake.set()

    def _next_condition(self) -> _Condition | None:
        """The condition to be written now, None if there is none, or none that does not have to wait."""
        if self._conditions:
            return self._conditions.popitem(last=False)[1]
        for uid, first in self._first_words.items():
            has_to_wait = self._has_to_wait(first.made_s) or self._age_s(first.made_s) < QUIET_S
            return None if has_to_wait else self._first_words.pop(uid)
        return None

    async def run(self) -> None:
        """Write reports until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.at_once):
                group.create_task(self._work(number))

    async def _work(self, number: int) -> None:
        while True:
            # All workers but the first stand back: Bindings and evictions have the connections and the server
            # first.
            if number and self.writes_under_way():
                await self.client.clock.sleep(0.05)
            elif (found := self._next_condition()) is not None:
                if not await self._guarded(
                    found.pod, self._write_condition(found.pod, found.reason, found.message)
                ):
                    self._forget_words(found.pod.uid)
            elif self._events and not self._has_to_wait(self._events[0].made_s):
                unwritten = self._events.popleft()
                # Of a pod that was bound meanwhile nothing is known any more here.
                if not unwritten.of_waiting or unwritten.pod.uid in self._said:
                    await self._guarded(unwritten.pod, self._write_event(unwritten.pod, unwritten.text))
            elif self._events or self._first_words:
                await self.client.clock.sleep(0.05)
            else:
                self._wake.clear()
                await self._wake.wait()

    def _has_to_wait(self, made_s: float) -> bool:
        """True while Bindings and evictions go before words of that time."""
        if self.writes_under_way():
            self._under_way_at_s = self.client.clock.monotonic_s()
        return self._age_s(made_s) < EVENT_WAIT_S and self._age_s(self._under_way_at_s) < QUIET_S

    def _age_s(self, moment_s: float) -> float:
        return self.client.clock.monotonic_s() - moment_s

    async def _guarded(self, pod: PodName, write: Awaitable[None]) -> bool:
        """Whether a report was written, or its object is gone."""
        try:
            await write
        except NotFound:
            return True
        except KubeError as problem:
            self.metrics.reports_dropped.inc()
            LOG.warning("a report was not written", extra={"pod": str(pod), "problem": str(problem)})
            return False
        return True

    async def _write_condition(self, pod: PodName, reason: str, message: str) -> None:
        """Write the condition while the pod waits and nothing newer is to be said of it.

        Raises Conflict where the pod goes on being newer than we know.
        """
        for pause_s in (*CATCH_UP_S, None):
            waiting_pod, said = self.waiting_pod(pod), self._said.get(pod.uid)
            if waiting_pod is None or said is None or said.message != message:
                return
            known, node = waiting_pod.condition, self._nominated.get(pod.uid, NO_NODE)
            same_node = waiting_pod.nominated == node
            same_words = known is not None and (known.reason, known.message) == (reason, message)
            # After a write of ours the words that we know may be older than it, so they prove nothing.
            if same_words and same_node and not said.by_us:
                return
            # The time of a transition moves with the status alone, and that is False already.
            since = None if known is not None else self.client.clock.now()
            condition = WrittenCondition(POD_SCHEDULED, "False", reason, message, since)
            # Before the answer, because a write whose answer is lost may have arrived.
            said.by_us = True
            try:
                await self.client.patch(
                    PODS,
                    pod.name,
                    condition_patch(pod, condition, waiting_pod.version, None if same_node else node),
                    namespace=pod.namespace,
                    patch_type=PatchType.STRATEGIC,
                    subresource="status",
                )
            except Conflict:
                if pause_s is None:
                    raise
                await self.client.clock.sleep(pause_s)
            else:
                return

    async def _write_event(self, pod: PodName, said: EventText) -> None:
        self._numbers += 1
        moment = self.client.clock.now()
        # Names must not repeat, in this life of the process or the next.
        name = f"{pod.name[:200]}.{int(moment.timestamp() * 1e6):x}.{self._numbers:x}"
        await self.client.create(
            EVENTS, event(pod, said, self.instance, name, moment), name=name, namespace=pod.namespace
        )


def _failed(message: str) -> EventText:
    return EventText("Warning", "FailedScheduling", "Scheduling", message)


def _pause_s(said: _Said, cause: str) -> float:
    """How long after the last Event the next one may come."""
    return EVENT_PAUSE_S if said.event_cause == cause else CAUSE_PAUSE_S
