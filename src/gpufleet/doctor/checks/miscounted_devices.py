"""Nodes where the agent sees another number of GPUs than the kubelet was told of."""

from collections.abc import Iterator

from gpufleet.doctor.check import Check, Failure, Good, Layer, Point, Remedy
from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.nodes import NodeView
from gpufleet.kube.keys import GPU_SHARE
from gpufleet.kube.meanings.gpu_resources import is_whole_gpu
from gpufleet.model.phrases import counted


def judge(facts: Facts) -> Iterator[Failure | Good]:
    """Each node with two counts that differ; what is cut or renamed is counted otherwise and left out."""
    comparable = [one for one in facts.gpu_nodes if _is_comparable(one)]
    wrong = [one for one in comparable if _counted_by_kubelet(one) != len(one.device_fields)]
    for node in wrong:
        seen, known = len(node.device_fields), _counted_by_kubelet(node)
        yield Failure(
            f"{node.name}: its agent sees {counted(seen, 'GPU')}, and the kubelet was told of {known}",
            (node.title,),
            (
                f"NodeDevices {node.name}: {counted(seen, 'device')}",
                *(f"status.capacity {name}: {count}" for name, count in node.capacity.items()),
            ),
            (
                Remedy(
                    "see what tells the kubelet: another device plugin, or an agent that has stopped",
                    f"kubectl get pods -A -o wide --field-selector spec.nodeName={node.name}",
                ),
            ),
            frozenset({node.title}),
        )
    if comparable and not wrong:
        yield Good("kubelets and agents count the same GPUs")


def _is_comparable(node: NodeView) -> bool:
    """Whether each device of the report is one unit of a resource of whole GPUs."""
    names = {name for name, count in node.capacity.items() if count}
    only_whole = bool(names) and all(is_whole_gpu(name) or name == GPU_SHARE for name in names)
    modes = {one.text_at("sharing") or "whole" for one in node.device_fields}
    return only_whole and any(map(is_whole_gpu, names)) and bool(modes) and modes <= {"whole", "mixed"}


def _counted_by_kubelet(node: NodeView) -> int:
    return sum(count for name, count in node.capacity.items() if is_whole_gpu(name))


CHECK = Check(
    "devices-miscounted",
    Point.STACK,
    Layer.OFFER,
    "Kubelets and agents count the same GPUs",
    "The scheduler gives out what the agent sees, and the kubelet turns away what it has not been told of.",
    judge,
    ("Node", "NodeDevices"),
)
