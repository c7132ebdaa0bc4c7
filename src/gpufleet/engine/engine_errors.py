"""The engine's errors, in the three kinds of ``model.model_errors``."""

from gpufleet.model.model_errors import InputError, InternalError


class EventError(InputError):
    """An event cannot be taken in: it contradicts what is known or what can be held."""


class LogError(InputError):
    """A saved event log cannot be replayed."""


class BrokenInvariantError(InternalError):
    """The engine's own state contradicts itself."""
