"""The slots that the kubelet counts for shares: as many as shares could exist, each for none in particular.

Which GPU a share is of, and how large, is in the grant alone. So one sick GPU takes no slot away: a slot
is out of service only when no share could be given at all.
"""

from gpufleet.agent.state.node_state import Holders, NodeGpus
from gpufleet.agent.units.node_units import Unit
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.plan import Fractions
from gpufleet.kube import keys

# A slot stands for no GPU: the grant says which one it is.
PREFIX = "share-"


def share_slots(gpus: NodeGpus, holders: Holders) -> tuple[Unit, ...]:
    """The slots of this node. Those that are held stay, also where fewer are offered than before."""
    limits = [
        (gpu.plan.mode.shares_max, gpu.health is Verdict.HEALTHY)
        for gpu in gpus.gpus
        if isinstance(gpu.plan.mode, Fractions)
    ]
    healthy = any(well for _, well in limits)
    held = {unit for one in holders if one.resource == keys.GPU_SHARE for unit in one.units}
    # A held slot that was not offered any more would make the kubelet forget the container's devices.
    names = sorted(held)
    number = 0
    while len(names) < sum(most for most, _ in limits):
        if f"{PREFIX}{number}" not in held:
            names.append(f"{PREFIX}{number}")
        number += 1
    return tuple(Unit(name, healthy) for name in sorted(names, key=_by_number))


def _by_number(name: str) -> tuple[int, str]:
    number = name.removeprefix(PREFIX)
    return (int(number) if number.isdecimal() else 0, name)
