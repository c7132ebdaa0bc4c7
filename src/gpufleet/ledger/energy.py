"""The energy that work drew, from the counters of the agents, in whole joules.

An agent counts what each pod drew of a card, and what was no pod's; together they are what the card drew.
What a counter grew from one step to the next belongs to the pod of that name that was on the node then.
Joules of groups add up to those of each node.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gpufleet.ledger.cost_rows import CostRow
from gpufleet.ledger.costs import LABEL, Key, column
from gpufleet.ledger.counters import Growth, readings, window_of
from gpufleet.ledger.interval_log import ByNode, LedgerPod
from gpufleet.ledger.spans import Span, end_us
from gpufleet.ledger.stamps import DAY_US, US_PER_S
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import apportion, rounded
from gpufleet.usage.prometheus.client import Source

POD_JOULES = "gpufleet_pod_gpu_energy_joules_total"
OTHER_JOULES = "gpufleet_gpu_energy_unattributed_joules_total"
GROUPINGS = ("queue", "namespace", "owner", "gang", "job", "team", "pod", "node", "model", "day")
"""What energy can be put together by, beside labels: counters are of pods and cards, not of buckets."""

MILLI = 1000
"""Counters are read in thousandths of a joule, so that what they grow adds up without a remainder."""


class Energy(msgspec.Struct, frozen=True):
    """Joules by group, None as a key's part for what is no pod's, as in costs."""

    joules: Mapping[Key, int]

    @property
    def total(self) -> int:
        """What all nodes drew."""
        return sum(self.joules.values())


class _Place(msgspec.Struct, frozen=True, order=True):
    """Of which node, day and pod some energy is; an empty name is no pod's."""

    node: str
    day_us: int
    namespace: str
    name: str
    uid: str


class _Run(msgspec.Struct, frozen=True):
    """A pod on a node, from its Binding to its end."""

    span: Span
    pod: LedgerPod


class _Counters:
    """Counters as they grow; what they grew within a time, by place."""

    def __init__(self, intervals: ByNode, span: Span) -> None:
        self._span = span
        self._step_us = window_of(span).step_s * US_PER_S
        self._growth = Growth(span)
        self.grown: dict[_Place, int] = defaultdict(int)
        self.models: dict[str, str] = {}
        self.pods: dict[str, LedgerPod] = {}
        self._runs: dict[tuple[str, str, str], list[_Run]] = defaultdict(list)
        for node in intervals.each():
            records = node.records
            self.models[records.node] = records.priced_as.gpu_model
            for holding in records.host_holdings:
                pod = node.pods[holding.pod_uid]
                self.pods[pod.uid] = pod
                self._runs[records.node, pod.namespace, pod.name].append(_Run(holding.span, pod))

    def hear(self, labels: Mapping[str, str], at_us: int, joules: float) -> None:
        """The value of a counter at the end of a step."""
        key = tuple(labels.get(name, "") for name in ("node", "namespace", "pod", "uuid", "mig_id"))
        node, namespace, name = key[:3]
        run = self._run(node, namespace, name, at_us)
        is_new = run is not None and run.span.from_us >= self._span.from_us
        grown = self._growth.of(key, at_us, round(joules * MILLI), is_new=is_new)
        if grown:
            # The step ends with the day that it belongs to.
            day_us = (at_us - 1) // DAY_US * DAY_US
            uid = "" if run is None else run.pod.uid
            self.grown[_Place(node, day_us, namespace, name, uid)] += grown

    def _run(self, node: str, namespace: str, name: str, at_us: int) -> _Run | None:
        """The pod of a name that was on the node in a step; of two the later one."""
        begin_us = at_us - self._step_us
        there = [
            one
            for one in self._runs.get((node, namespace, name), ())
            if one.span.from_us < at_us and end_us(one.span) > begin_us
        ]
        return max(there, key=lambda one: one.span.from_us, default=None)


def has_grouping(name: str) -> bool:
    """Whether energy can be put together by that."""
    return name in GROUPINGS or name.startswith(LABEL)


def check_groupings(by: Sequence[str]) -> None:
    """Raises InputError for a grouping that energy does not have."""
    for name in by:
        if not has_grouping(name):
            expected = f"{', '.join(GROUPINGS)}, or label:KEY"
            raise InputError("no grouping of energy", field="--by", value=name, expected=expected)


def energy_of(source: Source, intervals: ByNode, span: Span, by: Sequence[str]) -> Energy:
    """The energy of a time that has an end, by groups. Raises InputError and WorldError."""
    check_groupings(by)
    counters = _Counters(intervals, span)
    for metric, labels in ((POD_JOULES, "node,namespace,pod,uuid,mig_id"), (OTHER_JOULES, "node,uuid")):
        for reading in readings(source, metric, labels, span):
            counters.hear(*reading)
    joules: dict[Key, int] = defaultdict(int)
    columns = [column(name) for name in by]
    for place, amount in _whole(counters.grown):
        row = _row(place, counters)
        joules[tuple(one(row) for one in columns)] += amount
    return Energy(dict(joules))


def _whole(grown: Mapping[_Place, int]) -> Iterator[tuple[_Place, int]]:
    """Whole joules, which add up to those of each node."""
    by_node: dict[str, list[_Place]] = defaultdict(list)
    for place in sorted(grown):
        by_node[place.node].append(place)
    for places in by_node.values():
        weights = [grown[place] for place in places]
        total = rounded(sum(weights), MILLI)
        yield from zip(places, apportion(total, weights), strict=True)


def _row(place: _Place, counters: _Counters) -> CostRow:
    """A row of that place without hours and money, so that groupings read it as they read costs."""
    pod = counters.pods.get(place.uid)
    if pod is None and place.name:
        # Of a pod that the ledger has not seen its names are known, and nothing else.
        pod = LedgerPod(PodUid(""), place.namespace, place.name, "", "", "", ())
    model = counters.models.get(place.node, "")
    return CostRow(place.day_us, place.node, model, "", "", "", pod, "", False, 0, None)
