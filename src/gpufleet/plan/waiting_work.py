"""What waits, as pods of one size, and how large such a pod is on a type of node.

Sizes serve to find a first set of nodes. Whether a pod may run on a node at all, and starts there, the engine
says.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from gpufleet.engine.event import NodeSet
from gpufleet.kube.meanings.node_labels import HOST_NAME
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.gpu_model import find
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod
from gpufleet.model.resources import MEBIBYTE
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.plan.instance_types import InstanceType
from gpufleet.plan.small_purchases import Item, Sizes
from gpufleet.whatif.course import Course, before_evictions

CPU_LEFT, MEMORY_LEFT = 0.98, 0.95
"""What of a node's CPU and memory pods can have: the rest is the node's own system and the kubelet's."""

MayRunOn = Callable[[Shape, int], bool]
"""Whether a pod of this shape was seen to start with nodes of the type of this index."""


def late_pods(course: Course, by_us: int) -> list[PodUid]:
    """The pods that wait until after ``by_us``, or for ever, also those that the engine never hears of.

    A pod that is evicted and waits again goes by the UID that it has before: in another course it may be
    evicted at another turn, or not at all.
    """
    starts = {uid: course.start_of(uid) for uid in course.meanings}
    later = [
        uid
        for uid, running in starts.items()
        if running is not None and running.since_us is not None and running.since_us > by_us
    ]
    return list(dict.fromkeys(before_evictions(uid) for uid in (*course.waiting(), *later)))


def on_time(course: Course, uids: Iterable[PodUid], by_us: int) -> dict[PodUid, str]:
    """The pods among these that run by ``by_us``, with the node of each; after an eviction again."""
    found = {uid: course.place(after_evictions(course, uid)) for uid in uids}
    return {
        uid: str(running.node)
        for uid, running in found.items()
        if running is not None and (running.since_us or 0) <= by_us
    }


def gpus_milli(course: Course, uids: Iterable[PodUid]) -> int:
    """Thousandths of GPUs that these pods ask for; of a share by memory alone nothing is counted."""
    return sum(course.meanings[uid].shape.gpu.total_milli for uid in uids)


def free_gpus_milli(course: Course) -> int:
    """Thousandths of GPUs of the fleet that no pod of a course holds in the end; at most so many are free."""
    nodes = {
        event.node.name: len(event.node.devices)
        for wave in course.facts.waves
        for event in wave
        if isinstance(event, NodeSet)
    }
    return sum(nodes.values()) * WHOLE_GPU_MILLI - gpus_milli(course, course.running)


def after_evictions(course: Course, uid: PodUid) -> PodUid:
    """The UID that a pod has in the end: that of the pod that was made last in its place."""
    while (eviction := course.evictions.get(uid)) is not None and eviction.again is not None:
        uid = eviction.again
    return uid


def items_of(
    pods: Mapping[PodUid, Pod], uids: Iterable[PodUid], types: tuple[InstanceType, ...], may_run_on: MayRunOn
) -> list[Item]:
    """Pods as items: equal shapes are one item."""
    return items_of_counts(Counter(pods[uid].shape for uid in uids), types, may_run_on)


def items_of_counts(
    counts: Mapping[Shape, int], types: tuple[InstanceType, ...], may_run_on: MayRunOn
) -> list[Item]:
    """So many pods of each shape as items. Pods that keep apart from their like fill a node alone in a
    dimension of their own.
    """
    apart = [shape for shape in counts if keeps_apart(shape)]

    def sizes(shape: Shape, index: int) -> Sizes | None:
        found = sizes_on(shape, types[index]) if may_run_on(shape, index) else None
        return None if found is None else (*found, *(float(shape == one) for one in apart))

    return [
        Item(count, tuple(sizes(shape, index) for index in range(len(types))))
        for shape, count in counts.items()
    ]


def keeps_apart(shape: Shape) -> bool:
    """Whether no two pods of this shape share a node: for a port of the node, or by their own rule."""
    relations = shape.relations
    labels = dict(relations.labels)
    return bool(relations.ports) or any(
        term.topology_key == HOST_NAME
        and relations.namespace in term.scope.names
        and term.selector is not None
        and term.selector.accepts(labels)
        for term in relations.anti_affinity
    )


def sizes_on(shape: Shape, node: InstanceType) -> Sizes | None:
    """The shares of a node's GPUs, CPU and memory that a pod takes; None where it cannot fit alone."""
    gpus = _gpu_share(shape.gpu, node)
    if gpus is None:
        return None
    cpu = shape.resources.cpu_milli / allocatable_cpu_milli(node)
    memory = shape.resources.memory_bytes / (allocatable_memory_mib(node) * MEBIBYTE)
    sizes = (gpus, cpu, memory)
    return sizes if max(sizes) <= 1 else None


def allocatable_cpu_milli(node: InstanceType) -> int:
    """The CPU that pods can have on a node."""
    return max(1, int(node.cpu_milli * CPU_LEFT))


def allocatable_memory_mib(node: InstanceType) -> int:
    """The memory that pods can have on a node."""
    return max(1, int(node.memory_mib * MEMORY_LEFT))


def _gpu_share(gpu: GpuRequest, node: InstanceType) -> float | None:
    """GPUs of the node by count. A part of a GPU takes one of as many places as fit on one card."""
    if not gpu.count:
        return 0.0
    if gpu.models and not any(_is_model(str(one), node.gpu_model) for one in gpu.models):
        return None
    part = gpu.gpu_milli / WHOLE_GPU_MILLI
    if gpu.memory_mib is not None:
        if node.gpu_memory_mib is None:
            return None
        part = max(part, gpu.memory_mib / node.gpu_memory_mib)
    if not 0 < part <= 1:
        return None
    return gpu.count / (node.gpus * int(1 / part))


def _is_model(asked: str, offered: str) -> bool:
    found = find(asked)
    return asked == offered or (found is not None and str(found.name) == offered)
