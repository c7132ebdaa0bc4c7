"""Gangs that can never start: more members than there will be, than have room, or than the queue allows.

Rule GPU024 of lint, asked about what waits.
"""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.objects.status import age_s
from gpufleet.doctor.views.growth import may_grow
from gpufleet.doctor.views.queues import is_suspended
from gpufleet.lint.objects.cluster import Cluster
from gpufleet.lint.objects.context import Context
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.rule import RuleFinding
from gpufleet.lint.rules.gang_too_large import RULE

# Kinds of which room and quota of a gang are judged.
_ASKED = ("Node", "FleetQueue", "ClusterQueue", "LocalQueue", "Cohort")
_NODES_COME_S = 900.0
"""How long a cluster that grows has to bring nodes."""


def judge(facts: Facts) -> Iterator[Failure]:
    """Each gang that can never start, of work that waits or of a PodGroup."""
    waits = {
        one.title: one
        for one in facts.gpu_workloads
        if is_suspended(one.manifest) or any(pod.waits for pod in one.pods)
    }
    grows, contexts = may_grow(facts), _contexts(facts)
    for manifest in (*(one.manifest for one in waits.values()), *facts.of_kind("PodGroup")):
        age = age_s(manifest.root.at("metadata", "creationTimestamp"), facts.now) or 0.0
        if not RULE.concerns(manifest) or (grows and age < _NODES_COME_S):
            continue
        verdicts = RULE.check(manifest, contexts[manifest.namespace])
        remarks = [one for one in verdicts if isinstance(one, RuleFinding)]
        if remarks:
            workload = waits.get(manifest.title)
            affected = workload.affects if workload is not None else _members(facts, manifest)
            if affected:
                yield _failure(manifest, remarks, affected)


def _contexts(facts: Facts) -> dict[str, Context]:
    """What is to be known of gangs, by namespace: no gang reaches beyond its own, and there may be many."""
    cluster = Cluster(facts.of_kind(*_ASKED), facts.listed)
    found: dict[str, list[Manifest]] = {}
    for one in facts.context.manifests:
        if one.templates or one.kind == "PodGroup":
            found.setdefault(one.namespace, []).append(one)
    return {namespace: Context(tuple(there), cluster) for namespace, there in found.items()}


def _members(facts: Facts, group: Manifest) -> frozenset[str]:
    """The pods that wait for a PodGroup and name it in any way."""
    return frozenset(
        title
        for pod in facts.waiting
        if pod.namespace == group.namespace and group.name in pod.group_names
        for title in (pod.title, group.title)
    )


def _failure(manifest: Manifest, remarks: list[RuleFinding], affected: frozenset[str]) -> Failure:
    first = remarks[0]
    return Failure(
        f"{manifest.title}: {first.says}",
        (manifest.title,),
        tuple(f"{one.field.path}: {one.field.text}" for one in remarks),
        (Remedy(first.advice, get_command(manifest).replace("kubectl get", "kubectl edit", 1)),),
        affected,
    )


CHECK = Check(
    "gang-impossible",
    Point.GANGS,
    Layer.PLACEMENT,
    "Gangs that wait can start",
    "A gang that needs more than there can ever be waits for ever, and may hold a place in its queue.",
    judge,
    ("Node", "Pod"),
)
