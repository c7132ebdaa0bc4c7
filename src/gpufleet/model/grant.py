"""A grant: which devices each container of a placed pod may use, and with which terms the pod was bound.

The scheduler writes it with the Binding, in the same write that places the pod; the node agent
reads it. kube's codec turns it into the annotation's text and back; ``node_devices`` of the
cluster is the fact against which this intent is compared.
"""

import enum

import msgspec

from gpufleet.model.bound_terms import BoundTerms
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.device_id import MigPlace, device_name
from gpufleet.model.identifiers import DeviceId


class GrantKind(enum.Enum):
    """Whether a device is granted whole, in part, or as a MIG instance."""

    WHOLE = "whole"
    SHARE = "share"
    MIG = "mig"


class GrantedDevice(msgspec.Struct, frozen=True):
    """A device or a part of it.

    ``id`` is the GPU's UUID, that of the parent for MIG; of a replica ``UUID::n``. ``memory_mib`` is None
    where the card's memory is not known. A MIG instance is named by profile and first slice, because its own
    id changes whenever it is made anew.
    """

    id: DeviceId
    kind: GrantKind = GrantKind.WHOLE
    gpu_milli: int = WHOLE_GPU_MILLI
    memory_mib: int | None = None
    mig_profile: str | None = None
    mig_start: int | None = None

    @property
    def device(self) -> DeviceId:
        """The device of the node that it is, or is a part of."""
        if self.mig_profile is None or self.mig_start is None:
            return self.id
        place = MigPlace(self.mig_profile, self.mig_start)
        return msgspec.structs.replace(device_name(self.id), place=place).id

    @property
    def undivided(self) -> bool:
        """Whether it is all of a device: a whole GPU, or an instance."""
        return self.kind is not GrantKind.SHARE


class ContainerGrant(msgspec.Struct, frozen=True):
    """The devices of one container."""

    container: str
    devices: tuple[GrantedDevice, ...]


class Grant(msgspec.Struct, frozen=True):
    """All devices of a pod, and the epoch of the leader that granted them.

    A grant without containers places a pod that needs no device, or one on a node with devices
    of unknown ids. ``terms`` are what the pod was bound with; grants of the first version have none.
    """

    epoch: int
    containers: tuple[ContainerGrant, ...] = ()
    terms: BoundTerms | None = None
