"""What can be wrong with what the exporter is told."""

from gpufleet.model.model_errors import InputError


class CountersError(InputError):
    """A file of counters that cannot be served; names the line."""


class ExporterOptionError(InputError):
    """An option of the exporter that cannot be."""
