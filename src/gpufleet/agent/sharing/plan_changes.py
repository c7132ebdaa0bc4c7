"""From the plans that hold to those that are wanted, GPU by GPU: a GPU that is held waits.

A GPU that changes while it is held would be counted under two of the kubelet's resources, or as more
than it is. So its old plan stays until its holders have ended, while every other GPU changes at once.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gpufleet.agent.holders.held_gpus import HeldGpu, offers, plan_of_units
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.sharing.any_format import GpuPlans
from gpufleet.model.identifiers import DeviceId


class Settled(msgspec.Struct, frozen=True):
    """The plans that hold now, and the GPUs whose plan waits."""

    plans: GpuPlans
    waiting: tuple[DeviceId, ...] = ()


def settled(
    gpus: Sequence[GpuFacts], before: GpuPlans, wanted: GpuPlans, held: Mapping[DeviceId, HeldGpu]
) -> Settled:
    """The plans that may hold while these GPUs are held.

    Of a held GPU whose plan is unknown, the units of its holders tell the plan.
    """
    plans: GpuPlans = {}
    waiting = []
    for gpu in gpus:
        plan, hands = wanted.get(gpu.uuid), held.get(gpu.uuid)
        if plan is None:
            continue
        kept = before.get(gpu.uuid)
        if kept is None and hands is not None and hands.units and not offers(plan, hands.units):
            kept = plan_of_units(gpu, hands.units)
        if hands is not None and kept is not None and kept != plan:
            waiting.append(gpu.uuid)
            plan = kept
        plans[gpu.uuid] = plan
    return Settled(plans, tuple(waiting))
