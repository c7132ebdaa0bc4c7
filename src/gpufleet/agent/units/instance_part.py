"""Which part of its GPU's compute a MIG instance has: by the table of boards, else as the driver counts."""

from fractions import Fraction

from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.facts import MigFacts
from gpufleet.model.mig_part import compute_part


def instance_part(gpu: Gpu, instance: MigFacts) -> Fraction | None:
    """By slices, else by multiprocessors; None where neither is known."""
    part = compute_part(gpu.facts.product, instance.profile)
    if part is not None:
        return part
    units, own_units = gpu.facts.multiprocessors, instance.multiprocessors
    if units and own_units is not None:
        return min(Fraction(1), Fraction(own_units, units))
    return None
