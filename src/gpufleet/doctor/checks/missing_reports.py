"""Nodes with GPUs that are given out by id, or watched by an agent, and without a report of them now."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.objects.pods import PodView
from gpufleet.doctor.views.waiting import held_up_by
from gpufleet.kube import keys
from gpufleet.kube.codec.grant import granted_devices, read_grant
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.node import GPU_HEALTHY

DEFINITION = "nodedevices.gpufleet.io"


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """All nodes that lack a report, in one failure."""
    known = [one for one in facts.nodes if one.devices is not None]
    lost = {one.name: _evidence(facts, one) for one in facts.nodes if one.devices is None}
    nodes = [one for one in facts.nodes if lost.get(one.name)]
    if known and not nodes:
        yield Good("every node whose GPUs are given out by id reports them")
    if not nodes:
        return
    names = [one.name for one in nodes]
    look = "kubectl get pods -A -o wide -l app.kubernetes.io/component=agent"
    look += f" --field-selector spec.nodeName={names[0]}"
    mends = [Remedy("see whether the agent runs on the node, and why it does not report", look)]
    # Without any report at all the definition may be what lacks, so that is looked at first.
    if not facts.of_kind("NodeDevices"):
        definition = "see whether the definition of the reports is there; helm upgrade puts it back"
        mends.insert(0, Remedy(definition, f"kubectl get crd {DEFINITION}"))
    yield Failure(
        f"{listed(names)}: GPUs are given out by id, and there is no report (NodeDevices) of them",
        tuple(one.title for one in nodes),
        tuple(f"{name}: {lost[name]}" for name in names),
        tuple(mends),
        frozenset(one.title for one in nodes) | held_up_by(facts, nodes),
    )


def _evidence(facts: Facts, node: NodeView) -> str:
    """What says that the node should have a report; "" if nothing does."""
    holders = [pod.title for pod in facts.pods_by_node.get(node.name, ()) if _names_devices(pod)]
    if holders:
        return f"{listed(holders)} hold{'s' if len(holders) == 1 else ''} GPUs of it by their ids"
    return f"it has the condition {GPU_HEALTHY}" if GPU_HEALTHY in node.conditions else ""


def _names_devices(pod: PodView) -> bool:
    text = pod.manifest.annotation(keys.GRANT)
    if text is None:
        return False
    try:
        return bool(granted_devices(read_grant(text)))
    except ObjectError:
        return True


CHECK = Check(
    "report-missing",
    Point.STACK,
    Layer.STACK,
    "Nodes whose GPUs are given out by id report them",
    "Without a report nothing tells which GPUs are free: the node gets no work with GPUs until it comes.",
    judge,
    ("Node", "Pod", "NodeDevices"),
)
