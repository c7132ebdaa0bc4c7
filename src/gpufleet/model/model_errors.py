"""The three kinds of error, from which every package grows its own small tree.

``InputError``: a user's input is bad; its owner is told, and nothing else suffers.
``WorldError``: something outside fails (a disk, a server); it may be tried again.
``InternalError``: we are wrong; the program stops and tells the whole story.
"""


class GpufleetError(Exception):
    """Any error that gpufleet raises on purpose."""


class InputError(GpufleetError, ValueError):
    """The input is bad: names the field, the value, what was expected, and where it stood.

    ``field`` is the path of the field ("spec.resources.limits", a column of a table),
    ``value`` what stood there, ``expected`` the way out in words, ``where`` the document
    ("nodes.csv, row 12").
    """

    def __init__(
        self,
        problem: str,
        *,
        field: str = "",
        value: object = None,
        expected: str = "",
        where: str = "",
    ) -> None:
        self.problem = problem
        self.field = field
        self.value = value
        self.expected = expected
        self.where = where
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        parts = (shortened(part, PLACE_CHARACTERS_MAX) for part in (self.where, self.field) if part)
        place = ", ".join(parts)
        problem = shortened(self.problem, PROBLEM_CHARACTERS_MAX)
        sentence = f"{place}: {problem}" if place else problem
        if self.value is not None:
            sentence += f", found {printable(self.value)}"
        if self.expected:
            sentence += f"; expected {shortened(self.expected, PROBLEM_CHARACTERS_MAX)}"
        return sentence


class WorldError(GpufleetError):
    """Something outside of the program failed; trying again may help."""


class InternalError(GpufleetError):
    """An invariant of ours broke: a bug, with the story that led to it."""


NUMBER_BITS_MAX = 1000
"""Larger numbers are not written out: the conversion takes quadratic time."""

PLACE_CHARACTERS_MAX = 500
"""The longest path of a field or a file in a sentence: longer ones have been written to flood it."""

PROBLEM_CHARACTERS_MAX = 20_000
"""Problems are written by code and may list much; the bound is against floods."""


def shortened(text: str, limit: int) -> str:
    """The text, cut where it is longer than that, with how much is missing."""
    return text if len(text) <= limit else f"{text[:limit]}... and {len(text) - limit} more characters"


def printable(value: object, limit: int = 80) -> str:
    """The value as one bounded line of ASCII, so that hostile text cannot forge a log line."""
    if isinstance(value, int) and value.bit_length() > NUMBER_BITS_MAX:
        # To write it in decimal takes the square of its length, and Python refuses to.
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        cut = value if len(value) <= limit else value[:limit]
        more = "" if len(value) <= limit else f" and {len(value) - limit} more characters"
        return ascii(cut) + more
    try:
        text = ascii(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that is too long or too deep to be shown"
    return text if len(text) <= limit else text[:limit] + "..."
