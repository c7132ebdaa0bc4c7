"""What can be wrong with a claim, so that no node can serve it."""

from gpufleet.model.model_errors import InputError


class ClaimError(InputError):
    """A claim, or a class that it names, cannot be served as it is written: on no node."""
