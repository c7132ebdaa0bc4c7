"""Why a waiting pod is another scheduler's, and how it becomes ours.

In a managed namespace a pod that asks for GPUs and names no scheduler is completed when it is made. One that
is left to Kubernetes' own scheduler all the same asks for nothing that is known as a GPU: a misspelt
resource, devices by a ResourceClaim, or no device at all. Its owner is told which of these it is.
"""

from gpufleet.cluster.facts import Facts
from gpufleet.explain.answer import Finding
from gpufleet.kube import keys, resources
from gpufleet.kube.meanings.gpu_resources import ResourceUnit, meant_gpu, unit_of
from gpufleet.kube.objects.namespace import Namespace
from gpufleet.kube.objects.pod import POD_SCHEDULED, Pod
from gpufleet.model.model_errors import printable
from gpufleet.model.phrases import harmless, listed
from gpufleet.model.resource_names import (
    GPU_RESOURCES,
    NVIDIA_SHARED,
    is_extended,
    is_mig_instance,
)

DEFAULT_SCHEDULER = "default-scheduler"
MESSAGE_MAX = 300
"""Of another scheduler's message, in characters: its counts of nodes and what it says of each kind."""


def foreign(facts: Facts, pod: Pod) -> Finding:
    """A waiting pod that names another scheduler, or names none and was left to Kubernetes' own."""
    name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
    why = f"it is not ours: its schedulerName is {harmless(name)}"
    asked = _asked(pod)
    meant = {one: right for one in asked if (right := meant_gpu(one)) is not None}
    ways = [f"write {right} in place of {harmless(wrong)}" for wrong, right in meant.items()]
    left = name == DEFAULT_SCHEDULER and (bool(ways) or not any(map(_is_completed, asked)))
    others = [harmless(one) for one in asked if _is_another_device(one)]
    if left:
        why = f"{why}, as it asks for {_instead(meant, others, pod)}{_said(pod)}"
    if left and others and not ways:
        ways.append(f"see whether the device plugin that offers {listed(others)} runs on the nodes")
    if not ways:
        ways = list(_ways_to_us(facts, pod, left=left))
    return Finding("foreign", why, tuple(ways))


def _asked(pod: Pod) -> tuple[str, ...]:
    """The resources of its containers, each once."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    amounts = (amounts for one in containers for amounts in (one.resources.limits, one.resources.requests))
    return tuple(dict.fromkeys(name for one in amounts for name in one))


def _is_completed(name: str) -> bool:
    """Whether a pod that asks for it and names no scheduler becomes ours in a managed namespace."""
    served = (*GPU_RESOURCES, NVIDIA_SHARED, keys.GPU_SHARE, keys.VOLCANO_NUMBER)
    return name in served or is_mig_instance(name)


def _is_another_device(name: str) -> bool:
    """Whether it is a device of its own that we do not serve, and no measure of a share beside one."""
    return is_extended(name) and not _is_completed(name) and unit_of(name) is not ResourceUnit.MEASURE


def _instead(meant: dict[str, str], others: list[str], pod: Pod) -> str:
    if meant:
        return f"{listed(map(harmless, meant))}, which is no name of a GPU"
    if pod.spec.resource_claims:
        return "devices by a ResourceClaim"
    return f"{listed(others)}, which gpufleet does not serve" if others else "no GPU"


def _said(pod: Pod) -> str:
    """What the other scheduler said of it."""
    condition = pod.condition(POD_SCHEDULED)
    if condition is None or not condition.message:
        return ""
    return f"; that scheduler says: {printable(condition.message, MESSAGE_MAX)}"


def _ways_to_us(facts: Facts, pod: Pod, *, left: bool) -> list[str]:
    own = facts.settings.scheduler_name
    ways = [f"make it anew with schedulerName: {own}"]
    place = harmless(pod.metadata.namespace)
    namespace: Namespace | None = facts.picture.find(resources.NAMESPACES, pod.metadata.namespace)
    is_managed = namespace is not None and namespace.metadata.labels.get(keys.MANAGED) == "true"
    # Where the label is set, pods with GPUs that name no scheduler are completed; this one names another.
    if is_managed and not left:
        ways.append(f"leave schedulerName out: it is written for new pods of the namespace {place}")
    elif not is_managed and own == keys.SCHEDULER_NAME:
        ways.append(
            f"let it be written for all new pods: kubectl label namespace {place} {keys.MANAGED}=true"
        )
    return ways
