"""What keeps an image from being built."""

from gpufleet.model.model_errors import WorldError


class ImageError(WorldError):
    """Something that the build needs is not there, or failed; says what to do."""
