"""What the ids of units mean that the kubelet gave: a GPU, a replica of one, a MIG instance, a share's slot.

Whole GPUs and instances are named by their UUID, replicas of either by ``UUID::n``; the slots of shares
say nothing.
"""

import msgspec

from gpufleet.agent.known import Gpu, NodeGpus
from gpufleet.agent.plugin.units import device_of
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.sharing.plan import replicas_of


class UnitOf(msgspec.Struct, frozen=True):
    """A unit's GPU, its MIG instance if it is of one, and how many units share that."""

    gpu: Gpu
    instance: MigFacts | None = None
    sharers: int = 1


def find_unit(gpus: NodeGpus, unit: str) -> UnitOf | None:
    """What a unit is; None for the slot of a share, and for what is not on this node any more."""
    uuid = device_of(unit)
    replicated = unit != uuid
    for gpu in gpus.gpus:
        if gpu.uuid == uuid:
            return UnitOf(gpu, None, replicas_of(gpu.plan.mode) if replicated else 1)
        instance = gpu.instance(uuid)
        if instance is not None:
            sharers = replicas_of(gpu.plan.mode, instance.profile) if replicated else 1
            return UnitOf(gpu, instance, sharers)
    return None
