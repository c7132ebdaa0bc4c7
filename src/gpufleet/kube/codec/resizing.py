"""What a pod holds while its containers are resized in place.

The spec says what is asked for now, the status what the node has set aside and what the containers run
with. Until all three are the same the largest of them counts, so that nothing is given away twice; a
resize that the node called infeasible counts for nothing (kube-scheduler: PodRequests with status).
"""

from collections.abc import Callable, Mapping

import msgspec

from gpufleet.kube.codec.containers import pod_amounts
from gpufleet.kube.objects.pod import INFEASIBLE, RESIZE_PENDING, ContainerStatus, Pod
from gpufleet.model.requests import ContainerAmounts, PodAmounts, pod_needs
from gpufleet.model.resources import Resources

Amounts = dict[str, str]
StatusAmounts = Callable[[ContainerStatus], Amounts | None]


def held_resources(pod: Pod) -> Resources:
    """The largest of what is asked for, set aside and in use, by resource.

    Raises InputError for amounts that cannot be counted.
    """
    refused = _is_refused(pod)
    ways = [_amounts(pod, _allocated, refused=refused), _amounts(pod, _running, refused=refused)]
    if not refused:
        ways.append(pod_amounts(pod.spec))
    return largest([pod_needs(way).resources for way in ways])


def largest(ways: list[Resources]) -> Resources:
    """The largest amount of each resource among several counts of what a pod takes."""
    other: dict[str, int] = {}
    for way in ways:
        for name, count in way.other:
            other[name] = max(count, other.get(name, 0))
    return Resources(
        cpu_milli=max(way.cpu_milli for way in ways),
        memory_bytes=max(way.memory_bytes for way in ways),
        ephemeral_storage_bytes=max(way.ephemeral_storage_bytes for way in ways),
        other=tuple(sorted(other.items())),
    )


def _is_refused(pod: Pod) -> bool:
    pending = pod.condition(RESIZE_PENDING)
    return pending is not None and pending.reason == INFEASIBLE


def _allocated(status: ContainerStatus) -> Amounts | None:
    return status.allocated_resources


def _running(status: ContainerStatus) -> Amounts | None:
    in_use = None if status.resources is None else status.resources.requests or None
    return status.allocated_resources if in_use is None else in_use


def _amounts(pod: Pod, told: StatusAmounts, *, refused: bool) -> PodAmounts:
    """The pod's amounts with those of its containers that the status tells; the pod's own where it
    tells them as a whole.
    """
    asked = pod_amounts(pod.spec)
    status = pod.status
    whole = None if status.resources is None else status.resources.requests or None
    if status.allocated_resources is not None and whole is not None:
        chosen = status.allocated_resources if told is _allocated else whole
        total = ContainerAmounts("pod", chosen, chosen)
        return PodAmounts((total,), overhead=asked.overhead)
    by_name = {one.name: _without(told(one), asked.pod_requests) for one in status.all_containers}
    return msgspec.structs.replace(
        asked,
        containers=_written_amounts(asked.containers, by_name, refused=refused),
        init_containers=_written_amounts(asked.init_containers, by_name, refused=refused),
        pod_limits={},
    )


def _without(amounts: Amounts | None, of_pod: Mapping[str, str]) -> Amounts | None:
    """The amounts that the pod does not set as a whole: where it does, its own count alone."""
    return None if amounts is None else {key: text for key, text in amounts.items() if key not in of_pod}


def _written_amounts(
    containers: tuple[ContainerAmounts, ...], by_name: Mapping[str, Amounts | None], *, refused: bool
) -> tuple[ContainerAmounts, ...]:
    found = []
    for container in containers:
        amounts = by_name.get(container.name)
        if amounts is None and not refused:
            found.append(container)
            continue
        counted = amounts or {}
        # A limit of the same amount: some resources are not counted without one.
        found.append(msgspec.structs.replace(container, requests=counted, limits=counted))
    return tuple(found)
