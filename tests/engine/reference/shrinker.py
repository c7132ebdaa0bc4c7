"""Makes a story smaller as long as it still shows what it showed."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from gpufleet.model.queue import PreemptionPolicy, Queue
from tests.engine.reference.picture import MILLI, Job
from tests.engine.reference.story import Arrival, Plan

T = TypeVar("T")


def shrunk(plan: Plan, shows: Callable[[Plan], bool]) -> Plan:
    """A story that still ``shows`` something, and none of whose parts can be left out or made usual."""
    smaller = next(filter(shows, simpler(plan)), None)
    while smaller is not None:
        plan = smaller
        smaller = next(filter(shows, simpler(plan)), None)
    return plan


def simpler(plan: Plan) -> Iterator[Plan]:
    """Stories with one thing less."""
    for number in reversed(range(len(plan.happenings))):
        yield _with(plan, happenings=_without(plan.happenings, number))
    used = {happening.job.queue for happening in plan.happenings if isinstance(happening, Arrival)}
    for number, queue in enumerate(plan.queues[1:], 1):
        if str(queue.name) not in used:
            rest = _without(plan.queues, number)
            moved = tuple(
                msgspec.structs.replace(one, parent=queue.parent) if one.parent == queue.name else one
                for one in rest
            )
            yield _with(plan, queues=moved)
    for number in range(len(plan.nodes)):
        if len(plan.nodes) > 1:
            yield _with(plan, nodes=_without(plan.nodes, number))
        node = plan.nodes[number]
        if node.gpus > 1:
            yield _with(
                plan, nodes=_set(plan.nodes, number, msgspec.structs.replace(node, gpus=node.gpus - 1))
            )
    if plan.returns:
        yield _with(plan, returns=False)
    for number, queue in enumerate(plan.queues):
        for one in simpler_queues(queue):
            yield _with(plan, queues=_set(plan.queues, number, one))
    for number, happening in enumerate(plan.happenings):
        if isinstance(happening, Arrival):
            for arrival in simpler_arrivals(happening):
                yield _with(plan, happenings=_set(plan.happenings, number, arrival))


def simpler_queues(queue: Queue) -> Iterator[Queue]:
    """The queue with one thing as it usually is."""
    usual = {"priority": 0, "weight_milli": 1000, "strict": False}
    for name, value in usual.items():
        if getattr(queue, name) != value:
            yield msgspec.structs.replace(queue, **{name: value})
    policy, standard = queue.preemption, PreemptionPolicy()
    for name in PreemptionPolicy.__struct_fields__:
        if getattr(policy, name) != getattr(standard, name):
            with_one = msgspec.structs.replace(policy, **{name: getattr(standard, name)})
            yield msgspec.structs.replace(queue, preemption=with_one)
    quota = queue.quotas[0]
    for name in ("borrowing_limit", "lending_limit", "hard_limit"):
        if getattr(quota, name) is not None:
            yield msgspec.structs.replace(queue, quotas=(msgspec.structs.replace(quota, **{name: None}),))
    if quota.nominal and quota.lending_limit is None:
        yield msgspec.structs.replace(
            queue, quotas=(msgspec.structs.replace(quota, nominal=quota.nominal - MILLI),)
        )


def simpler_arrivals(arrival: Arrival) -> Iterator[Arrival]:
    """The arrival with one thing as it usually is."""
    job = arrival.job
    if job.is_gang:
        yield Arrival(msgspec.structs.replace(job, is_gang=False, minimum=1), 1)
        if arrival.pods > 1:
            fewer = msgspec.structs.replace(job, minimum=min(job.minimum, arrival.pods - 1))
            yield Arrival(fewer, arrival.pods - 1)
    changes: list[Job] = []
    if job.gpus > 1:
        changes.append(msgspec.structs.replace(job, gpus=job.gpus - 1))
    if job.priority:
        changes.append(msgspec.structs.replace(job, priority=job.priority - 1))
    if not job.preemptible:
        changes.append(msgspec.structs.replace(job, preemptible=True))
    if job.model:
        changes.append(msgspec.structs.replace(job, model=""))
    for one in changes:
        yield Arrival(one, arrival.pods)


def _with(one: Plan, **changes: object) -> Plan:
    return msgspec.structs.replace(one, **changes)


def _without(items: tuple[T, ...], number: int) -> tuple[T, ...]:
    return (*items[:number], *items[number + 1 :])


def _set(items: tuple[T, ...], number: int, item: T) -> tuple[T, ...]:
    return (*items[:number], item, *items[number + 1 :])
