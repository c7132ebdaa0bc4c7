"""The one interface to a vendor's GPUs.

A backend may block, hang or fail in any call. The agent calls it through ``threaded_backend``, which answers
or fails within a limit. Calls about different GPUs may be made from different threads at once; calls about
one GPU are not.
"""

from typing import Protocol

import msgspec

from gpufleet.devices.facts import Fleet
from gpufleet.devices.sample import ProcessUse, Sample
from gpufleet.model.identifiers import DeviceId


class XidEvent(msgspec.Struct, frozen=True):
    """The driver reported an error. ``uuid`` is None where it did not say of which GPU.

    ``mig_uuid`` names the instance where only that one is concerned.
    """

    code: int
    uuid: DeviceId | None
    mig_uuid: str | None = None


class Changed(msgspec.Struct, frozen=True):
    """Something about a GPU, or about which there are, is not as it was: look again."""

    uuid: DeviceId | None = None


Event = XidEvent | Changed


class Backend(Protocol):
    """One vendor's GPUs on this node."""

    def open(self) -> None:
        """Load the library. Raises DriverError with what is wrong, such as versions that do not fit."""

    def close(self) -> None:
        """Let the library go; what is under way may still end with an error."""

    def fleet(self) -> Fleet:
        """The GPUs that the driver lists now. Raises DriverError."""

    def sample(self, uuid: DeviceId) -> Sample:
        """Readings of a GPU now. Raises GpuLostError where the driver does not find it, or DriverError."""

    def sample_instance(self, uuid: DeviceId, mig_uuid: str) -> Sample:
        """Readings of a MIG instance now; raises as ``sample``."""

    def processes(self, uuid: DeviceId) -> tuple[ProcessUse, ...] | None:
        """The processes on a GPU now; None where the driver does not tell. Raises as ``sample``."""

    def wait_event(self, limit_s: float) -> Event | None:
        """The next event; None if there was none within the limit. Raises DriverError."""
