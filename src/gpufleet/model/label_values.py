"""Sets of label values, closed under intersection and complement, with an exact emptiness test.

A requirement on a label ("gpu.memory Gt 40000") allows a set of values, among which "the label is absent"
counts as one. Two selectors can hold together exactly if the intersection of their sets is not empty. That is
asked when a pod waits for a node that the cluster lacks, and when a scaler looks for a node pool that could
have it. ``labels`` makes these sets from requirements.

A set is kept as a rule with exceptions: is absence allowed, are texts that are no integer allowed, which
integers are allowed (as ranges), and single texts for which the opposite of the rule holds. This form is
closed under every operation, also with Gt and Lt, which a plain list of allowed or forbidden values is not.
"""

import bisect
import re
from collections.abc import Iterable, Iterator

import msgspec

# Gt and Lt of the API compare integers of 64 bits.
MAXIMUM_INTEGER = 2**63 - 1
Range = tuple[int, int]
NO_INTEGER: tuple[Range, ...] = ()
EVERY_INTEGER: tuple[Range, ...] = ((0, MAXIMUM_INTEGER),)

_INTEGER = re.compile(r"[0-9]{1,63}")


def integer_in(value: str) -> int | None:
    """The integer that Gt and Lt see in a label value, None if they see none.

    A label value cannot begin with a sign, so none is read; int64 is all that is compared.
    """
    if not _INTEGER.fullmatch(value):
        return None
    integer = int(value)
    return integer if integer <= MAXIMUM_INTEGER else None


class LabelValues(msgspec.Struct, frozen=True, cache_hash=True):
    """A set of label values.

    ``ranges`` are the allowed integers, inclusive, ascending, with gaps between them; ``exceptions`` are
    sorted texts: each is in the set exactly if the rest says that it is not.
    """

    absent: bool
    texts: bool
    ranges: tuple[Range, ...]
    exceptions: tuple[str, ...] = ()

    def accepts(self, value: str | None) -> bool:
        """True if the set holds the value; None stands for an absent label."""
        if value is None:
            return self.absent
        position = bisect.bisect_left(self.exceptions, value)
        listed = position < len(self.exceptions) and self.exceptions[position] == value
        return self._rule(value) != listed

    def is_empty(self) -> bool:
        """True if no label value, and no absence of the label, is in the set.

        One integer has many spellings (5, 05, 005), so a range is never emptied by exceptions.
        """
        allowed = any(not self._rule(value) for value in self.exceptions)
        return not (self.absent or self.texts or self.ranges or allowed)

    def complement(self) -> "LabelValues":
        """Every value that is not in this set."""
        return LabelValues(
            absent=not self.absent,
            texts=not self.texts,
            ranges=tuple(_gaps(self.ranges)),
            exceptions=self.exceptions,
        )

    def intersection(self, other: "LabelValues") -> "LabelValues":
        """The values that are in both sets."""
        rule = LabelValues(
            absent=self.absent and other.absent,
            texts=self.texts and other.texts,
            ranges=tuple(_overlaps(self.ranges, other.ranges)),
        )
        named = sorted({*self.exceptions, *other.exceptions})
        exceptions = (
            value for value in named if (self.accepts(value) and other.accepts(value)) != rule.accepts(value)
        )
        return msgspec.structs.replace(rule, exceptions=tuple(exceptions))

    def union(self, other: "LabelValues") -> "LabelValues":
        """The values that are in either set."""
        return self.complement().intersection(other.complement()).complement()

    def _rule(self, value: str) -> bool:
        """Membership of a text before exceptions."""
        integer = integer_in(value)
        if integer is None:
            return self.texts
        return any(low <= integer <= high for low, high in self.ranges)


ANYTHING = LabelValues(absent=True, texts=True, ranges=EVERY_INTEGER)
PRESENT = LabelValues(absent=False, texts=True, ranges=EVERY_INTEGER)
ABSENT = LabelValues(absent=True, texts=False, ranges=NO_INTEGER)


def only(values: Iterable[str]) -> LabelValues:
    """The set of exactly these values."""
    exceptions = tuple(sorted(set(values)))
    return LabelValues(absent=False, texts=False, ranges=NO_INTEGER, exceptions=exceptions)


def integers_between(low: int, high: int) -> LabelValues:
    """Every spelling of the integers from ``low`` to ``high`` inclusive."""
    low, high = max(low, 0), min(high, MAXIMUM_INTEGER)
    ranges = ((low, high),) if low <= high else NO_INTEGER
    return LabelValues(absent=False, texts=False, ranges=ranges)


def _gaps(ranges: tuple[Range, ...]) -> Iterator[Range]:
    start = 0
    for low, high in ranges:
        if start < low:
            yield start, low - 1
        start = high + 1
    if start <= MAXIMUM_INTEGER:
        yield start, MAXIMUM_INTEGER


def _overlaps(left: tuple[Range, ...], right: tuple[Range, ...]) -> Iterator[Range]:
    """The common parts of two ascending lists of ranges, in one walk over both."""
    at_left = at_right = 0
    while at_left < len(left) and at_right < len(right):
        low = max(left[at_left][0], right[at_right][0])
        high = min(left[at_left][1], right[at_right][1])
        if low <= high:
            yield low, high
        if left[at_left][1] < right[at_right][1]:
            at_left += 1
        else:
            at_right += 1
