"""What is measured of work that waits: since when, for which cause, and what can never start as it is.

A wait that grows is a matter of age, not of number, so each queue and cause has the age of its oldest pod.
``status`` looks every few seconds (``look`` puts together what the other parts know), and the endpoint serves
what was seen last. A scheduler that does not lead knows none of it, so all series are absent then.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gpufleet.cluster.engine_events import EngineEvents
from gpufleet.cluster.engine_time import US_PER_S
from gpufleet.cluster.pods.gang_tracker import GangRecord, HalfBound
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.engine.instruction import Reservation
from gpufleet.kube.codec.times import microseconds
from gpufleet.model.identifiers import GangName, NodeName, PodUid
from gpufleet.model.model_errors import InputError
from gpufleet.scheduler.bounded_labels import BoundedLabels

PREFIX = "gpufleet_scheduler"

REPORTS_MAX = 20_000
"""Twice as many nodes as a fleet is designed for have a series each."""

LabelValues = TypeVar("LabelValues", bound=tuple[str, ...])
WHOLE, PARTIAL, WAITING = "whole", "partial", "waiting"


class WaitingPod(msgspec.Struct, frozen=True):
    """A pod that waits: since when (seconds since 1970), and what it was told last.

    ``never_fits``: it starts only after the pod, the queue or the nodes are changed.
    """

    queue: str
    cause: str
    since_s: float
    never_fits: bool = False


class GangState(msgspec.Struct, frozen=True):
    """A gang of a queue; ``partial_since_s`` is since when fewer members run than it needs."""

    queue: str
    state: str
    partial_since_s: float | None = None


class WaitingFigures(msgspec.Struct, frozen=True):
    """All that is shown, at one moment (``at_s``, seconds since 1970)."""

    at_s: float
    pods: tuple[WaitingPod, ...] = ()
    gangs: tuple[GangState, ...] = ()
    overdue_s: tuple[tuple[str, float], ...] = ()
    reporting: tuple[NodeName, ...] = ()


class ReportedCause(msgspec.Struct, frozen=True):
    """What a pod was told last of why it waits."""

    cause: str
    never_fits: bool = False


class WaitingMetrics(Collector):
    """Tells Prometheus of work that waits."""

    def __init__(self, registry: CollectorRegistry, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        # Figures and their moment are replaced together: the endpoint's thread reads both.
        self._updated: tuple[WaitingFigures | None, float] = (None, now_s())
        self._queues = BoundedLabels()
        registry.register(self)

    def update(self, figures: WaitingFigures | None) -> None:
        """The figures as of now; None where this process knows of none."""
        self._updated = (figures, self._now_s())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Asked from the endpoint's thread: what is looked at is never changed, only replaced."""
        figures, updated_s = self._updated
        if figures is None:
            return
        age_s = max(0.0, self._now_s() - updated_s)
        yield _family(
            "waiting_figures_age_seconds", "Time since work that waits was looked at", (), {(): age_s}
        )
        oldest: dict[tuple[str, str], float] = defaultdict(float)
        never: Counter[tuple[str, str]] = Counter()
        for pod in figures.pods:
            key = (self._queues.of(pod.queue), pod.cause)
            # Several queues may share the label that stands for all beyond the bound.
            oldest[key] = max(oldest[key], figures.at_s - pod.since_s)
            never[key] += pod.never_fits
        gangs, partial = self._gangs(figures)
        yield _family(
            "oldest_wait_seconds", "Age of the pod that waits longest, by cause", ("queue", "cause"), oldest
        )
        yield _family(
            "never_fits_pods",
            "Pods that start only after the pod, its queue or the nodes are changed",
            ("queue", "cause"),
            {key: count for key, count in never.items() if count},
        )
        yield _family("gangs", "Gangs by how many of their members run", ("queue", "state"), gangs)
        yield _family(
            "partial_gang_seconds", "For how long the oldest gang has run in part", ("queue",), partial
        )
        overdue: dict[tuple[str, ...], float] = defaultdict(float)
        for queue, seconds in figures.overdue_s:
            key_of_queue = (self._queues.of(queue),)
            overdue[key_of_queue] = max(overdue[key_of_queue], seconds)
        yield _family(
            "reservation_overdue_seconds",
            "By how much the start that a reservation expected has passed, the worst of each queue",
            ("queue",),
            overdue,
        )
        reports = {(str(node),): 1.0 for node in figures.reporting[:REPORTS_MAX]}
        yield _family("node_report", "1 for a node whose agent reports its GPUs", ("node",), reports)

    def _gangs(
        self, figures: WaitingFigures
    ) -> tuple[dict[tuple[str, str], float], dict[tuple[str, ...], float]]:
        """How many gangs are in each state, and how old the oldest one is that runs in part."""
        counts: dict[tuple[str, str], float] = {}
        ages: dict[tuple[str, ...], float] = {}
        for gang in figures.gangs:
            queue = self._queues.of(gang.queue)
            # A state that a queue's gangs can have stands at 0 before the first gang has it.
            for state in (WHOLE, PARTIAL, WAITING):
                counts.setdefault((queue, state), 0)
            counts[queue, gang.state] += 1
            if gang.partial_since_s is not None:
                age_s = max(0.0, figures.at_s - gang.partial_since_s)
                ages[queue,] = max(ages.get((queue,), 0.0), age_s)
        return counts, ages


