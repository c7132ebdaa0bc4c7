"""Two device plugins for GPUs of one maker on one node: each tells the kubelet of the same cards."""

from collections.abc import Iterator
from itertools import combinations

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.stack import Daemon, StackPart, stack_of


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each two plugins, with the nodes on which both are."""
    # A DRA driver beside a plugin may be there for other things than GPUs.
    plugins = [
        one for one in stack_of(facts).having(StackPart.PLUGIN) if "dra-driver" not in one.manifest.name
    ]
    rivals = False
    for one, other in combinations(plugins, 2):
        both = [node for node in facts.gpu_nodes if _are_on(node, one, other)]
        if both:
            rivals = True
            yield _failure(one, other, both)
    if plugins and not rivals:
        yield Good("no node has two device plugins for the same GPUs")


def _are_on(node: NodeView, one: Daemon, other: Daemon) -> bool:
    same = one.vendors & other.vendors
    return bool(same & node.vendors) and node.name in one.pod_on and node.name in other.pod_on


def _failure(one: Daemon, other: Daemon, nodes: list[NodeView]) -> Failure:
    place = f"-n {other.manifest.namespace} {other.manifest.name}"
    return Failure(
        f"{listed(node.name for node in nodes)}: {one.title} and {other.title} both announce the same GPUs",
        tuple(node.title for node in nodes),
        tuple(f"{daemon.title}: a pod on {node.name}" for node in nodes[:3] for daemon in (one, other)),
        (
            Remedy(
                "keep one: uninstall the other, or keep it off these nodes",
                f"kubectl delete daemonset {place}",
            ),
        ),
        frozenset(node.title for node in nodes),
    )


CHECK = Check(
    "plugins-rival",
    Point.STACK,
    Layer.STACK,
    "One device plugin serves a node",
    "The kubelet believes the plugin that registered last: a GPU is given twice, or the count changes.",
    judge,
    ("Node", "DaemonSet", "Pod"),
)
