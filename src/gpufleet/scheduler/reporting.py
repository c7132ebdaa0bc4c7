"""Telling people: conditions and Events of pods, written beside the decisions and never in their way.

A condition holds the newest word on a pod, so only the newest is kept; an Event is written when the
word changed. Binds come first: while many are under way a single report is written at a time. What
is kept is bounded; what is dropped is counted.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable

import msgspec

from gpufleet.kube.client import Client, PatchType
from gpufleet.kube.errors import KubeError
from gpufleet.kube.resources import EVENTS, PODS
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.model.identifiers import PodUid
from gpufleet.scheduler.metrics import Metrics
from gpufleet.scheduler.wire_text import Condition, EventText, PodName, condition_patch, event

LOG = logging.getLogger(__name__)
EVENTS_KEPT_MAX = 50_000
CONDITIONS_KEPT_MAX = 200_000
EVENT_PAUSE_S = 30.0
"""The least time between two Events about why one pod waits."""


class _Said(msgspec.Struct):
    """What was last said about a pod."""

    message: str
    event_at_s: float


class Reporter:
    """Collects what there is to say and writes it. ``binds_under_way`` tells how busy the binder is."""

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        *,
        instance: str,
        at_once: int,
        binds_under_way: Callable[[], int],
    ) -> None:
        self.client = client
        self.metrics = metrics
        self.instance = instance
        self.at_once = at_once
        self.binds_under_way = binds_under_way
        self._events: deque[tuple[PodName, EventText]] = deque()
        self._conditions: OrderedDict[PodUid, tuple[PodName, Condition]] = OrderedDict()
        self._said: dict[PodUid, _Said] = {}
        self._numbers = 0
        self._bell = asyncio.Event()

    @property
    def backlog(self) -> int:
        """Reports not written yet."""
        return len(self._events) + len(self._conditions)

    def bound(self, pod: PodName, note: str) -> None:
        """A pod got its place."""
        self.forget(pod.uid)
        self._event(pod, EventText("Normal", "Scheduled", "Binding", note))

    def waits(self, pod: PodName, reason: str, message: str) -> None:
        """A pod waits, and why, in the condition that people and autoscalers look at."""
        said = self._said.get(pod.uid)
        if said is not None and said.message == message:
            return
        now_s = self.client.clock.monotonic_s()
        since = None if said is not None else self.client.clock.now()
        self._condition(pod, Condition("PodScheduled", "False", reason, message, since))
        event_at_s = now_s
        if said is None or now_s - said.event_at_s >= EVENT_PAUSE_S:
            self._event(pod, EventText("Warning", "FailedScheduling", "Scheduling", message))
        else:
            event_at_s = said.event_at_s
        self._said[pod.uid] = _Said(message, event_at_s)

    def warns(self, pod: PodName, reason: str, note: str) -> None:
        """Something else that the owner of a pod should know."""
        self._event(pod, EventText("Warning", reason, "Scheduling", note))

    def forget(self, uid: PodUid) -> None:
        """Nothing more is to be said about why this pod waits."""
        self._said.pop(uid, None)
        self._conditions.pop(uid, None)

    def _event(self, pod: PodName, said: EventText) -> None:
        if len(self._events) >= EVENTS_KEPT_MAX:
            self._events.popleft()
            self.metrics.reports_dropped.inc()
        self._events.append((pod, said))
        self._bell.set()

    def _condition(self, pod: PodName, condition: Condition) -> None:
        self._conditions.pop(pod.uid, None)
        if len(self._conditions) >= CONDITIONS_KEPT_MAX:
            self._conditions.popitem(last=False)
            self.metrics.reports_dropped.inc()
        self._conditions[pod.uid] = (pod, condition)
        self._bell.set()

    async def run(self) -> None:
        """Write reports until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.at_once):
                group.create_task(self._work(number))

    async def _work(self, number: int) -> None:
        while True:
            if number and self.binds_under_way():
                await self.client.clock.sleep(0.05)
            elif self._conditions:
                _, (pod, condition) = self._conditions.popitem(last=False)
                await self._guarded(pod, self._write_condition(pod, condition))
            elif self._events:
                pod, said = self._events.popleft()
                await self._guarded(pod, self._write_event(pod, said))
            else:
                self._bell.clear()
                await self._bell.wait()

    async def _guarded(self, pod: PodName, write: Awaitable[None]) -> None:
        try:
            await write
        except (NotFound, Conflict):
            return  # the pod, or its namespace, has gone: nobody is left to be told
        except KubeError as problem:
            self.metrics.reports_dropped.inc()
            LOG.warning("a report was not written", extra={"pod": str(pod), "problem": str(problem)})

    async def _write_condition(self, pod: PodName, condition: Condition) -> None:
        await self.client.patch(
            PODS,
            pod.name,
            condition_patch(pod, condition),
            namespace=pod.namespace,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )

    async def _write_event(self, pod: PodName, said: EventText) -> None:
        self._numbers += 1
        moment = self.client.clock.now()
        # Names must not repeat, in this life of the process or the next.
        name = f"{pod.name[:200]}.{int(moment.timestamp() * 1e6):x}.{self._numbers:x}"
        await self.client.create(
            EVENTS, event(pod, said, self.instance, name, moment), name=name, namespace=pod.namespace
        )
