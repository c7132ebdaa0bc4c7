"""Whole numbers in annotations and labels, which the API server does not check."""

from gpufleet.model.model_errors import InputError

MAXIMUM_COUNT = 1_000_000
"""More than any gang has members: a larger number is a mistake of its author."""


def read_count(text: str, field: str, most: int = MAXIMUM_COUNT) -> int:
    """A number from 1 up, in plain digits: what else Python's ``int`` would take is refused."""
    plain = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    if not plain or not 0 < int(text) <= most:
        raise InputError("not a count", field=field, value=text, expected=f"a whole number from 1 to {most}")
    return int(text)
