"""The GPUs of the node that pods hold, or were granted and are about to get.

The kubelet names units: a GPU's UUID, a replica ``UUID::n``, an instance's UUID, or an opaque slot of
shares. For slots the pod's grant tells the GPU; where the pod is unknown, every GPU that may be
meant counts as held.
"""

from collections.abc import Sequence

import msgspec

from gpufleet.agent.state.node_state import Held, Holders, NodePods
from gpufleet.agent.units.node_units import REPLICA, device_of
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.sharing.any_format import GpuPlans
from gpufleet.devices.sharing.plan import (
    Exclusive,
    Fractions,
    Mig,
    Mode,
    Mps,
    SharingPlan,
    TimeSlice,
    unshared,
)
from gpufleet.model.grant import GrantKind
from gpufleet.model.identifiers import DeviceId


class HeldGpu(msgspec.Struct, frozen=True):
    """A GPU that pods hold: their names (namespace/name), and the kubelet's units by which they hold it.

    There are no units where it is only granted so far.
    """

    pods: frozenset[str]
    units: frozenset[str] = frozenset()


def held_gpus(
    gpus: Sequence[GpuFacts], plans: GpuPlans, pods: NodePods, holders: Holders
) -> dict[DeviceId, HeldGpu]:
    """The GPUs that are held or granted, under these plans."""
    titles: dict[DeviceId, set[str]] = {}
    units: dict[DeviceId, set[str]] = {}
    for held in holders:
        for unit in held.units:
            for uuid in gpus_of(held, unit, gpus, plans, pods):
                titles.setdefault(uuid, set()).add(f"{held.namespace}/{held.pod}")
                units.setdefault(uuid, set()).add(unit)
    # A grant counts before its container holds anything: the pod is on its way.
    for pod in pods.values():
        if pod.grant is None or pod.finished:
            continue
        for container in pod.grant.containers:
            for device in container.devices:
                gpu = DeviceId(device_of(device.id))
                titles.setdefault(gpu, set()).add(pod.title)
    return {uuid: HeldGpu(frozenset(found), frozenset(units.get(uuid, ()))) for uuid, found in titles.items()}


def gpus_of(
    held: Held, unit: str, gpus: Sequence[GpuFacts], plans: GpuPlans, pods: NodePods
) -> set[DeviceId]:
    """The GPU that a unit is on; several where a slot of shares may be on any of them."""
    name = device_of(unit)
    for gpu in gpus:
        if gpu.uuid == name or any(one.uuid == name for one in gpu.mig):
            return {gpu.uuid}
    pod = pods.get(held.pod_uid)
    # Without a grant it is not known which GPU the slot stands for.
    if pod is None or pod.grant is None:
        return {plan.uuid for plan in plans.values() if isinstance(plan.mode, Fractions)}
    return {
        device.id
        for container in pod.grant.containers
        if container.container == held.container
        for device in container.devices
        if device.kind is GrantKind.SHARE
    }


def offers(plan: SharingPlan, units: frozenset[str]) -> bool:
    """Whether these units of a GPU are such as the plan offers."""
    return all(_offers(plan, unit) for unit in units)


def _offers(plan: SharingPlan, unit: str) -> bool:
    name, replica, number = unit.partition(REPLICA)
    match plan.mode:
        case Exclusive():
            return unit == plan.uuid
        case TimeSlice(count) | Mps(count):
            return name == plan.uuid and number.isdecimal() and int(number) < count
        case Mig():
            return name.startswith("MIG-") or (name != plan.uuid and not replica)
        case Fractions():
            return name != plan.uuid and not name.startswith("MIG-")


def plan_of_units(gpu: GpuFacts, units: frozenset[str]) -> SharingPlan:
    """The plan under which these units of a GPU were given, as far as they show it."""
    numbers = [int(number) for unit in units if (number := unit.partition(REPLICA)[2]).isdecimal()]
    mode: Mode = unshared(gpu)
    if numbers and not gpu.mig_enabled:
        # As many replicas as the highest number shows; there may have been more.
        mode = TimeSlice(max(numbers) + 1)
    elif not gpu.mig_enabled and gpu.uuid not in units:
        mode = Fractions(len(units))
    return SharingPlan(gpu.uuid, mode)
