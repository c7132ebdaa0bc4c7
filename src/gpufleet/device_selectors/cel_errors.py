"""What can be wrong with an expression: its text, its evaluation on one device, or its cost."""

from gpufleet.model.model_errors import InputError


class ExpressionError(InputError):
    """The text is no expression, or its types do not fit. ``offset`` is the place in the text."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


class EvaluationError(Exception):
    """The expression has no value for this input; ``&&`` and ``||`` may absorb it."""


class CostExceededError(Exception):
    """The evaluation was ended because it cost more than its limit; nothing absorbs it."""
