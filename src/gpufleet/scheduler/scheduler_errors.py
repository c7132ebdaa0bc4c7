"""The live scheduler's errors, in the kinds of ``model.model_errors``."""

from gpufleet.model.model_errors import InternalError, WorldError


class FenceMissingError(WorldError):
    """The API server does not refuse Bindings of an older leader: the admission policy is absent."""


class StuckError(InternalError):
    """A part of the scheduler stopped that must not stop."""
