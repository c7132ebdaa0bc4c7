"""GPU nodes with a kubelet that does not say that it is well, and those that were cordoned and left."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy, Unjudged, listed
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.doctor.views.growth import COMING_S, is_joining, may_grow
from gpufleet.doctor.views.waiting import kept_to
from gpufleet.model.phrases import counted, none_of, subject, verb


def judge(facts: Facts) -> Iterator[Failure | Good | Unjudged]:
    """The nodes that are down, and whether there are GPU nodes at all."""
    nodes = facts.gpu_nodes
    if not nodes:
        # An autoscaler takes some minutes for a node; until then none is missing.
        if may_grow(facts) and not any(one.age_s(facts.now) > COMING_S for one in facts.waiting):
            yield Unjudged("there is no GPU node now; nodes may come when GPU pods wait for them")
            return
        says = f"{none_of(len(facts.nodes), 'node')} has a GPU, or a label that promises one"
        mend = Remedy(
            "add GPU nodes; on a node that has GPUs, feature discovery labels it",
            "kubectl get nodes -L nvidia.com/gpu.present,nvidia.com/gpu.product",
        )
        yield Failure(says, (), ("no label, capacity or NodeDevices with GPUs",), (mend,))
        return
    down = [one for one in nodes if not one.is_ready and not is_joining(one, facts.now)]
    if down:
        yield _failure(facts, down)
    else:
        ready = [one for one in nodes if one.is_ready]
        gpus = sum(one.whole_gpus for one in ready)
        yield Good(
            f"{len(ready)} of {counted(len(nodes), 'GPU node')} {verb(len(ready), 'are')} Ready, "
            f"with {counted(gpus, 'whole GPU')} to give"
        )


def _failure(facts: Facts, down: list[NodeView]) -> Failure:
    pods = [pod for one in down for pod in facts.pods_by_node.get(one.name, ())]
    names = [one.name for one in down]
    lost = sum(one.whole_gpus for one in down)
    return Failure(
        f"{listed(names)}: not Ready, so {subject(lost, 'GPU', 'are')} out of reach",
        tuple(one.title for one in down),
        tuple(f"{one.name}: {_reason(one)}" for one in down),
        (
            Remedy(
                "look at the kubelet of the node: journalctl -u kubelet", f"kubectl describe node {names[0]}"
            ),
        ),
        frozenset({*(one.title for one in down), *(pod.title for pod in pods)}) | kept_to(facts, down),
    )


def _reason(node: NodeView) -> str:
    ready = node.conditions.get("Ready")
    if ready is None:
        return "no kubelet has reported yet"
    told = ": ".join(one for one in (ready.reason, ready.message) if one)
    return f"Ready={ready.status} {told}".rstrip()


CHECK = Check(
    "nodes-unready",
    Point.NODES,
    Layer.NODE,
    "GPU nodes are Ready",
    "A node that is not Ready takes no pods, and those on it are about to be moved.",
    judge,
    ("Node",),
)
