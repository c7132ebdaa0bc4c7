"""What pods wait for: MIG instances by profile, and the nodes where each pod may run.

The most urgent pod is first: the highest priority, then the oldest. Queues and quotas are not asked.
"""

from collections.abc import Iterable, Iterator

from gpufleet.kube.codec.containers import devices_held
from gpufleet.kube.codec.pod import read_shape
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.pod import Pod
from gpufleet.mig.plan import Wanted
from gpufleet.model.identifiers import NodeName
from gpufleet.model.model_errors import InputError
from gpufleet.model.resource_names import MIG_PREFIX, is_mig_instance
from gpufleet.model.shape import Shape
from gpufleet.model.taint import CORDON, Taint, untolerated

SHARED_SUFFIX = ".shared"
"""Instances under such a name are given to several pods at a time; which, only the node's agent knows."""


def instances_of(pod: Pod) -> tuple[str, ...]:
    """The profiles of the instances that a pod holds at most at one time. Raises InputError."""
    names = {
        name
        for container in (*pod.spec.init_containers, *pod.spec.containers)
        for name in (*container.resources.requests, *container.resources.limits)
        if is_mig_instance(name) and not name.endswith(SHARED_SUFFIX)
    }
    return tuple(profile_of(name) for name in sorted(names) for _ in range(devices_held(pod.spec, (name,))))


def profile_of(resource: str) -> str:
    """The profile of a resource: nvidia.com/mig-1g.5gb.me is 1g.5gb+me."""
    compute, memory, *attributes = resource.removeprefix(MIG_PREFIX).split(".", 2)
    return f"{compute}.{memory}" + "".join(f"+{one}" for one in attributes)


def waits(pod: Pod) -> bool:
    """Whether a pod waits for a node and could be given one."""
    ends = pod.terminal or pod.metadata.deletion_timestamp
    return not (pod.spec.node_name or ends or pod.gated)


def wanted(pods: Iterable[Pod], nodes: Iterable[Node]) -> tuple[list[Wanted], list[str]]:
    """What waiting pods want, most urgent first, and what of them could not be read."""
    known = list(nodes)
    found, problems = [], []
    for pod in sorted(filter(waits, pods), key=_urgency):
        try:
            profiles = instances_of(pod)
            if profiles:
                shape = read_shape(pod)
                accepted = frozenset(one.metadata.name for one in known if accepts(shape, one))
                found.append(Wanted(pod.metadata.path, profiles, accepted))
        except (InputError, ObjectError) as error:
            problems.append(f"{pod.metadata.path}: {error}")
    return found, problems


def accepts(shape: Shape, node: Node) -> bool:
    """Whether a node's labels, taints and cordon let a pod in. Raises InputError for a bad taint."""
    labels, name = node.metadata.labels, NodeName(node.metadata.name)
    selected = all(labels.get(key) == value for key, value in shape.node_selector)
    return (
        selected
        and shape.affinity.accepts(labels, name)
        and not untolerated(_taints(node), shape.tolerations)
    )


def _taints(node: Node) -> Iterator[Taint]:
    if node.spec.unschedulable:
        yield CORDON
    for one in node.spec.taints:
        yield Taint(one.key, one.value, one.effect)


def _urgency(pod: Pod) -> tuple[int, str, str]:
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.metadata.path
