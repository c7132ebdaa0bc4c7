"""The CDI files of claims, one for a claim and driver: what a container gets for each device of the claim."""

from pathlib import Path

from gpufleet.agent.device_plugin import cdi
from gpufleet.agent.device_plugin.cdi import CdiDevice, CdiSpec
from gpufleet.agent.dra.prepared_claims import PreparedClaim, PreparedDevice
from gpufleet.agent.state.disk import DISK, Disk

# The kind of the names that containers are started with; the file's name begins with the prefix.
KIND = "gpufleet.io/claim"
PREFIX = "gpufleet.io-claim-"


class ClaimFiles:
    """The files in the folder of the container runtime."""

    def __init__(self, folder: Path = cdi.FOLDER, disk: Disk = DISK) -> None:
        self._folder = folder
        self._disk = disk

    def ensure(self, claim: PreparedClaim) -> None:
        """Let containers with this claim start; a file that says so already stays. Raises OSError."""
        if not claim.devices:
            return
        spec = CdiSpec(KIND, tuple(CdiDevice(device_name(claim, one), one.edits) for one in claim.devices))
        name = file_name(claim.uid, claim.driver)
        # Not written again where nothing changed: runtimes read the folder anew at each write.
        if cdi.read_spec(self._folder, name, self._disk) != spec:
            cdi.write_spec(self._folder, name, spec, self._disk)

    def remove(self, uid: str, driver: str) -> None:
        """Remove the file of a claim; one that is not there is no error. Raises OSError."""
        cdi.remove_spec(self._folder, file_name(uid, driver), self._disk)


def file_name(uid: str, driver: str) -> str:
    """The name of a claim's file, without its ending."""
    return f"{PREFIX}{uid}-{driver}"


def device_name(claim: PreparedClaim, one: PreparedDevice) -> str:
    """A device's name within the kind: another one for each claim, driver and device."""
    return f"{claim.uid}-{claim.driver}-{one.device}"


def qualified_name(claim: PreparedClaim, one: PreparedDevice) -> str:
    """How containers name a device of a claim."""
    return cdi.qualified(KIND, device_name(claim, one))
