"""A plan from its words to its answer, for a live cluster or a snapshot."""

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.progress import Say
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.cluster.snapshots.sources import on_cluster, on_snapshot
from gpufleet.cluster.watching.picture import Picture
from gpufleet.engine.event import Event, PodAdded
from gpufleet.kube import resources
from gpufleet.kube.connection import ClusterChoice
from gpufleet.kube.meanings.node_labels import INSTANCE_TYPE, REGION, ZONE
from gpufleet.kube.objects.node import Node
from gpufleet.ledger.node_versions import SPOT
from gpufleet.model.identifiers import PodUid
from gpufleet.model.model_errors import InternalError
from gpufleet.model.node_pool import Amounts
from gpufleet.model.phrases import counted
from gpufleet.model.spot import KARPENTER_CAPACITY_TYPE
from gpufleet.plan.answer import SCHEMA, OneType, Plan, Removed, purchase_of
from gpufleet.plan.history.spot_choice import SpotQuestion
from gpufleet.plan.instance_types import Catalogue, InstanceType
from gpufleet.plan.node_names import beginning, named
from gpufleet.plan.node_prices import price_micro
from gpufleet.plan.planning import Found, Planning
from gpufleet.plan.pools.pool_limits import bounded, exceeded, within
from gpufleet.plan.purchased_nodes import PurchasedNodes
from gpufleet.plan.waiting_spot import SPOT_SHARE, plan_spot, spread
from gpufleet.plan.waiting_work import after_evictions, allocatable_cpu_milli, allocatable_memory_mib
from gpufleet.progress.collection_pause import without_collections
from gpufleet.whatif.answer import Work
from gpufleet.whatif.command import Changed, notes_of, written_moment
from gpufleet.whatif.course import Course
from gpufleet.whatif.difference import EXPLAINED_MAX, Difference
from gpufleet.whatif.nodes import add_nodes, made_anew
from gpufleet.whatif.request import AddNodes, Request

SECOND_US = 10**6
BOUNDED_MAX = 20
"""A plan is made anew with bounds at most as often: each turn bounds further pools or types for good."""


class Question(msgspec.Struct, frozen=True):
    """What is asked: work and other changes, what can be bought, and how long work may wait.

    ``left`` is by how much the NodePools that buy may still grow, and ``notes`` is what there is to say of
    them. Of all GPUs on spot capacity at most such a share is of one type in one zone.
    """

    request: Request
    catalogue: Catalogue
    by_s: float = 0.0
    left: Mapping[str, Amounts] = {}
    notes: tuple[str, ...] = ()
    spot: SpotQuestion = SpotQuestion()
    spot_share_pct: int = 100


def of_snapshot(question: Question, lines: Iterable[bytes], where: str) -> Plan:
    """The plan for a snapshot."""
    return on_snapshot(lines, where, partial(plan_of, question))


def of_cluster(question: Question, cluster: ClusterChoice, settings: Settings) -> Plan:
    """The plan for a cluster as it is now."""
    return on_cluster(cluster, settings, partial(plan_of, question))


def plan_of(question: Question, picture: Picture, settings: Settings, at: dt.datetime, say: Say) -> Plan:
    """Which nodes start what waits. Raises InputError for changes that cannot be."""
    with without_collections():
        return _plan_of(question, picture, settings, at, say)


def _plan_of(
    question: Question,
    picture: Picture,
    settings: Settings,
    at: dt.datetime,
    say: Say,
    without_spot: frozenset[PodUid] = frozenset(),
) -> Plan:
    changed = Changed(question.request, picture, settings, at)
    now_us, by_us = engine_time_us(at), int(question.by_s * SECOND_US)
    nodes = changed.picture.objects.get(resources.NODES, {})
    facts = Facts(changed.picture.copied(), settings, Moment(at))
    spot = plan_spot(question.catalogue.types, question.spot, facts, changed.picture, without_spot)
    if spot.work:
        facts = Facts(changed.picture.copied(), settings, Moment(at))
    types = named(bounded(spot.types, question.left), (name for _, name in nodes))

    read_once = PurchasedNodes(facts, [partial(_add_of_type, one) for one in types])

    def attempt(counts: Sequence[int], tried: Collection[PodUid], left_out: Collection[PodUid]) -> Course:
        copy = changed.picture.copied()
        for kind in (resources.NODES, resources.NODE_DEVICES, resources.CSI_NODES):
            copy.objects[kind] = {}
        pods = copy.objects.get(resources.PODS, {}).items()
        # No node is left, so no pod runs: of those that did only the tried ones are there, and wait.
        copy.objects[resources.PODS] = {
            key: made_anew(pod, written_moment(at)) if pod.spec.node_name else pod
            for key, pod in pods
            if pod.metadata.uid in tried or not (pod.spec.node_name or pod.metadata.uid in left_out)
        }
        facts = read_once.read_anew(copy, counts)
        facts.waves = [[_alone(event) for event in wave] for wave in facts.waves]
        return Course(facts, now_us, by_us)

    def judge(counts: Sequence[int]) -> Course:
        return Course(read_once.facts_of(counts), now_us, by_us)

    def found_among(among: tuple[InstanceType, ...]) -> Found:
        return Planning(among, now_us + by_us, judge, attempt, say).found()

    found, bounding = _found_within(types, question, found_among)
    helped = frozenset(found.helped)
    unhelped = frozenset(uid for uid in found.late if uid in spot.chosen and uid not in helped)
    if unhelped:
        # Spot capacity is bounded, and this work would wait for it: it falls back to on demand.
        return _plan_of(question, picture, settings, at, say, without_spot | unhelped)
    notes = (*spot.notes, *bounding)
    return msgspec.structs.replace(_answer(question, types, found, changed, at, notes), spot=spot.work)


