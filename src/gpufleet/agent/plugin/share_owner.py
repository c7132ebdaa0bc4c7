"""Whose slots these are: the kubelet says which slots a container is about to start with, and no pod.

Its record on disk knows pod, container and the name that was answered for exactly these slots. Where the
record cannot be read or lags behind, the pod resources API names the pod, and the newest name that was
answered for these slots is its, because the kubelet lends slots to one pod at a time. Either
may be too old for a moment; then nobody is found and the kubelet asks again.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.agent.known import Holders, NodePods
from gpufleet.agent.kubelet_checkpoint import Recorded
from gpufleet.agent.plugin.share_files import KIND
from gpufleet.kube import keys

_QUALIFIER = f"{KIND}="


class Owner(msgspec.Struct, frozen=True):
    """A container that holds these slots, and the name that its call was answered with."""

    pod_uid: str
    container: str
    name: str
    slots: frozenset[str]


def recorded_owners(record: Iterable[Recorded], slots: frozenset[str]) -> tuple[Owner, ...]:
    """Who has exactly these slots by the kubelet's record.

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
        if held.resource == keys.GPU_SHARE and frozenset(held.units) == slots
        if (pod := by_name.get((held.namespace, held.pod))) is not None and held.pod_uid in {"", pod.uid}
    )
