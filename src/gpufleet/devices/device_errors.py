"""What can go wrong with a vendor's library."""

from gpufleet.model.model_errors import InputError, WorldError


class DriverError(WorldError):
    """The driver or its library failed or is not there; it may be back later."""


class GpuLostError(DriverError):
    """The driver does not find this GPU, or calls it lost."""


class NoAnswerError(DriverError):
    """A call did not come back in time, or was not made because an earlier one has not come back."""


class MachineError(InputError):
    """The description of a simulated machine says something that cannot be."""


class SharingError(InputError):
    """A sharing configuration says something that cannot be, or cannot be on this node."""
