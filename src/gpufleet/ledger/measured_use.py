"""How busy each pod kept what it held of a GPU, as a Prometheus has it, for the buckets of used and idle.

gpufleet's agents tell a pod's part of the time of its card or MIG instance. Where they tell nothing of a
card, the utilisation that dcgm-exporter tells of the card counts for the pod that holds all of it; of a card
that pods share it says nothing of each. Steps in which a pod had not begun to compute are left out, since
waiting, starting and loading have buckets of their own. Means are of runs of steps within an hour, as rows
are, so that a month has a few measurements a pod.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction

import msgspec

from gpufleet.ledger.buckets import BUSY_WHOLE, BusySpan, Holding
from gpufleet.ledger.counters import STEP_S
from gpufleet.ledger.granted_parts import instance_part
from gpufleet.ledger.held_parts import WHOLE
from gpufleet.ledger.interval_log import ByNode
from gpufleet.ledger.node_hour import HOUR_US
from gpufleet.ledger.spans import Span, end_us
from gpufleet.ledger.stamps import DAY_US, US_PER_S
from gpufleet.model.identifiers import DeviceId, PodUid
from gpufleet.model.money import rounded
from gpufleet.usage.agent_series import POD_USED, is_possible
from gpufleet.usage.prometheus.answer import CLUSTER
from gpufleet.usage.prometheus.client import Source
from gpufleet.usage.prometheus.labels import PodName, named_pod
from gpufleet.usage.prometheus.window import Window

DCGM_USE = "DCGM_FI_DEV_GPU_UTIL"
"""Utilisation of a card in percent."""

PERCENT = 100

POD_LABELS = "uuid, mig_id, mig_profile, namespace, pod, exported_namespace, exported_pod"
CARD_LABELS = "UUID, uuid"
"""dcgm-exporter writes it in capitals, and a relabelling may not."""

STEP_US = STEP_S * US_PER_S


class _Held(msgspec.Struct, frozen=True):
    """What a pod holds of a card in some time, and from when on it can compute."""

    pod_uid: PodUid
    name: PodName
    span: Span
    part: Fraction
    computes_us: int
    model: str

    def covers(self, step_end_us: int) -> bool:
        """Whether the pod held it, and could compute, in the step that ends then."""
        return self.computes_us < step_end_us and end_us(self.span) > step_end_us - STEP_US


_ByCard = Mapping[DeviceId, list[_Held]]
_Key = tuple[DeviceId, _Held]
_Steps = dict[int, int]
"""The used part of the card in each step, in millionths, by the end of the step."""


def measured_use(source: Source, intervals: ByNode, span: Span) -> Iterator[BusySpan]:
    """The measurements of all whole steps of a time that has an end. Raises WorldError."""
    held = _held(intervals, span)
    if not held:
        return
    for window in _days(span):
        used: dict[_Key, _Steps] = defaultdict(dict)
        _hear_agents(source, window, held, used)
        _hear_exporters(source, window, held, used)
        for key in sorted(used, key=lambda one: (one[0], one[1].pod_uid, one[1].span.from_us)):
            yield from _spans(key, used[key])


def _held(intervals: ByNode, span: Span) -> _ByCard:
    found: dict[DeviceId, list[_Held]] = defaultdict(list)
    for node in intervals.each():
        by_pod: dict[tuple[DeviceId, PodUid], list[Holding]] = defaultdict(list)
        for holding in node.records.holdings:
            if holding.span.from_us < end_us(span) and end_us(holding.span) > span.from_us:
                by_pod[holding.device, holding.pod_uid].append(holding)
        for (card, uid), holdings in by_pod.items():
            pod, computes_us = node.pods[uid], _computes_us(holdings[0])
            part = min(WHOLE, sum((one.part for one in holdings), Fraction(0)))
            if computes_us is not None and part:
                name, model = PodName(pod.namespace, pod.name), node.records.priced_as.gpu_model
                found[card].append(_Held(uid, name, holdings[0].span, part, computes_us, model))
    return found


def _computes_us(holding: Holding) -> int | None:
    """When measured use begins to decide; None where it never does."""
    moments = [holding.gang_whole_us, holding.started_us]
    if holding.has_readiness_probe:
        moments.append(holding.ready_us)
    known = [moment for moment in moments if moment is not None]
    return max(known) if len(known) == len(moments) else None


def _days(span: Span) -> Iterator[Window]:
    """The ends of the whole steps in the time, a day at a time: a day of a large fleet is held in memory."""
    first_s = -(-span.from_us // STEP_US) * STEP_S + STEP_S
    last_s = end_us(span) // STEP_US * STEP_S
    points = DAY_US // STEP_US
    for begin_s in range(first_s, last_s + 1, points * STEP_S):
        yield Window(begin_s, min(begin_s + (points - 1) * STEP_S, last_s), STEP_S)


def _hear_agents(source: Source, window: Window, held: _ByCard, used: dict[_Key, _Steps]) -> None:
    """Parts of cards that pods used, by what agents tell; several instances of one pod are added up."""
    promql = f"max by ({POD_LABELS}, {CLUSTER}) (avg_over_time({POD_USED}[{STEP_S}s]))"
    for answer in source.over(promql, window, POD_USED):
        for series in answer.series:
            card, pod = DeviceId(series.labels.get("uuid", "")), named_pod(series.labels)
            mine = [one for one in held.get(card, ()) if one.name == pod]
            for at_s, value in zip(series.times_s, series.values, strict=True):
                at_us = at_s * US_PER_S
                there = [one for one in mine if one.covers(at_us)]
                if there and is_possible(POD_USED, value):
                    # Of two pods of one name in one step the later one ran at its end.
                    pod_there = max(there, key=lambda one: one.span.from_us)
                    part = _hardware_part(series.labels, pod_there)
                    steps = used[card, pod_there]
                    steps[at_us] = steps.get(at_us, 0) + round(value * BUSY_WHOLE) * part.numerator // (
                        part.denominator
                    )


def _hardware_part(labels: Mapping[str, str], held: _Held) -> Fraction:
    """The part of the card that a ratio of use is of: a MIG instance, else the card."""
    if not labels.get("mig_id"):
        return WHOLE
    part = instance_part(held.model, labels.get("mig_profile", ""))
    # Of an instance that no table knows the pod holds what it holds.
    return held.part if part is None else part


def _hear_exporters(source: Source, window: Window, held: _ByCard, used: dict[_Key, _Steps]) -> None:
    """The use of cards by what dcgm-exporter tells, where one pod held all of a card and no agent told."""
    # A series of an instance is no use of the card.
    promql = (
        f"max by ({CARD_LABELS}, {CLUSTER})"
        f' (avg_over_time({DCGM_USE}{{GPU_I_ID="",GPU_I_PROFILE=""}}[{STEP_S}s]))'
    )
    for answer in source.over(promql, window, DCGM_USE):
        for series in answer.series:
            card = DeviceId(series.labels.get("UUID") or series.labels.get("uuid", ""))
            for at_s, value in zip(series.times_s, series.values, strict=True):
                at_us = at_s * US_PER_S
                there = [one for one in held.get(card, ()) if one.covers(at_us)]
                if len(there) == 1 and there[0].part == WHOLE and 0 <= value <= PERCENT:
                    used[card, there[0]].setdefault(at_us, round(value * BUSY_WHOLE / PERCENT))


def _spans(key: _Key, steps: _Steps) -> Iterator[BusySpan]:
    """The mean of each run of steps within an hour of the clock."""
    card, held = key
    run: list[int] = []
    for at_us in sorted(steps):
        is_next = run and at_us == run[-1] + STEP_US and (at_us - 1) // HOUR_US == (run[-1] - 1) // HOUR_US
        if run and not is_next:
            yield _span(card, held, run, steps)
            run = []
        run.append(at_us)
    if run:
        yield _span(card, held, run, steps)


def _span(card: DeviceId, held: _Held, run: list[int], steps: _Steps) -> BusySpan:
    used = sum(steps[at_us] for at_us in run)
    # What a pod used beyond its part no other pod held: its own part was used whole.
    busy = min(BUSY_WHOLE, rounded(used * held.part.denominator, len(run) * held.part.numerator))
    begin = max(run[0] - STEP_US, held.span.from_us)
    return BusySpan(card, held.pod_uid, Span(begin, min(run[-1], end_us(held.span))), busy)
