"""Which slots of shares are those of containers that the kubelet forgot, and offers to others.

A slot means nothing but a number, so another free one does as well. Where there is none, a container that
starts again may have its own back, if no other pod can be the one that asks.
"""

from collections.abc import Iterable, Mapping, Sequence

from gpufleet.agent.device_plugin.share_owner import granted_shares
from gpufleet.agent.holders.holder_record import RememberedHolder
from gpufleet.agent.state.node_state import Holders, NodePods
from gpufleet.kube import keys


def taken_slots(kept: Iterable[RememberedHolder], slots: Sequence[str]) -> dict[str, RememberedHolder]:
    """Which of these slots some container had when last seen."""
    asked = frozenset(slots)
    return {slot: one for one in kept for slot in one.units if slot in asked}


def forgotten_slots(
    kept: Iterable[RememberedHolder], slots: Sequence[str], size: int, pods: NodePods, holders: Holders
) -> dict[str, RememberedHolder]:
    """Which of these slots belong to a container of a living pod that the kubelet does not list.

    ``pods`` and ``holders`` are as the API server and the kubelet have them now. Those of a container that
    does not run are left out where no other pod can be asking for ``size``.
    """
    listed = {
        (one.pod_uid, one.container) for one in holders if one.listed and one.resource == keys.GPU_SHARE
    }
    asking = {
        (pod.uid, one.container)
        for pod in pods.values()
        for one in granted_shares(pod, size)
        if (pod.uid, one.container) not in listed and one.container not in pod.running
    }
    # Where one pod alone can be asking, its own slots are no obstacle to it.
    alone = {uid for uid, _ in asking} if len({uid for uid, _ in asking}) == 1 else set()
    found = taken_slots((one for one in kept if (one.pod_uid, one.container) not in listed), slots)
    return {
        slot: one
        for slot, one in found.items()
        if one.pod_uid in pods
        and not pods[one.pod_uid].finished
        and not (one.pod_uid in alone and one.container not in pods[one.pod_uid].running)
    }


def slots_taken(taken: Mapping[str, RememberedHolder]) -> str:
    """Why these slots cannot be had."""
    if not taken:
        return "fewer slots for shares are offered than were asked for"
    slot, one = min(taken.items())
    return (
        f"slot {slot} for a share belongs to container {one.container} of {one.namespace}/{one.pod} until "
        "that pod is finished, whatever the kubelet knows of it"
    )
