"""GPU nodes that are called Ready while their kubelet has said nothing for minutes.

The node controller, which ought to call them not ready, does not work either.
"""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Layer, Point, Remedy, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.views.leases import NODE_LEASES, leases_of
from gpufleet.doctor.views.waiting import kept_to

SILENT_S = 300.0
"""Kubelets renew every ten seconds, and the node controller waits for less than a minute."""


def judge(facts: Facts) -> Iterator[Failure]:
    """All Ready nodes with a silent kubelet, in one failure."""
    leases = leases_of(facts)
    silent = {
        one.name: seconds
        for one in leases.all
        if one.namespace == NODE_LEASES
        and (seconds := leases.silent_s(one)) is not None
        and seconds > SILENT_S
    }
    # A silent node that is not Ready is another check's.
    nodes = [one for one in facts.gpu_nodes if one.is_ready and one.name in silent]
    if not nodes:
        return
    names = [one.name for one in nodes]
    pods = [pod.title for name in names for pod in facts.pods_by_node.get(name, ())]
    yield Failure(
        f"{listed(names)}: called Ready, but the kubelet has said nothing for minutes",
        tuple(one.title for one in nodes),
        tuple(f"{name}: its Lease was not renewed for {silent[name]:.0f} s" for name in names),
        (
            Remedy(
                "look at the kubelet of the node: journalctl -u kubelet", f"kubectl describe node {names[0]}"
            ),
            Remedy(
                "look why the node controller does not call it not ready",
                "kubectl get pods -n kube-system -l component=kube-controller-manager",
            ),
        ),
        frozenset({*(one.title for one in nodes), *pods}) | kept_to(facts, nodes),
    )


CHECK = Check(
    "nodes-silent",
    Point.NODES,
    Layer.NODE,
    "Kubelets of GPU nodes report",
    "Pods are placed on a node that is called Ready, and no kubelet starts them.",
    judge,
    ("Node", "Lease"),
)
