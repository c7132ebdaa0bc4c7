"""Which pods are refused whole devices: those without a grant, and those with device variables of their own.

Without ``required`` a pod that another scheduler placed gets what is free. With it, such a pod gets nothing,
whichever scheduler placed it: what queues and quotas say then holds for every device of the node. A grant
that names no device is one, and its pod gets what is free: the scheduler counts replicas under another name,
MIG instances and partitions without ids, and so it does whole GPUs of a node whose report came later.
"""

import logging
from collections.abc import Iterable, Iterator

from gpufleet.agent.device_plugin.pending_requests import UngrantedRequest
from gpufleet.agent.device_plugin.unit_allocator import AllocateResponse
from gpufleet.agent.device_plugin.whole_device_rules import OpenClaim
from gpufleet.agent.state.node_state import NodePod, NodePods
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.kube.keys import VISIBLE_DEVICES as VISIBLE

LOG = logging.getLogger(__name__)
Asker = tuple[str, str]
"""A container that may be asking: its pod (namespace/name), and its name."""


def check_granted(claim: OpenClaim | None, rivals: Iterable[UngrantedRequest], pods: NodePods) -> None:
    """Raises RefusedError where a pod without a grant may be the one that asks, and no other pod can be."""
    if claim is not None:
        return
    askers = tuple(rivals)
    without = [one.pod for one in askers if not has_grant(pods.get(one.uid))]
    # Every pod that may be asking was placed by the scheduler, which counted what it asks for.
    if askers and not without:
        return
    whom = f"{without[0]} has" if without else "the pod that asks is not known, or has"
    raise RefusedError(
        f"this node gives GPUs only to pods that gpufleet placed (--require-grant), and {whom} no grant: "
        "set schedulerName to gpufleet's and leave nodeName out"
    )


def has_grant(pod: NodePod | None) -> bool:
    """Whether the scheduler placed this pod, and counted all that its containers ask for."""
    return pod is not None and pod.grant is not None


def check_variables(given: AllocateResponse, askers: Iterable[Asker], pods: NodePods) -> None:
    """Raises RefusedError where the variable tells the devices and a container sets it itself.

    Kubernetes lets a container's own value win. With CDI nothing is lost: the runtime is told apart from it.
    """
    if is_by_variable(given):
        for title, container, pod in _known(askers, pods):
            if container in pod.named_devices:
                why = f"sets {VISIBLE} itself, which would win: leave it out"
                raise RefusedError(_own(title, container, why))
            if container in pod.imported_variables:
                why = f"takes variables from elsewhere (envFrom), perhaps {VISIBLE}: name those that it needs"
                raise RefusedError(_own(title, container, why))


def note_variables(given: AllocateResponse, asker: Asker, pods: NodePods) -> None:
    """Have the log say that a container's own variable counts for nothing."""
    if is_by_variable(given):
        return
    for title, container, pod in _known([asker], pods):
        if container in pod.named_devices:
            told = {"pod": title, "container": container, "variable": VISIBLE}
            LOG.info("a container's own variable counts for nothing beside what it was granted", extra=told)


def is_by_variable(given: AllocateResponse) -> bool:
    """Whether a container learns its devices by the variable alone."""
    return VISIBLE in given.environment and not given.cdi_devices and not given.annotations


def _known(askers: Iterable[Asker], pods: NodePods) -> Iterator[tuple[str, str, NodePod]]:
    # A pod that has finished may have the name of one that waits.
    by_title = {pod.title: pod for pod in pods.values() if not pod.finished}
    for title, container in askers:
        pod = by_title.get(title)
        if pod is not None:
            yield title, container, pod


def _own(title: str, container: str, why: str) -> str:
    return (
        f"this node tells containers their devices by {VISIBLE} (--device-list-strategy), and container "
        f"{container} of {title} {why}, or have the devices handed out by cdi-cri"
    )
