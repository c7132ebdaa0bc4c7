"""What can go wrong with a local cluster; every sentence names the way out."""

from gpufleet.model.model_errors import WorldError


class ClusterError(WorldError):
    """A local cluster could not be started, reached or removed."""


class ProgramsMissingError(ClusterError):
    """A program of the control plane is nowhere to be found and could not be made."""


class ProgramFailedError(ClusterError):
    """A program of the control plane ended or never became ready; carries the end of its log."""


class DownloadError(ClusterError):
    """A release could not be fetched, or what came was not what is pinned."""
