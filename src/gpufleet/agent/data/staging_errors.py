"""What keeps data from being copied to a node before work starts there."""

from gpufleet.model.model_errors import WorldError


class NotCopiedError(WorldError):
    """The copy cannot be made as things are now; it is tried again later."""


class CopyStoppedError(WorldError):
    """The copy is not to be made any more."""
