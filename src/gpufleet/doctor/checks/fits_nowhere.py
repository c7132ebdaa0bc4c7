"""GPU pods that wait and would not fit on any node even if all were empty and no card out of service.

A pod that waits for room is no failure: other pods have the GPUs. One that waits for a card to come back
follows from what took the card out. The cause is the engine's, as in ``gpufleet explain``.
"""

from collections.abc import Iterator, Sequence

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.views.empty_fleet import Barrier, barriers_on_empty
from gpufleet.doctor.views.free_capacity import (
    CPU,
    MEMORY,
    NANO,
    Amounts,
    amounts,
    asked_by,
    offered_when_well,
    shown,
)
from gpufleet.doctor.views.growth import COMING_S, may_grow
from gpufleet.doctor.views.offers import by_claims, offered_names
from gpufleet.model.phrases import subject


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """The pods by why they fit nowhere."""
    stuck: dict[tuple[str, Barrier], list[PodView]] = {}
    empty = {one.name: offered_when_well(one.seen) for one in facts.nodes}
    # Of thousands of pods a few differ in what they ask for and select.
    grows = may_grow(facts)
    asking: dict[tuple[Amounts, frozenset[str]], list[PodView]] = {}
    for pod in facts.waiting:
        # Where nodes may be added, a young pod may wait for one that is still to come.
        if not grows or pod.age_s(facts.now) >= COMING_S:
            asking.setdefault((asked_by(pod.template), facts.cluster.taken(pod.template)), []).append(pod)
    # Nor do thousands of nodes differ in much of what they have.
    sorts = {taken: tuple({empty[name] for name in taken}) for taken in {key[1] for key in asking}}
    words = {key: _impossible(facts, key[0], sorts[key[1]]) for key in asking}
    impossible = [key for key, why in words.items() if why]
    barriers = barriers_on_empty(facts, impossible) if impossible else {}
    for key in impossible:
        # What the engine would place on an empty node waits for room only.
        barrier = barriers[key]
        if barrier is not None:
            stuck.setdefault((words[key], barrier), []).extend(asking[key])
    for (why, barrier), pods in stuck.items():
        titles = tuple(one.title for one in pods)
        seen = tuple(f"{one.title}: {one.verdict}" for one in pods if one.verdict) or (
            "its scheduler says nothing",
        )
        does = f"{barrier.way_out or 'ask for what a node has'}, or add nodes that have it"
        mend = Remedy(does, get_command(pods[0].manifest) + " -o yaml")
        yield Failure(f"{listed(titles)}: {why} ({barrier.cause})", titles, seen, (mend,), frozenset(titles))
    if facts.waiting and not stuck:
        yield Good(
            f"{subject(len(facts.waiting), 'GPU pod', 'wait')}, and each would fit on a node that is free "
            "and well"
        )


def _impossible(facts: Facts, asked: Amounts, nodes: Sequence[Amounts]) -> str:
    """Why none of the nodes could take the pod even if it were empty; empty if one could."""
    claimed = by_claims(facts)
    wanted = {name: count for name, count in asked.devices.by_name.items() if name not in claimed}
    if not wanted or not nodes:
        # What selects no node at all is another check's.
        return ""
    for name, count in wanted.items():
        most = _most(nodes, name)
        if not most:
            others = ", ".join(sorted(offered_names(facts))) or "no GPU at all"
            return f"asks for {name}, which no node that it selects offers; the cluster offers {others}"
        if count > most:
            return f"asks for {shown(name, count)}, and no node that it selects has more than {most // NANO}"
    return _too_large([one for one in nodes if not one.lacks(amounts(wanted))], asked)


def _too_large(nodes: Sequence[Amounts], asked: Amounts) -> str:
    """The first of CPU and memory of which no node with the pod's GPUs has enough."""
    if not nodes or any(not {CPU, MEMORY} & set(one.lacks(asked)) for one in nodes):
        return ""
    for name in (CPU, MEMORY):
        count, most = asked.of(name), _most(nodes, name)
        if count > most:
            has = shown(name, most)
            return f"asks for {shown(name, count)}, and no node with such GPUs has more than {has}"
    return "asks for more CPU and memory together than any one node with its GPUs has"


def _most(nodes: Sequence[Amounts], name: str) -> int:
    return max((one.of(name) for one in nodes), default=0)


CHECK = Check(
    "fits-nowhere",
    Point.PLACING,
    Layer.PLACEMENT,
    "GPU pods that wait fit on some node",
    "What asks for more than any node has waits for ever, whatever ends before it.",
    judge,
    ("Node", "Pod"),
)
