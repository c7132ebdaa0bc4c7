"""Flavors of Kueue with labels that no node has: their quota is given out, and work in it fits nowhere."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, Unjudged, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.kubectl import get_command
from gpufleet.doctor.views.growth import may_grow
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.model.label_advice import nearest


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """Each flavor that a queue names."""
    flavors = [one for one in facts.of_kind("ResourceFlavor") if _labels(one)]
    nodes = [one.labels for one in facts.nodes]
    used = _used(facts)
    bad = 0
    grows = may_grow(facts)
    for flavor in flavors:
        labels = _labels(flavor)
        if flavor.name not in used or any(labels.items() <= node.items() for node in nodes):
            continue
        suffering = _sent(facts, labels)
        if grows and not suffering:
            yield Unjudged(f"{flavor.title}: no node has its labels; an autoscaler may add one that has")
            continue
        bad += 1
        yield _failure(facts, flavor, labels, used[flavor.name], suffering)
    if flavors and not bad:
        yield Good("the labels of every flavor that a queue names are those of some node")


def _labels(flavor: Manifest) -> dict[str, str]:
    return {name: one.text or "" for name, one in flavor.root.at("spec", "nodeLabels").entries()}


def _used(facts: Facts) -> dict[str, list[str]]:
    """The ClusterQueues that name each flavor."""
    found: dict[str, list[str]] = {}
    for queue in facts.of_kind("ClusterQueue"):
        for group in queue.root.at("spec", "resourceGroups").items():
            for flavor in group.at("flavors").items():
                found.setdefault(flavor.text_at("name") or "", []).append(queue.title)
    return found


def _sent(facts: Facts, labels: dict[str, str]) -> frozenset[str]:
    """The work that waits with the labels of the flavor, which Kueue writes into the pods' selection."""
    found: set[str] = set()
    for one in facts.waiting:
        selector = {name: each.text for name, each in one.root.at("spec", "nodeSelector").entries()}
        if labels.items() <= selector.items():
            workload = facts.gpu_workload_above(one.manifest)
            found |= {one.title} | (workload.affects if workload is not None else frozenset())
    return frozenset(found)


def _failure(
    facts: Facts, flavor: Manifest, labels: dict[str, str], queues: list[str], suffering: frozenset[str]
) -> Failure:
    key, value = next(
        (pair for pair in labels.items() if not any(pair in one.labels.items() for one in facts.nodes)),
        next(iter(labels.items())),
    )
    values = sorted({one.labels[key] for one in facts.nodes if key in one.labels})
    near = nearest(value, values)
    hint = f" (did you mean {near}?)" if near else ""
    seen = f"nodes have {key}: {listed(values)}" if values else f"no node has the label {key}"
    return Failure(
        f"{flavor.title}: no node has {key}={value}, and {listed(queues)} gives out its quota",
        (flavor.title,),
        (f"nodeLabels: {key}={value}", seen),
        (
            Remedy(
                f"write labels that nodes have{hint}",
                get_command(flavor).replace("kubectl get", "kubectl edit", 1),
            ),
        ),
        suffering | set(queues),
    )


CHECK = Check(
    "flavor-matches-nothing",
    Point.QUOTAS,
    Layer.QUEUE,
    "Flavors of queues match nodes",
    "Kueue sends what it lets in to nodes with the flavor's labels; where there are none it waits for ever.",
    judge,
    ("Node", "ResourceFlavor"),
)
