"""What can go wrong between us and the API server.

Bad objects and bad settings are ``InputError``s and harm only their owner. Everything else here is
the world failing: it is tried again within a budget.
"""

from gpufleet.model.model_errors import InputError, WorldError


class KubeError(WorldError):
    """The API server, or the way to it, failed."""


class TransportError(KubeError):
    """A request got no whole answer.

    ``reached`` is True where the server may have received the request: what it asked for may then
    have happened, and must be read back before it is asked for again.
    """

    def __init__(self, problem: str, *, reached: bool) -> None:
        self.reached = reached
        super().__init__(problem)


class ObjectError(InputError):
    """An object of the cluster says something that cannot be; told to its owner."""


class SettingsError(InputError):
    """A kubeconfig, flag or settings file is wrong."""
