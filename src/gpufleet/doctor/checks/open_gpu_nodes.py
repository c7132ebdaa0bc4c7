"""GPU nodes without a taint on which pods without GPUs run, while other nodes could take these."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Grade, Layer, Point, Remedy, listed
from gpufleet.doctor.checks.crowded_out import is_guest
from gpufleet.doctor.facts import Facts

_OF_THE_CLUSTER = "kube-system"


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """All GPU nodes without a taint in one failure, with the pods on them that ask for no GPU."""
    # Where all nodes have GPUs, other pods have to run beside them.
    elsewhere = [one for one in facts.nodes if not one.promises_gpus and one.is_ready and not one.taints]
    if not elsewhere or not facts.gpu_nodes:
        return
    guests = {
        node.name: [
            one
            for one in facts.pods_by_node.get(node.name, ())
            if is_guest(one) and one.namespace != _OF_THE_CLUSTER
        ]
        for node in facts.gpu_nodes
        if not node.taints
    }
    taken = {name: pods for name, pods in guests.items() if pods}
    if not taken:
        yield Good("no pod without GPUs is on a GPU node that other nodes could take")
        return
    yield Failure(
        f"{listed(taken)}: no taint, and pods without GPUs run there",
        tuple(f"Node {name}" for name in taken),
        tuple(f"{name}: {listed(one.title for one in pods)}" for name, pods in taken.items()),
        (
            Remedy(
                "taint GPU nodes; pods that ask for GPUs then have to tolerate it",
                f"kubectl taint nodes {' '.join(taken)} nvidia.com/gpu=present:NoSchedule",
            ),
        ),
    )


CHECK = Check(
    "gpu-nodes-open",
    Point.PLACING,
    Layer.PRACTICE,
    "GPU nodes are kept for GPU work",
    "Pods without GPUs fill the CPU and the memory beside GPUs, and hold up the draining of the node.",
    judge,
    ("Node", "Pod"),
    Grade.RISK,
)
