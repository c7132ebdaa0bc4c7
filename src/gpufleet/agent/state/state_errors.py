"""What can go wrong between the agent and its node."""

from gpufleet.model.model_errors import GpufleetError, WorldError


class RefusedError(GpufleetError):
    """A container does not get what the kubelet asked for; told in the pod's status."""


class NoFilesError(RefusedError):
    """The files of a card's driver are not there: while a driver is replaced this lasts a minute."""


class KubeletError(WorldError):
    """The kubelet cannot be reached, or did not take our word."""
