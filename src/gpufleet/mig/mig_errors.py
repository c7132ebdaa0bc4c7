"""What is wrong with a layout that is asked for."""

from gpufleet.model.model_errors import InputError


class MigPlanError(InputError):
    """A layout that cannot be made of a card as it is."""
