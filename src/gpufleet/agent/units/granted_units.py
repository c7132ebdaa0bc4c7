"""Which of the kubelet's units a grant means: a GPU, a replica of one, a MIG instance by its place."""

from gpufleet.agent.state.node_state import NodeGpus
from gpufleet.agent.units.node_units import REPLICA, GpuUnit, Units
from gpufleet.model.device_id import device_name
from gpufleet.model.grant import GrantedDevice, GrantKind


class UnitIndex:
    """The units of a node by what is behind them; a replica is also found by its own id."""

    def __init__(self, node: NodeGpus, units: Units, resource: str | None = None) -> None:
        self._node = node
        self._behind: dict[str, list[GpuUnit]] = {}
        for unit in units.values():
            if resource in {None, unit.resource}:
                self._behind.setdefault(unit.device, []).append(unit)
                if unit.replica is not None:
                    self._behind[unit.id] = [unit]

    def fitting(self, granted: GrantedDevice) -> list[GpuUnit]:
        """The units of a granted device: several where it is a replica that the grant does not name."""
        return self._behind.get(self._device(granted), [])

    def _device(self, granted: GrantedDevice) -> str:
        """The GPU, replica or instance that a grant names; empty where it names none that is there."""
        if granted.kind is not GrantKind.MIG:
            return granted.id
        name = device_name(granted.id)
        gpu = self._node.gpu(name.card)
        replica = "" if name.replica is None else f"{REPLICA}{name.replica}"
        place = (granted.mig_profile, granted.mig_start)
        instances = () if gpu is None else gpu.facts.mig
        return next((one.uuid + replica for one in instances if (one.profile, one.start) == place), "")
