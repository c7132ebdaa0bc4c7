"""Queues that let nothing start: malformed, without their parent, or stopped while work waits in them."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.status import conditions
from gpufleet.doctor.views.queues import (
    Queues,
    Waiting,
    waiting_in_queues,
)
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.model.phrases import counted, verb

_SPENT = "BudgetSpent"
_INTENDED = frozenset({"Held", "Draining", "Stopped", _SPENT})
"""Reasons that an administrator ordered; such a queue is wrong only where work waits in it."""

# Values of Kueue's stopPolicy that let nothing in.
_STOPS = frozenset({"Hold", "HoldAndDrain"})


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each queue that is closed and ought not to be."""
    waiting: dict[str, list[Waiting]] = {}
    known = Queues(facts)
    for one in waiting_in_queues(facts):
        for queue in _queues_of(known, one):
            waiting.setdefault(queue.title, []).append(one)
    queues = facts.of_kind("FleetQueue", "ClusterQueue", "LocalQueue")
    closed = 0
    for queue in queues:
        why, is_intended = _closed(queue)
        held_up = waiting.get(queue.title, [])
        if why and (held_up or not is_intended):
            closed += 1
            yield _failure(queue, why, is_intended, held_up)
    if queues and not closed:
        count = f"there {verb(len(queues), 'are')} {counted(len(queues), 'queue')}"
        yield Good(f"no work waits in a closed queue; {count}")


def _queues_of(known: Queues, one: Waiting) -> list[Manifest]:
    if one.is_ours:
        found = [known.fleet_queue(one)]
    else:
        found = [known.local_queue(one), known.cluster_queue(one)] if one.is_kueues else []
    return [queue for queue in found if queue is not None]


def _closed(queue: Manifest) -> tuple[str, bool]:
    """Why nothing starts in a queue, and whether its administrator wants that."""
    stop = queue.root.text_at("spec", "stopPolicy")
    if stop in _STOPS:
        return f"stopPolicy: {stop}", True
    status = queue.root.at("status")
    active = conditions(status).get("Active")
    if active is None or active.status != "False":
        return "", False
    seen, now = status.at("observedGeneration").integer, queue.root.at("metadata", "generation").integer
    if seen is not None and now is not None and seen < now:
        # The queue was changed since, and the scheduler has not said yet what follows.
        return "", False
    if queue.kind == "LocalQueue" and active.reason in {"ClusterQueueIsInactive", "ClusterQueueDoesNotExist"}:
        # The other queue is told of.
        return "", False
    return f"Active=False {active.reason}: {active.message}", active.reason in _INTENDED


def _failure(queue: Manifest, why: str, is_intended: bool, held_up: list[Waiting]) -> Failure:
    titles = [one.workload.title for one in held_up]
    what = "was told to let nothing start" if is_intended else "lets nothing start"
    waiting_work = f", and {listed(titles)} {verb(len(titles), 'wait')} in it" if titles else ""
    if _is_spent(queue):
        mend = Remedy(
            "wait until the period of the budget is over, or raise its amount",
            f"{get_command(queue)} -o jsonpath='{{.status.budget}}'",
        )
    elif is_intended:
        change = '{"state": "Open"}' if queue.kind == "FleetQueue" else '{"stopPolicy": "None"}'
        patch = get_command(queue).replace("kubectl get", "kubectl patch", 1)
        mend = Remedy("open it again", f"{patch} --type merge -p '{{\"spec\": {change}}}'")
    else:
        mend = Remedy("mend what its condition names", get_command(queue) + " -o yaml")
    return Failure(
        f"{queue.title}: {what}{waiting_work}",
        (queue.title, *titles),
        (why,),
        (mend,),
        frozenset[str]().union(*(one.affects for one in held_up)),
    )


def _is_spent(queue: Manifest) -> bool:
    """Whether the ledger holds new work of the queue, or of one above it: opening it changes nothing."""
    active = conditions(queue.root.at("status")).get("Active")
    return active is not None and active.reason == _SPENT


CHECK = Check(
    "queue-closed",
    Point.QUOTAS,
    Layer.QUEUE,
    "Queues let work start",
    "In a queue that is not active nothing starts, however much quota and however many GPUs are free.",
    judge,
)
