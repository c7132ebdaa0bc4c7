"""Which work of a history goes on spot capacity: where what it computes twice costs less than what it saves.

A node that is taken back ends its work, which begins again at its last checkpoint, or anew. Where nodes are
taken back independently of each other, at a rate by the hour, work of length d between two checkpoints is
expected to take (exp(rate * d) - 1) / rate (A. Duda, Information Processing Letters 16, 1983, where a restart
costs nothing). The members of a gang are interrupted together, so a gang of n has n times the rate.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from gpufleet.kube.codec.durations import read_duration
from gpufleet.ledger.node_versions import SPOT
from gpufleet.model.identifiers import GangName, QueueName
from gpufleet.model.model_errors import InputError
from gpufleet.model.shape import Shape
from gpufleet.model.spot import KARPENTER_CAPACITY_TYPE
from gpufleet.model.taint import EQUAL, NO_SCHEDULE, Toleration
from gpufleet.plan.answer import SpotWork
from gpufleet.plan.history.bought_fleet import has_room
from gpufleet.plan.history.demand import Demand
from gpufleet.plan.instance_types import InstanceType
from gpufleet.plan.waiting_work import sizes_on
from gpufleet.replay.trace_tasks import TaskRecord

TOLERATION = Toleration(KARPENTER_CAPACITY_TYPE, EQUAL, SPOT, NO_SCHEDULE)
CHECKPOINT, ON_DEMAND_FLOOR = "--checkpoint", "--on-demand"
HOUR_US = 3_600 * 10**6
FACTOR_MAX = 10.0
"""Work that is expected to take ten times as long is not finished by waiting: it stays on demand."""


class SpotQuestion(msgspec.Struct, frozen=True):
    """How often the work of each queue saves itself, in hours, and the least share of its GPU time on demand,
    in percent. A queue that is not named never saves, and may be on spot with all of it.
    """

    checkpoint_h: dict[str, float] = {}
    on_demand_pct: dict[str, int] = {}


def read_spot_question(checkpoints: Iterable[str], floors: Iterable[str]) -> SpotQuestion:
    """What was typed: QUEUE=LENGTH and QUEUE=PERCENT. Raises InputError."""
    checkpoint_h, on_demand_pct = {}, {}
    for text in checkpoints:
        queue, equals, length = text.partition("=")
        if not queue or not equals:
            expected = "QUEUE=LENGTH, such as research=30m"
            raise InputError("not a checkpoint", field=CHECKPOINT, value=text, expected=expected)
        checkpoint_h[queue] = read_duration(length, CHECKPOINT) / HOUR_US
    for text in floors:
        queue, equals, percent = text.partition("=")
        is_number = percent.isascii() and percent.isdecimal() and len(percent) <= 3
        if not queue or not equals or not is_number or int(percent) > 100:
            expected = "QUEUE=PERCENT, such as serving=100"
            raise InputError("not a share", field=ON_DEMAND_FLOOR, value=text, expected=expected)
        on_demand_pct[queue] = int(percent)
    return SpotQuestion(checkpoint_h, on_demand_pct)


def expected_factor(rate: float, length_h: float, checkpoint_h: float | None) -> float:
    """How many times its length work is expected to take under so many interruptions by the hour."""
    piece_h = length_h if checkpoint_h is None else min(checkpoint_h, length_h)
    if not rate or not piece_h:
        return 1.0
    # Beyond, the exponential is larger than any number that is of use here.
    return math.expm1(rate * piece_h) / (rate * piece_h) if rate * piece_h < 50 else math.inf


class _Offer(msgspec.Struct, frozen=True):
    """The cheapest way to run a task on one kind of capacity: its cost for an hour of its own length."""

    cost_micro: float
    factor: float
    type_name: str


def split(
    demand: Demand, types: Sequence[InstanceType], question: SpotQuestion, *, has_nodes: bool
) -> tuple[Demand, tuple[SpotWork, ...]]:
    """The work, of which that for spot capacity takes as long as is expected there, and what was decided of
    each kind of work. It goes to spot nodes alone, or it would take the others from work that may not; where
    nodes are there already, it may have those too.
    """
    if not any(one.capacity_type == SPOT for one in types):
        return demand, ()
    offers = _offers(demand.tasks, types, question)
    chosen = _chosen(demand.tasks, offers, question.on_demand_pct)
    shapes = {
        shape: msgspec.structs.replace(
            shape,
            tolerations=(*shape.tolerations, TOLERATION),
            node_selector=shape.node_selector if has_nodes else _with_spot(shape.node_selector),
        )
        for shape in {task.shape for task in demand.tasks if task.name in chosen}
    }
    tasks = tuple(
        _on_spot(task, offers[task.name][1], shapes) if task.name in chosen else task for task in demand.tasks
    )
    return msgspec.structs.replace(demand, tasks=tasks), _told(demand.tasks, offers, chosen)


def work_on_spot(
    tasks: Sequence[TaskRecord],
    types: Sequence[InstanceType],
    question: SpotQuestion,
    without: Collection[str] = (),
) -> tuple[frozenset[str], tuple[SpotWork, ...]]:
    """The names of the tasks that go on spot, and what was decided of each kind of work.

    Tasks ``without`` spot, for which there was none to be had, fall back to on demand with their gang.
    """
    offers = _offers(tasks, types, question)
    gangs = {task.gang for task in tasks if task.gang is not None and task.name in without}
    wanted = _chosen(tasks, offers, question.on_demand_pct)
    chosen = {
        task.name
        for task in tasks
        if task.name in wanted and task.name not in without and task.gang not in gangs
    }
    return frozenset(chosen), _told(tasks, offers, chosen)


def _offers(
    tasks: Sequence[TaskRecord], types: Sequence[InstanceType], question: SpotQuestion
) -> "dict[str, tuple[_Offer | None, _Offer | None]]":
    """Of each task the cheapest way on demand and that on spot."""
    spot = [one for one in types if one.capacity_type == SPOT]
    others = [one for one in types if one.capacity_type != SPOT]
    sizes = _gang_sizes(tasks)
    offers: dict[str, tuple[_Offer | None, _Offer | None]] = {}
    for task in tasks:
        nodes = sizes.get(task.gang, 1) if task.gang is not None else 1
        checkpoint_h = question.checkpoint_h.get(str(task.queue))
        offers[task.name] = (
            _cheapest(task, others, 1, None),
            None if task.duration_us is None else _cheapest(task, spot, nodes, checkpoint_h),
        )
    return offers


def _with_spot(selector: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({**dict(selector), KARPENTER_CAPACITY_TYPE: SPOT}.items()))


def _gang_sizes(tasks: Iterable[TaskRecord]) -> dict[GangName, int]:
    sizes: defaultdict[GangName, int] = defaultdict(int)
    for task in tasks:
        if task.gang is not None:
            sizes[task.gang] += 1
    return sizes


def _cheapest(
    task: TaskRecord, types: Iterable[InstanceType], nodes: int, checkpoint_h: float | None
) -> _Offer | None:
    length_h = (task.duration_us or 0) / HOUR_US
    found = []
    for one in types:
        sizes = sizes_on(task.shape, one)
        if sizes is None or not has_room(one, task.shape):
            continue
        factor = expected_factor(nodes * (one.interruptions_per_hour or 0.0), length_h, checkpoint_h)
        if factor <= FACTOR_MAX:
            found.append(_Offer(one.price_micro * max(sizes) * factor, factor, one.name))
    return min(found, key=lambda offer: offer.cost_micro, default=None)


Offers = Mapping[str, tuple[_Offer | None, _Offer | None]]


def _chosen(tasks: Sequence[TaskRecord], offers: Offers, on_demand_pct: Mapping[str, int]) -> set[str]:
    """Names of the tasks that go on spot: gangs whole, and of each queue what saves most first."""
    by_unit: defaultdict[tuple[QueueName, str], list[TaskRecord]] = defaultdict(list)
    for task in tasks:
        by_unit[task.queue, task.gang or task.name].append(task)
    gpu_hours: defaultdict[QueueName, float] = defaultdict(float)
    savings: list[tuple[float, QueueName, list[TaskRecord]]] = []
    for (queue, _), unit in by_unit.items():
        gpu_hours[queue] += sum(map(_gpu_hours, unit))
        saved = [_saved(*offers[task.name]) for task in unit]
        if all(share is not None and share > 0 for share in saved):
            savings.append((min(share or 0.0 for share in saved), queue, unit))
    found: set[str] = set()
    on_spot: defaultdict[QueueName, float] = defaultdict(float)
    for _, queue, unit in sorted(savings, key=lambda one: (-one[0], one[2][0].name)):
        room = gpu_hours[queue] * (100 - on_demand_pct.get(str(queue), 0)) / 100
        hours = sum(map(_gpu_hours, unit))
        if on_spot[queue] + hours <= room + 1e-9:
            on_spot[queue] += hours
            found |= {task.name for task in unit}
    return found


def _saved(on_demand: _Offer | None, spot: _Offer | None) -> float | None:
    """The share of the cost that spot saves, None where there is no such way."""
    if spot is None:
        return None
    return 1.0 if on_demand is None else 1 - spot.cost_micro / on_demand.cost_micro


def _gpu_hours(task: TaskRecord) -> float:
    return task.shape.gpu.total_milli / 1000 * (task.duration_us or 0) / HOUR_US


def _on_spot(task: TaskRecord, offer: _Offer | None, shapes: Mapping[Shape, Shape]) -> TaskRecord:
    factor = 1.0 if offer is None else offer.factor
    length_us = None if task.duration_us is None else round(task.duration_us * factor)
    return msgspec.structs.replace(task, shape=shapes[task.shape], duration_us=length_us)


def _told(tasks: Sequence[TaskRecord], offers: Offers, chosen: set[str]) -> tuple[SpotWork, ...]:
    """What was decided, a row for each queue and request, the most GPU time first."""
    kinds: defaultdict[tuple[str, int, int, tuple[str, ...]], list[TaskRecord]] = defaultdict(list)
    for task in tasks:
        gpu = task.shape.gpu
        if gpu.count:
            kinds[str(task.queue), gpu.count, gpu.gpu_milli, tuple(map(str, gpu.models))].append(task)
    rows = [
        SpotWork(
            *kind, len(of_kind), sum(one.name in chosen for one in of_kind), *_why(of_kind, offers, chosen)
        )
        for kind, of_kind in kinds.items()
    ]
    hours = [sum(map(_gpu_hours, of_kind)) for of_kind in kinds.values()]
    ordered = sorted(zip(hours, rows, strict=True), key=lambda pair: (-pair[0], pair[1].queue))
    return tuple(row for _, row in ordered)


def _why(tasks: Sequence[TaskRecord], offers: Offers, chosen: set[str]) -> tuple[tuple[str, ...], str]:
    """The types in the order of what they are expected to cost, and why the work is where it is: as of the
    longest of its tasks, for which interruptions cost most.
    """
    longest = max(tasks, key=lambda task: task.duration_us or 0)
    on_demand, spot = offers[longest.name]
    order = [(spot, f" ({SPOT})"), (on_demand, "")]
    if _saved(on_demand, spot) is None or (_saved(on_demand, spot) or 0) <= 0:
        order.reverse()
    types = tuple(f"{one.type_name}{words}" for one, words in order if one is not None)
    if any(task.duration_us is None for task in tasks):
        return types, "it has no known end"
    if spot is None:
        return types, f"no spot type holds it, or it would take more than {FACTOR_MAX:g} times as long there"
    if on_demand is None:
        return types, "only spot types hold it"
    cost_pct = round(100 * spot.cost_micro / on_demand.cost_micro)
    words = f"{cost_pct} % of the cost on demand, with {spot.factor:.2f} times the length"
    if cost_pct < 100 and not any(task.name in chosen for task in tasks):
        return types, f"its queue keeps it on demand; on spot it would be {words}"
    return types, words
