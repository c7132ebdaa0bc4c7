"""Amounts written the Kubernetes way ("500m", "16Gi", "1e3"), read and written exactly.

Two schedulers on one cluster must read the same number from the same text, so this follows the
API server's parser: "1E" is exa and "1E3" a thousand, nothing finer than nano is kept (rounded
away from zero, so that asking for little never becomes asking for nothing), and amounts with a
binary suffix, and only those, are capped at 2^63-1. In one thing it is stricter: a text without
any digit is refused, where the server reads "Mi" as zero and refuses "Pi", by accident of its
fast path; what it stores always has digits. Amounts are integers of nano units: no float ever.
``requests`` turns quantities into what a pod needs.
"""

import enum
import functools
import re

import msgspec

from gpufleet.model.model_errors import InputError

# The API keeps amounts to a billionth.
NANO_PER_UNIT = 10**9
NANO_PER_MILLI = 10**6
MAXIMUM_INT64 = 2**63 - 1
"""The API server counts in signed numbers of 64 bits."""

# The server bounds neither; these keep the work on one text small, far beyond any real amount.
MAXIMUM_LENGTH = 1000
MAXIMUM_EXPONENT = 1000

EXPECTED = "a quantity such as 2, 500m, 16Gi or 1e3, without spaces"


class Notation(enum.Enum):
    """How an amount is spelt; it is kept so that what was "1Gi" is not shown as 1073741824."""

    DECIMAL = "decimal"
    BINARY = "binary"
    EXPONENT = "exponent"


class Quantity(msgspec.Struct, frozen=True, eq=False):
    """An exact amount. Equality and order look at the amount, never at the notation."""

    nano: int = 0
    notation: Notation = Notation.DECIMAL

    def value(self) -> int:
        """The amount in whole units, rounded away from zero."""
        return _divide_away_from_zero(self.nano, NANO_PER_UNIT)

    def milli_value(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return _divide_away_from_zero(self.nano, NANO_PER_MILLI)

    def is_whole(self) -> bool:
        """True if no fraction of a unit is asked for."""
        return self.nano % NANO_PER_UNIT == 0

    def __eq__(self, other: object) -> bool:
        return self.nano == other.nano if isinstance(other, Quantity) else NotImplemented

    def __ne__(self, other: object) -> bool:
        # msgspec brings a __ne__ of its own, which would not ask __eq__.
        return not self == other

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __add__(self, other: "Quantity") -> "Quantity":
        notation = self.notation if self.nano else other.notation
        return Quantity(self.nano + other.nano, notation)

    def __str__(self) -> str:
        """The canonical spelling: no fraction, the largest suffix that loses nothing."""
        binary = self.notation is Notation.BINARY and self.is_whole()
        if binary and abs(self.nano) >= 1024 * NANO_PER_UNIT:
            return _binary_spelling(self.nano // NANO_PER_UNIT)
        return _decimal_spelling(self.nano, self.notation)


ZERO = Quantity()

# Anything the server's scanner would cut into sign, digits, fraction and suffix.
_PARTS = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([A-Za-z]*(?:[+-]?[0-9]+)?)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL_SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_POWER_OF_TEN = {suffix: 3 * step - 9 for step, suffix in enumerate(_DECIMAL_SUFFIXES)}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_POWER_OF_TWO = {suffix: 10 * step for step, suffix in enumerate(_BINARY_SUFFIXES) if suffix}
_LARGEST_SUFFIX_POWER = _POWER_OF_TEN["E"]


def parse_quantity(text: str, *, field: str = "") -> Quantity:
    """The amount that the API server would read from ``text``.

    Raises InputError, naming ``field``, for what the server refuses, and for what is too long
    or too large to be an amount of anything.
    """
    if len(text) > MAXIMUM_LENGTH:
        problem = f"a quantity of {len(text)} characters"
        raise InputError(problem, field=field, value=text, expected=EXPECTED)
    parsed = _parse(text)
    if isinstance(parsed, str):
        raise InputError(parsed, field=field, value=text, expected=EXPECTED)
    return parsed


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity | str:
    """The quantity, or what is wrong with the text. A fleet's pods repeat a few hundred texts."""
    parts = _PARTS.fullmatch(text)
    if parts is None:
        return "not a quantity"
    sign, whole, fraction, suffix = parts.groups(default="")
    digits = whole + fraction
    if not digits:
        return "not a quantity: no digits"
    mantissa = int(sign + digits)
    power_of_two = _POWER_OF_TWO.get(suffix)
    if power_of_two is not None:
        return _binary(mantissa, len(fraction), power_of_two)
    power_of_ten = _POWER_OF_TEN.get(suffix)
    notation = Notation.DECIMAL
    if power_of_ten is None:
        exponent = _EXPONENT.fullmatch(suffix)
        if exponent is None:
            return "not a quantity: unknown suffix"
        power_of_ten = int(exponent.group(1))
        notation = Notation.EXPONENT
        if abs(power_of_ten) > MAXIMUM_EXPONENT:
            return "a quantity with an absurd exponent"
    return Quantity(_nano(mantissa, power_of_ten - len(fraction)), notation)


def _nano(mantissa: int, power_of_ten: int) -> int:
    factor: int = 10 ** abs(power_of_ten + 9)
    return mantissa * factor if power_of_ten >= -9 else _divide_away_from_zero(mantissa, factor)


def _binary(mantissa: int, fraction_digits: int, power_of_two: int) -> Quantity:
    """Binary amounts alone are capped, and below one unit they turn decimal, as in the server."""
    nano = _nano(mantissa << power_of_two, -fraction_digits)
    limit = MAXIMUM_INT64 * NANO_PER_UNIT
    nano = max(-limit, min(limit, nano))
    decimal = 0 < abs(nano) < NANO_PER_UNIT
    return Quantity(nano, Notation.DECIMAL if decimal else Notation.BINARY)


def _divide_away_from_zero(amount: int, divisor: int) -> int:
    return -(-amount // divisor) if amount > 0 else amount // divisor


def _binary_spelling(amount: int) -> str:
    step = 0
    while amount % 1024 == 0 and step < len(_BINARY_SUFFIXES) - 1:
        amount //= 1024
        step += 1
    return f"{amount}{_BINARY_SUFFIXES[step]}"


def _decimal_spelling(nano: int, notation: Notation) -> str:
    power_of_ten = -9
    while nano and nano % 1000 == 0:
        nano //= 1000
        power_of_ten += 3
    if nano == 0:
        return "0"
    # There is no suffix above exa, so larger amounts are spelt with an exponent.
    if notation is Notation.EXPONENT or power_of_ten > _LARGEST_SUFFIX_POWER:
        return f"{nano}e{power_of_ten}" if power_of_ten else str(nano)
    return f"{nano}{_DECIMAL_SUFFIXES[power_of_ten // 3 + 3]}"
