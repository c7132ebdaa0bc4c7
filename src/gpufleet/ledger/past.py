"""The past of a cluster from a Prometheus, as observations of the ledger: all of it is an estimate.

kube-state-metrics tells which pods were on which nodes, what they asked for and when; the exporters of GPUs
tell which cards they held. A pod that lived between two scrapes is not known, so ``Sampled`` marks the time:
its rows are estimates. Versions have the number 0, so what a ledger saw of the same pod counts before them.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from gpufleet.kube.meanings.queue_names import named_queue
from gpufleet.ledger.counters import STEP_S
from gpufleet.ledger.interval_log import SAMPLED_NODE
from gpufleet.ledger.node_versions import model_name, priced_node
from gpufleet.ledger.past_facts import PastFacts, PastNode, PastPod, past_facts
from gpufleet.ledger.spans import Span, end_us, outside
from gpufleet.ledger.stamps import US_PER_S
from gpufleet.ledger.versions import (
    DeviceState,
    DevicesVersion,
    Gone,
    NodeVersion,
    ObjectKind,
    Observation,
    PodVersion,
    Sampled,
)
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid, QueueName
from gpufleet.model.model_errors import InputError
from gpufleet.usage.prometheus.client import Source

AGAIN_US = 2 * STEP_S * US_PER_S
"""What was last told of within this time of the end may still be there."""


class Past(msgspec.Struct, frozen=True):
    """What happened, and notes on what could not be said."""

    observations: tuple[Observation, ...]
    notes: tuple[str, ...]


def past_of(source: Source, span: Span) -> Past:
    """The past of a time that has an end. Raises WorldError, and InputError where nothing is told."""
    facts = past_facts(source, span)
    if not facts.nodes or not facts.told:
        raise InputError(
            "has no series kube_node_info in this time",
            where=source.url,
            expected="a server that scrapes kube-state-metrics, and a time in which it did",
        )
    return Past(*_made(facts, span))


def _made(facts: PastFacts, span: Span) -> tuple[tuple[Observation, ...], tuple[str, ...]]:
    observations: list[Observation] = []
    by_node: dict[str, list[PastPod]] = defaultdict(list)
    for _, pod in sorted(facts.pods.items()):
        by_node[pod.node].append(pod)
    unplaced: list[PastPod] = []
    for _, node in sorted(facts.nodes.items()):
        cards = _cards(node)
        observations += _node(node, cards, span)
        pods = by_node.get(node.name, [])
        unplaced += _placed(pods, list(cards))
        for pod in pods:
            observations += _pod(pod, facts, span)
    # Of a time with a pod whose cards are not told what is free is not known.
    known = [one for told in facts.told for one in outside((_life(pod) for pod in unplaced), told)]
    observations += [Sampled(one.from_us, min(end_us(one), end_us(span))) for one in known]
    return tuple(observations), tuple(_notes(facts, unplaced))


def _notes(facts: PastFacts, unplaced: Sequence[PastPod]) -> Iterator[str]:
    with_gpus = sum(1 for node in facts.nodes.values() if node.gpus or node.cards)
    yield f"{len(facts.pods):,} pods and {with_gpus:,} nodes with GPUs are estimates from samples"
    if unplaced:
        shown = ", ".join(str(pod.name) for pod in unplaced[:NAMES_SHOWN])
        more = len(unplaced) - NAMES_SHOWN
        names = f"{shown} and {more:,} more" if more > 0 else shown
        yield f"{names}: no series tells which GPUs they held; what is free meanwhile is not known"


NAMES_SHOWN = 3
"""A note names examples, not all."""


def _cards(node: PastNode) -> dict[DeviceId, str]:
    """The cards of a node by id, with their models: those that are told, else as many as it offered."""
    label = priced_node(node.labels, node.provider_id).gpu_model
    found = {card: model_name(model) or label for card, model in sorted(node.cards.items())}
    for number in range(len(found), node.gpus):
        found[DeviceId(f"{SAMPLED_NODE}{node.name}/{number}")] = label
    return found


def _node(node: PastNode, cards: dict[DeviceId, str], span: Span) -> Iterator[Observation]:
    uid = f"{SAMPLED_NODE}{node.name}"
    created_us = node.seen.from_us if node.created_us is None else node.created_us
    yield NodeVersion(
        uid,
        0,
        node.seen.from_us,
        NodeName(node.name),
        created_us,
        priced_as=priced_node(node.labels, node.provider_id),
        provider_id=node.provider_id,
        cpu_milli=node.cpu_milli,
        memory_bytes=node.memory_bytes,
    )
    until_us = end_us(node.seen)
    is_there = until_us + AGAIN_US >= end_us(span)
    if not is_there:
        yield Gone(ObjectKind.NODE, uid, 1, until_us)
    if cards:
        devices = tuple(DeviceState(card, model) for card, model in cards.items())
        at_us = node.seen.from_us
        yield DevicesVersion(uid, 0, at_us, NodeName(node.name), devices, created_us=created_us)
        # Its agent, where it came later, tells of the time after this one.
        yield Gone(ObjectKind.DEVICES, uid, 1, end_us(span) if is_there else until_us)


def _life(pod: PastPod) -> Span:
    begin_us = pod.seen.from_us if pod.bound_us is None else pod.bound_us
    ended_us = end_us(pod.seen) if pod.ended_us is None else min(pod.ended_us, end_us(pod.seen))
    return Span(begin_us, max(begin_us, ended_us))


def _placed(pods: Sequence[PastPod], cards: Sequence[DeviceId]) -> list[PastPod]:
    """Give pods that ask for whole GPUs cards that no other pod has; those of parts that none are told of."""
    unplaced = []
    taken: dict[DeviceId, list[Span]] = defaultdict(list)
    for pod in pods:
        for card in pod.cards:
            taken[card].append(_life(pod))
    for pod in sorted(pods, key=lambda one: (_life(one).from_us, one.uid)):
        if pod.cards or not (pod.gpus or pod.asks_for_parts):
            continue
        life = _life(pod)
        free = [card for card in cards if not any(_overlap(life, one) for one in taken[card])]
        if pod.asks_for_parts or len(free) < pod.gpus:
            unplaced.append(pod)
            continue
        for card in free[: pod.gpus]:
            pod.cards[card] = 1.0
            taken[card].append(life)
    return unplaced


def _overlap(one: Span, other: Span) -> bool:
    return one.from_us < end_us(other) and other.from_us < end_us(one)


def _pod(pod: PastPod, facts: PastFacts, span: Span) -> Iterator[Observation]:
    owner = facts.owners.owner(pod.name)
    queue = named_queue(pod.labels, {})
    bound_us = _life(pod).from_us
    uid = PodUid(pod.uid)
    yield PodVersion(
        uid,
        0,
        min(max(bound_us, pod.seen.from_us), end_us(pod.seen)),
        namespace=pod.name.namespace,
        name=pod.name.name,
        queue=QueueName("" if queue is None else queue[1]),
        labels=tuple(sorted(pod.labels.items())),
        owner="" if owner.kind in ("", "Pod") else f"{owner.kind}/{owner.name}",
        node=NodeName(pod.node),
        bound_us=bound_us,
        devices=tuple(_granted(card, part) for card, part in sorted(pod.cards.items())),
        cpu_milli=pod.cpu_milli,
        memory_bytes=pod.memory_bytes,
        # Without its start nothing tells how long it took: no time of it is called starting.
        started_us=bound_us if pod.started_us is None else max(bound_us, pod.started_us),
        was_started=True,
        deletion_us=pod.deletion_us,
        ended_us=pod.ended_us,
    )
    if end_us(pod.seen) + AGAIN_US < end_us(span):
        yield Gone(ObjectKind.POD, uid, 1, end_us(pod.seen))


def _granted(card: DeviceId, part: float) -> GrantedDevice:
    milli = min(WHOLE_GPU_MILLI, max(1, round(part * WHOLE_GPU_MILLI)))
    return GrantedDevice(card, GrantKind.WHOLE if milli == WHOLE_GPU_MILLI else GrantKind.SHARE, milli)
