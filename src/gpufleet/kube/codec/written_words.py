"""What objects of gpufleet's own kinds have in common as they are read: words of a list, lengths of lists.

The definitions say the same; an object may be older than its definition, so both are checked again here.
"""

import enum
from typing import TypeVar

from gpufleet.model.model_errors import InputError

Word = TypeVar("Word", bound=enum.Enum)


def read_word(text: str, words: type[Word], field: str) -> Word:
    """The word of a list. Raises InputError, naming the field and the words that there are."""
    try:
        return words(text)
    except ValueError:
        expected = ", ".join(one.value for one in words)
        raise InputError("unknown", field=field, value=text, expected=expected) from None


def check_length(length: int, most: int, field: str) -> None:
    """Raises InputError for more entries than the definition has room for."""
    if length > most:
        raise InputError(f"{length} entries", field=field, expected=f"at most {most}")
