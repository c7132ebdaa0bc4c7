"""What is measured of policies, rollouts, parking and projects, for the operator's own page of metrics.

A round puts the figures together, and the page serves those of the last one. Ages and deadlines are counted
at each scrape, so that a rollout that has stopped grows old. A process that does not lead knows none of them.
"""

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpufleet.kube.objects import fleet_policies as wire
from gpufleet.operator.fleet_state import FleetState
from gpufleet.operator.parking.stamp import ParkingCause, ParkingPhase
from gpufleet.operator.parking.tally import ParkingFigures
from gpufleet.operator.rollout.stamp import Progress, RolloutPhase
from gpufleet.operator.rollout.windows import US_PER_S
from gpufleet.operator.rollout_statuses import progress_of

PREFIX = "gpufleet_operator"


class RolloutFigures(msgspec.Struct, frozen=True):
    """The rollout of one policy: its nodes by phase, those that cannot begin, and the deadlines under way."""

    policy: str
    progress: Progress
    phases: Mapping[RolloutPhase, int]
    blocked: int
    deadlines_us: tuple[int, ...]


class OperatorFigures(msgspec.Struct, frozen=True):
    """All that is shown. ``nodes`` are counts by policy and phase, ``projects`` those by reason.

    ``parking`` and ``projects`` are None where they are not kept, or were not looked at yet.
    """

    nodes: Mapping[tuple[str, ...], int]
    rollouts: tuple[RolloutFigures, ...]
    parking: ParkingFigures | None = None
    projects: Mapping[str, int] | None = None


def figures_of(
    state: FleetState, policies: Iterable[wire.FleetPolicy], blocked: Mapping[str, int]
) -> OperatorFigures:
    """The figures after a round; ``blocked`` is how many nodes of each policy cannot begin."""
    nodes: dict[tuple[str, ...], int] = {}
    rollouts: list[RolloutFigures] = []
    for found in policies:
        name = found.metadata.name
        for one in wire.policy_status_of(found).phases:
            nodes[name, one.phase] = one.nodes
        progress = progress_of(found)
        # The status of a policy may tell of a rollout although the policy asks for no driver any more.
        if progress is None or name not in state.policies or not state.policies[name].images.parts:
            continue
        stamps = [one.stamp for one in state.nodes.values() if one.stamp is not None]
        own = [one for one in stamps if one.policy == name]
        rollouts.append(
            RolloutFigures(
                name,
                progress,
                Counter(one.phase for one in own),
                blocked.get(name, 0),
                tuple(one.deadline_us for one in own if one.is_under_way),
            )
        )
    return OperatorFigures(nodes, tuple(rollouts))


class OperatorMetrics(Collector):
    """Tells Prometheus what the operator knows. ``figures`` is None where this process does not lead."""

    def __init__(self, figures: Callable[[], OperatorFigures | None], now: Callable[[], dt.datetime]) -> None:
        self._figures = figures
        self._now = now
        self.registry = CollectorRegistry()
        self.registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Asked at each scrape."""
        figures = self._figures()
        leader = GaugeMetricFamily(f"{PREFIX}_leader", "1 while this process leads")
        leader.add_metric((), float(figures is not None))
        yield leader
        if figures is None:
            return
        yield _family("nodes", "Nodes of each policy by how far they are", ("policy", "phase"), figures.nodes)
        yield from _of_rollouts(figures.rollouts, round(self._now().timestamp() * US_PER_S))
        if figures.parking is not None:
            yield from _of_parking(figures.parking)
        if figures.projects is not None:
            yield _of_projects(figures.projects)


def _of_rollouts(rollouts: Sequence[RolloutFigures], now_us: int) -> Iterator[Metric]:
    yield _family(
        "rollout_state_seconds",
        "For how long the rollout of a driver is in its state",
        ("policy", "state"),
        {
            # The moment stands in a status, and the clock of the process that wrote it may have been ahead.
            (one.policy, one.progress.state.value): max(0, now_us - one.progress.since_us) / US_PER_S
            for one in rollouts
        },
    )
    yield _family(
        "rollout_nodes",
        "Nodes that are or were in a rollout, by where they are in it",
        ("policy", "phase"),
        {(one.policy, phase.value): one.phases.get(phase, 0) for one in rollouts for phase in RolloutPhase},
    )
    yield _family(
        "rollout_blocked_nodes",
        "Nodes that cannot begin and keep a rollout from going on, because no other node is under way",
        ("policy",),
        {(one.policy,): one.blocked for one in rollouts},
    )
    yield _family(
        "rollout_overdue_nodes",
        "Nodes under way in a rollout whose deadline has passed",
        ("policy",),
        {(one.policy,): sum(now_us > until_us for until_us in one.deadlines_us) for one in rollouts},
    )


def _of_projects(counts: Mapping[str, int]) -> Metric:
    values: dict[tuple[str, ...], float] = {(reason,): count for reason, count in counts.items()}
    return _family("projects", "Projects by the reason of their condition Ready", ("reason",), values)


def _of_parking(found: ParkingFigures) -> Iterator[Metric]:
    yield _family(
        "parking_work",
        "Work that is about to be parked, is parked or comes back",
        ("phase",),
        {(phase.value,): found.phases.get(phase, 0) for phase in ParkingPhase},
    )
    yield _family("parked_gpus", "GPUs that parked work held", (), {(): found.parked_gpus})
    yield _family(
        "parking_unmeasured_work",
        "Work with a rule of which it is not known whether it is idle: it is not parked",
        (),
        {(): found.unmeasured},
    )
    yield _family(
        "parking_refused_work",
        "Work that a rule concerns and that cannot be parked; Events on it say why",
        (),
        {(): found.refused},
    )
    parks = CounterMetricFamily(
        f"{PREFIX}_parks", "Work that was parked, because it was idle or a person asked", labels=("cause",)
    )
    for cause in ParkingCause:
        parks.add_metric((cause.value,), float(found.parks.get(cause, 0)))
    yield parks
    yield _counter(
        "parks_soon_undone", "Work parked as idle that came back within 15 minutes", found.soon_back
    )
    yield _counter("parked_gpu_seconds", "GPU-seconds for which work was parked", found.gpu_us / US_PER_S)


def _counter(name: str, words: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"{PREFIX}_{name}", words, value=float(value))


def _family(
    name: str, words: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{PREFIX}_{name}", words, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, float(value))
    return family
