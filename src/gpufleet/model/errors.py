"""The three kinds of error, from which every package grows its own small tree.

``InputError``: what somebody gave us is bad; it is shown to its owner and harms nobody else.
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
        place = ", ".join(part for part in (self.where, self.field) if part)
        sentence = f"{place}: {self.problem}" if place else self.problem
        if self.value is not None:
            sentence += f", found {printable(self.value)}"
        if self.expected:
            sentence += f"; expected {self.expected}"
        return sentence


class WorldError(GpufleetError):
    """Something outside of the program failed; trying again may help."""


class InternalError(GpufleetError):
    """An invariant of ours broke: a bug, with the story that led to it."""


def printable(value: object, limit: int = 80) -> str:
    """The value as one bounded line of ASCII, so that hostile text cannot forge a log line."""
    if isinstance(value, str):
        cut = value if len(value) <= limit else value[:limit]
        more = "" if len(value) <= limit else f" and {len(value) - limit} more characters"
        return ascii(cut) + more
    text = ascii(value)
    return text if len(text) <= limit else text[:limit] + "..."