class WaitingCount:
    """Puts the figures together.

    Remembers since when a gang runs in part where the API does not say it, and the first start that each
    reservation expected: an end that has passed is expected no more, so the engine then knows of no start.
    """

    def __init__(self, engine_events: EngineEvents) -> None:
        self._engine_events = engine_events
        self._partial_since_s: dict[GangName, float] = {}
        self._expected_s: dict[tuple[PodUid | GangName, int], float] = {}

    def look(
        self, causes: Iterable[tuple[PodUid, ReportedCause]], reservations: Iterable[Reservation], at_s: float
    ) -> WaitingFigures:
        """Everything as of now. Costs a look at each pod that waits, each gang and each node."""
        pods, gangs = self._engine_events.pods, self._engine_events.gangs
        found = (
            self._pod(entry, said)
            for uid, said in causes
            if (entry := pods.entries.get(uid)) is not None
            and entry.place in (PodStage.WAITING, PodStage.HELD)
        )
        half = {one.gang: one for one in gangs.half_bound()}
        self._partial_since_s = {
            name: since_s for name, since_s in self._partial_since_s.items() if name in half
        }
        return WaitingFigures(
            at_s,
            tuple(pod for pod in found if pod is not None),
            tuple(
                self._gang(record, half.get(name), at_s)
                for name, record in gangs.records.items()
                if record.pods and record.meant is not None
            ),
            tuple(self._overdue(tuple(reservations), at_s)),
            tuple(self._engine_events.nodes.reporting()),
        )

    def _overdue(self, reservations: Sequence[Reservation], at_s: float) -> Iterator[tuple[str, float]]:
        """By how much the first expected starts have passed, with their queues."""
        before, self._expected_s = self._expected_s, {}
        for one in reservations:
            key = one.holder, one.since_us
            expected_s = before.get(key, None if one.start_us is None else one.start_us / US_PER_S)
            if expected_s is None:
                continue
            self._expected_s[key] = expected_s
            if at_s > expected_s:
                yield str(one.queue), at_s - expected_s

    def _pod(self, entry: Entry, said: ReportedCause) -> WaitingPod | None:
        try:
            created_us = microseconds(entry.object.metadata.creation_timestamp)
        except InputError:
            # The pod is held for that, and its owner is told; since when it waits is not known.
            return None
        if not created_us or not said.cause:
            return None
        queue = ""
        if entry.meaning is not None:
            gang = entry.meaning.gang
            record = None if gang is None else self._engine_events.gangs.records.get(gang)
            meant = None if record is None else record.meant
            queue = str(entry.meaning.queue if meant is None else meant.queue)
        return WaitingPod(queue, said.cause, created_us / US_PER_S, said.never_fits)

    def _gang(self, record: GangRecord, half: HalfBound | None, at_s: float) -> GangState:
        queue = "" if record.meant is None else str(record.meant.queue)
        if half is not None:
            since_s = self._partial_since_s.setdefault(half.gang, at_s)
            if half.since is not None:
                # What the API says outlives this process and goes before what was seen here.
                since_s = half.since.timestamp()
            return GangState(queue, PARTIAL, since_s)
        placed = any(entry.place is PodStage.PLACED for entry in record.pods.values())
        return GangState(queue, WHOLE if placed else WAITING)


def _family(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[LabelValues, float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family
