"""A plan from its words to its answer, for a live cluster or a snapshot."""

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from functools import partial

import msgspec

from gpufleet.cluster.facts import Facts
from gpufleet.cluster.progress import Say
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.command import gaps
from gpufleet.cluster.snapshots.decisions import Moment
from gpufleet.cluster.snapshots.document import engine_time_us
from gpufleet.cluster.snapshots.sources import on_cluster, on_snapshot
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import resources
from gpufleet.kube.connection import ClusterChoice
from gpufleet.kube.meanings.node_labels import INSTANCE_TYPE, REGION, ZONE
from gpufleet.model.identifiers import PodUid
from gpufleet.plan.answer import SCHEMA, OneType, Plan, Purchase
from gpufleet.plan.instance_types import Catalogue, InstanceType
from gpufleet.plan.planning import Found, Planning, node_name
from gpufleet.plan.waiting_work import allocatable_cpu_milli, allocatable_memory_mib
from gpufleet.whatif.answer import Work
from gpufleet.whatif.command import Changed, written_moment
from gpufleet.whatif.course import Course
from gpufleet.whatif.difference import EXPLAINED_MAX, Difference
from gpufleet.whatif.nodes import add_nodes
from gpufleet.whatif.request import AddNodes, Request

SECOND_US = 10**6


class Question(msgspec.Struct, frozen=True):
    """What is asked: work and other changes, what can be bought, and how long work may wait."""

    request: Request
    catalogue: Catalogue
    by_s: float = 0.0


def of_snapshot(question: Question, lines: Iterable[bytes], where: str) -> Plan:
    """The plan for a snapshot."""
    return on_snapshot(lines, where, partial(plan_of, question))


def of_cluster(question: Question, cluster: ClusterChoice, settings: Settings) -> Plan:
    """The plan for a cluster as it is now."""
    return on_cluster(cluster, settings, partial(plan_of, question))


def plan_of(question: Question, picture: Picture, settings: Settings, at: dt.datetime, say: Say) -> Plan:
    """Which nodes start what waits. Raises InputError for changes that cannot be."""
    changed = Changed(question.request, picture, settings, at)
    now_us, by_us = engine_time_us(at), int(question.by_s * SECOND_US)
    types = question.catalogue.types

    def attempt(counts: Sequence[int], left_out: Collection[PodUid]) -> Course:
        copy = changed.picture.copied()
        for kind in (resources.NODES, resources.NODE_DEVICES, resources.CSI_NODES):
            copy.objects[kind] = {}
        pods = copy.objects.get(resources.PODS, {}).items()
        copy.objects[resources.PODS] = {
            key: pod for key, pod in pods if not (pod.spec.node_name or pod.metadata.uid in left_out)
        }
        return course_of(copy, counts)

    def judge(counts: Sequence[int]) -> Course:
        return course_of(changed.picture.copied(), counts)

    def course_of(copy: Picture, counts: Sequence[int]) -> Course:
        for one, count in zip(types, counts, strict=True):
            if count:
                add_nodes(copy, wanted_nodes(one, count))
        return Course(Facts(copy, settings, Moment(at)), now_us, by_us)

    found = Planning(types, now_us + by_us, judge, attempt, say).found()
    return _answer(question, found, changed, picture, at)


def wanted_nodes(one: InstanceType, count: int) -> AddNodes:
    """New nodes of a type, with the labels that a provider gives them."""
    labels = ((INSTANCE_TYPE, one.name), (REGION, one.region), (ZONE, one.zone))
    return AddNodes(
        one.name,
        count,
        gpus=one.gpus,
        model=one.gpu_model,
        cpu=f"{allocatable_cpu_milli(one)}m",
        memory=f"{allocatable_memory_mib(one)}Mi",
        sharing="mixed",
        labels=tuple((key, value) for key, value in labels if value),
        name=node_name(one),
    )


def _answer(question: Question, found: Found, changed: Changed, picture: Picture, at: dt.datetime) -> Plan:
    helped = frozenset(found.helped)
    told = Difference(found.course, found.course, changed.submitted)
    why = Difference(found.ample, found.ample, changed.submitted)
    others = [uid for uid in found.late if uid not in helped]
    nothing, more = _nothing_helps(why, others)
    types = question.catalogue.types
    nodes = [_purchase(one, count) for one, count in zip(types, found.counts, strict=True) if count]
    missing = gaps(kind.plural for kind in picture.forbidden)
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
        told.started(helped),
        nothing,
        more,
        tuple(
            OneType(types[index].name, count, pods, count * types[index].price_micro)
            for index, count, pods in found.alone
        ),
        (*changed.notes, *([missing] if missing else ())),
    )


def _purchase(one: InstanceType, count: int) -> Purchase:
    return Purchase(
        one.name,
        count,
        one.gpus,
        one.gpu_model,
        one.price_micro,
        node_name(one),
        one.provider,
        one.region,
        one.zone,
        one.capacity_type,
    )


def _nothing_helps(difference: Difference, uids: Sequence[PodUid]) -> tuple[tuple[Work, ...], int]:
    """Work that no purchase starts in time, each with its reason, and how many pods are not listed."""
    work = difference.waiting_of(frozenset(uids))
    return work[:EXPLAINED_MAX], sum(one.pods for one in work[EXPLAINED_MAX:])
