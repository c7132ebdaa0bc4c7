"""Amounts as Kubernetes writes them, exact."""

import re
from fractions import Fraction

NUMBER = re.compile(r"^([+-]?[0-9]*\.?[0-9]*)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]{1,3})?$")
SCALES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    **{
        unit: Fraction(2 ** (10 * power))
        for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
    },
}


def read(value: str | float) -> Fraction:
    """An amount. Raises ValueError for what is none."""
    text = str(value).strip()
    found = NUMBER.match(text)
    if found is None or not any(letter.isdigit() for letter in found[1]):
        raise ValueError(f"{text!r} is no amount")
    number, unit = Fraction(found[1]), found[2] or ""
    # "E" alone and "Ei" are units; with a number behind it the letter begins an exponent.
    if unit[:1] in {"e", "E"} and len(unit) > 1 and unit != "Ei":
        return number * Fraction(10) ** int(unit[1:])
    return number * SCALES.get(unit, Fraction(1))
