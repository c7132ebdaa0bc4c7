"""On what a fact of the catalogue rests: a copy that was read, with date and place, or that nothing was.

A number in a table looks the same whether it was read in the publisher's file or written down from memory. So
every entry of ``catalogue`` says which of the two it is, and the output repeats it.
"""

import msgspec


class Basis(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Either ``checked``, the day on which ``read`` was compared with the entry, or ``unchecked``: on what
    the entry rests instead. Never both, never neither.
    """

    checked: str = ""
    read: str = ""
    unchecked: str = ""

    def __post_init__(self) -> None:
        """Refuses a date without a place, and an entry that claims nothing or both."""
        if bool(self.checked) != bool(self.read) or bool(self.checked) == bool(self.unchecked):
            raise ValueError("either `checked` with `read`, or `unchecked`")

    @property
    def is_checked(self) -> bool:
        """Whether a copy was read."""
        return bool(self.checked)

    @property
    def text(self) -> str:
        """The basis of a fact in words."""
        return f"checked {self.checked} in {self.read}" if self.checked else f"unchecked: {self.unchecked}"
