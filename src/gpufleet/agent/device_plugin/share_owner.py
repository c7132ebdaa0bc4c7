"""The container of some slots: the kubelet names the slots with which a container is about to start, and no
pod.

Its record on disk knows pod, container and the name that was answered for exactly these slots. Where the
record cannot be read or lags behind, the pod resources API names the pod, and the newest name that was
answered for these slots is its, because the kubelet lends slots to one pod at a time. Either
may be too old for a moment; then no container is found and the kubelet asks again.

A pod that is gone before its container started leaves a call open, which is ``abandoned``.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from gpufleet.agent.device_plugin.share_files import KIND
from gpufleet.agent.kubelet.kubelet_checkpoint import CheckpointEntry
from gpufleet.agent.state.node_state import Holders, NodePod, NodePods
from gpufleet.kube import keys
from gpufleet.model.grant import ContainerGrant, GrantKind

_QUALIFIER = f"{KIND}="


class Owner(msgspec.Struct, frozen=True):
    """A container that holds these slots, and the name that its call was answered with."""

    pod_uid: str
    container: str
    name: str
    slots: frozenset[str]


def recorded_owners(record: Iterable[CheckpointEntry], slots: frozenset[str]) -> tuple[Owner, ...]:
    """The containers that have exactly these slots by the kubelet's checkpoint.

    Several containers of one pod may: an init container lends its slots to those after it.
    """
    return tuple(
        Owner(one.pod_uid, one.container, name.removeprefix(_QUALIFIER), slots)
        for one in record
        if one.resource == keys.GPU_SHARE and one.units == slots
        for name in one.cdi_devices
        if name.startswith(_QUALIFIER)
    )


def listed_owners(holders: Holders, pods: NodePods, slots: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Pod and container of those that have exactly these slots by the pod resources API.

    ``pods`` are as the API server has them now: a name alone may be that of a pod which is gone.
    """
    by_name = {(pod.namespace, pod.name): pod for pod in pods.values() if not pod.finished}
    return tuple(
        (pod.uid, held.container)
        for held in holders
        if held.listed and held.resource == keys.GPU_SHARE and frozenset(held.units) == slots
        if (pod := by_name.get((held.namespace, held.pod))) is not None and held.pod_uid in {"", pod.uid}
    )


def granted_shares(pod: NodePod, count: int) -> tuple[ContainerGrant, ...]:
    """The containers of a pod that was granted so many shares and has not finished."""
    if pod.grant is None or pod.finished:
        return ()
    return tuple(
        one
        for one in pod.grant.containers
        if len(one.devices) == count and one.devices[0].kind is GrantKind.SHARE
    )


def abandoned(
    calls: Mapping[frozenset[str], str],
    record: Iterable[CheckpointEntry],
    pods: NodePods,
    started: Callable[[str, str], bool],
) -> tuple[frozenset[str], ...]:
    """The slots of the calls, by the names that were answered, that no container will start with.

    That the record does not name a call says little, as it may lag behind. Then it is open as long as there
    is a container that may be the one: granted as many shares, and not ``started`` (pod's UID, container).
    """
    owners = {name.removeprefix(_QUALIFIER): one.pod_uid for one in record for name in one.cdi_devices}

    def is_open(slots: frozenset[str], name: str) -> bool:
        if name in owners:
            pod = pods.get(owners[name])
            return pod is not None and not pod.finished
        return any(
            not started(pod.uid, one.container)
            for pod in pods.values()
            for one in granted_shares(pod, len(slots))
        )

    return tuple(slots for slots, name in calls.items() if not is_open(slots, name))
