"""What can be wrong with a scenario file."""

from gpufleet.model.model_errors import InputError


class ScenarioError(InputError):
    """The file says something that cannot be played: names the file, the field and the way out."""