def _found_within(
    types: tuple[InstanceType, ...],
    question: Question,
    found_among: Callable[[tuple[InstanceType, ...]], Found],
) -> tuple[Found, list[str]]:
    """The purchase within the limits of pools and the share of spot capacity, and notes about both."""
    found = found_among(types)
    passed: list[str] = []
    for _ in range(BOUNDED_MAX):
        if pools := exceeded(types, found.counts, question.left):
            passed += pools
            types = within(types, found.counts, pools, question.left)
        elif spreads := spread(types, found.counts, question.spot_share_pct):
            types = spreads
        else:
            break
        found = found_among(types)
    if exceeded(types, found.counts, question.left):
        raise InternalError("a plan passes the limits of a pool of which every type is bounded")
    notes = _bounding(passed)
    if spread(types, found.counts, question.spot_share_pct):
        notes.append(
            f"more than {question.spot_share_pct} % of the GPUs on spot are of one type in one zone: after"
            f" {counted(BOUNDED_MAX, 'further plan')} none was within {SPOT_SHARE}; name fewer types,"
            " or a larger share"
        )
    return found, notes


def _bounding(pools: Iterable[str]) -> list[str]:
    """Says of pools that their limits bound the plan."""
    return [
        f"the limits of NodePool {pool} bound this plan: another mix of its types may cost less"
        for pool in sorted(set(pools))
    ]


def _alone(event: Event) -> Event:
    """A pod that starts alone, without its gang; other events as they are."""
    if isinstance(event, PodAdded) and event.pod.gang is not None:
        return PodAdded(msgspec.structs.replace(event.pod, gang=None, role=""))
    return event


def _add_of_type(one: InstanceType, picture: Picture, count: int) -> None:
    add_nodes(picture, wanted_nodes(one, count))


def wanted_nodes(one: InstanceType, count: int) -> AddNodes:
    """New nodes of a type, with the labels that a provider gives them."""
    labels = [(INSTANCE_TYPE, one.name), (REGION, one.region), (ZONE, one.zone)]
    if one.capacity_type == SPOT:
        labels.append((KARPENTER_CAPACITY_TYPE, SPOT))
    return AddNodes(
        one.name,
        count,
        gpus=one.gpus,
        model=one.gpu_model,
        cpu=f"{allocatable_cpu_milli(one)}m",
        memory=f"{allocatable_memory_mib(one)}Mi",
        sharing="mixed",
        labels=tuple({**{key: value for key, value in labels if value}, **dict(one.labels)}.items()),
        name=one.node_names,
        taints=one.taints,
        amounts=one.amounts,
    )


def _answer(
    question: Question,
    types: Sequence[InstanceType],
    found: Found,
    changed: Changed,
    at: dt.datetime,
    bounding: Sequence[str],
) -> Plan:
    helped = frozenset(found.helped)
    difference = Difference(found.base, found.course, changed.submitted)
    nothing, more = _nothing_helps(
        Difference(found.ample, found.ample, changed.submitted),
        [after_evictions(found.ample, uid) for uid in found.late if uid not in helped],
    )
    nodes = [purchase_of(one, count) for one, count in zip(types, found.counts, strict=True) if count]
    ends = [after_evictions(found.course, uid) for uid in helped]
    return Plan(
        SCHEMA,
        written_moment(at),
        question.by_s,
        tuple(changed.words),
        question.catalogue.source,
        question.catalogue.currency,
        tuple(nodes),
        sum(one.cost_micro for one in nodes),
        len(found.late),
        len(found.helped),
        difference.started(frozenset(uid for uid in ends if found.course.start_of(uid) is not None)),
        difference.spared(),
        difference.evicted(),
        difference.delayed(),
        tuple(changed.lost),
        nothing,
        more,
        tuple(_one_type(types[index], count, pods) for index, count, pods in found.alone),
        _removed(changed.removed, question.catalogue),
        (
            *question.notes,
            *bounding,
            *changed.notes,
            *notes_of(changed.picture, found.base, found.course),
            *_without_gpus(found, types),
        ),
    )


def _removed(nodes: Sequence[Node], catalogue: Catalogue) -> Removed:
    prices = [price_micro(node, catalogue) for node in nodes]
    known = [price for price in prices if price is not None]
    return Removed(len(nodes), sum(known), len(nodes) - len(known))


def _one_type(one: InstanceType, count: int, pods: int) -> OneType:
    cost_micro = count * one.price_micro
    where = (one.provider, one.region, one.zone, one.capacity_type, one.pool)
    return OneType(one.name, count, pods, cost_micro, *where)


def _without_gpus(found: Found, types: Sequence[InstanceType]) -> list[str]:
    """Says of pods that get a new node with GPUs, and ask for none."""
    begins = {one.node_names for one in types}
    ends = [(uid, found.course.place(after_evictions(found.course, uid))) for uid in found.helped]
    new = [uid for uid, place in ends if place is not None and beginning(place.node) in begins]
    pods = [uid for uid in new if not found.base.meanings[uid].shape.gpu.count]
    if not pods:
        return []
    verb = "asks" if len(pods) == 1 else "ask"
    return [f"{counted(len(pods), 'pod')} on new nodes {verb} for no GPU: a node without GPUs may cost less"]


def _nothing_helps(difference: Difference, uids: Sequence[PodUid]) -> tuple[tuple[Work, ...], int]:
    """Work that no purchase starts in time, each with its reason, and how many pods are not listed."""
    work = difference.waiting_of(frozenset(uids))
    return work[:EXPLAINED_MAX], sum(one.pods for one in work[EXPLAINED_MAX:])
