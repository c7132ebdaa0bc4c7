"""What containers hold on a card, or are about to get: none of it is touched.

In doubt all of a card counts as held: for units of which no card is known, instances without a place, and
pods that ask for whole devices and neither have a grant nor hold anything yet.
"""

from collections.abc import Iterator

from gpufleet.agent.holders.held_gpus import gpus_of
from gpufleet.agent.mig.layout_changer import HeldOnCard
from gpufleet.agent.state.node_state import Gpu, Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.units.node_units import device_of
from gpufleet.model.device_id import device_name
from gpufleet.model.grant import GrantedDevice
from gpufleet.model.mig import MigInstance
from gpufleet.model.resource_names import MIG_PREFIX, NVIDIA_GPU


def held_on_card(gpu: Gpu, node: NodeGpus, holders: Holders, pods: NodePods) -> HeldOnCard:
    """What is held on a card of a node."""
    if any(_is_on_its_way(pod, holders) for pod in pods.values()):
        return HeldOnCard(card=True)
    places: set[MigInstance] = set()
    for place in (*_of_holders(gpu, node, holders, pods), *_of_grants(gpu, pods)):
        if place is None:
            return HeldOnCard(card=True)
        places.add(place)
    return HeldOnCard(frozenset(places))


def _of_holders(gpu: Gpu, node: NodeGpus, holders: Holders, pods: NodePods) -> Iterator[MigInstance | None]:
    """Instances that containers hold; None for the card, and for units that may be on it."""
    for held in holders:
        if not held.units:
            yield None
        for unit in held.units:
            yield from _of_unit(gpu, node, held, unit, pods)


def _of_unit(gpu: Gpu, node: NodeGpus, held: Held, unit: str, pods: NodePods) -> Iterator[MigInstance | None]:
    instance = gpu.instance(device_of(unit))
    if instance is not None:
        yield None if instance.start is None else MigInstance(instance.start, instance.profile)
        return
    plans = {one.uuid: one.plan for one in node.gpus}
    cards = gpus_of(held, unit, [one.facts for one in node.gpus], plans, pods)
    if not cards or gpu.uuid in cards:
        yield None


def _of_grants(gpu: Gpu, pods: NodePods) -> Iterator[MigInstance | None]:
    for pod in pods.values():
        if pod.grant is not None and not pod.finished:
            for container in pod.grant.containers:
                for device in container.devices:
                    if device_name(device.id).card == gpu.uuid:
                        yield _granted(device)


def _granted(device: GrantedDevice) -> MigInstance | None:
    place = device_name(device.device).place
    return None if place is None else MigInstance(place.start, place.profile)


def _is_on_its_way(pod: NodePod, holders: Holders) -> bool:
    """Whether a pod will get whole devices of which it is not known yet which."""
    if pod.finished or pod.grant is not None or any(one.pod_uid == pod.uid for one in holders):
        return False
    names = (name for requests in pod.requests.values() for name in requests)
    return any(name == NVIDIA_GPU or name.startswith(MIG_PREFIX) for name in names)
