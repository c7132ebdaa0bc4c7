"""Nodes with a plugin that is to read a missing configuration: no such ConfigMap, or no such key."""

from collections.abc import Iterator

from gpufleet.devices.sharing.chosen import CONFIG_LABEL
from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.sharing import Declared, declared_for
from gpufleet.doctor.views.stack import stack_of
from gpufleet.doctor.views.waiting import held_up_by


def judge(facts: Facts) -> Iterator[Failure]:
    """The nodes by what is missing."""
    stack = stack_of(facts)
    missing: dict[tuple[str, str], list[tuple[NodeView, Declared]]] = {}
    for node in facts.gpu_nodes:
        declared = declared_for(facts, stack, node)
        if declared is not None and declared.is_missing:
            missing.setdefault((declared.where, declared.problem), []).append((node, declared))
    for (where, problem), nodes in missing.items():
        yield failure_of(facts, where, problem, [node for node, _ in nodes])


def failure_of(facts: Facts, where: str, problem: str, nodes: list[NodeView]) -> Failure:
    """What is told of a configuration that a plugin cannot use."""
    names = [one.name for one in nodes]
    kind, _, place = where.partition(",")[0].partition(" ")
    namespace, _, name = place.partition("/")
    labelled = [
        f"{one.name}: label {CONFIG_LABEL}={one.labels[CONFIG_LABEL]}"
        for one in nodes
        if CONFIG_LABEL in one.labels
    ]
    return Failure(
        f"{listed(names)}: the plugin cannot use {where}: {problem}",
        tuple(one.title for one in nodes),
        (f"{where}: {problem}", *labelled),
        (
            Remedy("see what the ConfigMap has", f"kubectl get {kind.lower()} -n {namespace} {name} -o yaml"),
            Remedy("see which one each node names", f"kubectl get nodes -L {CONFIG_LABEL}"),
        ),
        frozenset(one.title for one in nodes) | held_up_by(facts, [one for one in nodes if not one.offers]),
    )


CHECK = Check(
    "sharing-config-missing",
    Point.SHARING,
    Layer.DRIVER,
    "Sharing configurations that nodes name exist",
    "A plugin that is told to read what is not there does not start, or goes on as before.",
    judge,
    ("Node", "DaemonSet", "Pod", "ConfigMap"),
)
