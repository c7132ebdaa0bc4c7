"""Turns the cells of a trace into values, strictly.

Python's own ``int`` and ``float`` accept "1_000", " 12 ", full-width digits, "1e3" and "nan";
a trace that holds those was damaged on its way (a spreadsheet, a locale) and the other cells of
the row cannot be trusted either. Errors name column and value; ``bad_rows`` adds file and row.
"""

import re

from gpufleet.model.model_errors import InputError
from gpufleet.model.resources import MEBIBYTE

# The bounds keep sums over a fleet within 64 bits; no machine comes near them.
MOST_CPU_MILLI = 1_000_000_000
MOST_MEMORY_MIB = 1024 * 1024 * 1024
MOST_GPU_MEMORY_MIB = 16 * 1024 * 1024
MOST_GPUS_PER_NODE = 256  # what the engine holds; a test compares
MOST_PODS = 1_000_000
MICROSECONDS = 1_000_000
LARGEST_TIME_S = 9_000_000_000_000
"""In microseconds just below 2^63."""

# Longer than any name of Kubernetes: a longer one is another column, or a broken quote.
NAME_CHARACTERS = 512
WHOLE_SECONDS_DIGITS = 12
"""Short cells of digits alone, the usual case, are read without a pattern."""

_SECONDS = re.compile(r"([0-9]{1,13})(?:\.([0-9]{1,6}))?", re.ASCII)
_SIGNED = re.compile(r"-?[0-9]{1,18}", re.ASCII)

# The first that matches says what is wrong with a cell that should have been a number.
_NOT_A_NUMBER: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r""), "is empty"),
    (re.compile(r"\s.*|.*\s", re.DOTALL), "a space beside the number"),
    (re.compile(r"[0-9]*[^\x00-\x7f].*", re.DOTALL), "digits other than 0 to 9"),
    (re.compile(r"[0-9]{1,3}(_[0-9]+)+"), "an underscore inside the number"),
    (re.compile(r"[+-]?[0-9]*,[0-9,]*"), "a comma inside the number"),
    (re.compile(r"[+-]?[0-9.]+[eE][+-]?[0-9]+"), "a number with an exponent"),
    (re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE), "not a finite number"),
    (re.compile(r"-[0-9.]+"), "below 0"),
    (re.compile(r"\+[0-9.]+"), "a plus sign before the number"),
    (re.compile(r"[0-9]+\.[0-9]{7,}"), "more than 6 decimals"),
    (re.compile(r"[0-9]+\.[0-9]*"), "not a whole number"),
    (re.compile(r"[0-9]+"), "too large"),
)


def whole_number(cell: str, column: str, *, at_most: int, at_least: int = 0) -> int:
    """A number of plain digits between the two bounds."""
    # More digits are too many for every column, and int() takes long over thousands of them.
    if cell.isascii() and cell.isdigit() and len(cell) <= 19:
        number = int(cell)
        if at_least <= number <= at_most:
            return number
        problem = "too large" if number > at_most else "too small"
    else:
        problem = _not_a_number(cell)
    expected = f"a whole number from {at_least:,} to {at_most:,}"
    raise InputError(problem, field=column, value=cell, expected=expected)


def cpu_milli(cell: str) -> int:
    """Thousandths of a CPU core."""
    return whole_number(cell, "cpu_milli", at_most=MOST_CPU_MILLI)


def memory_bytes(cell: str) -> int:
    """The mebibytes of ``memory_mib``, exactly in bytes."""
    return MEBIBYTE * whole_number(cell, "memory_mib", at_most=MOST_MEMORY_MIB)


def gpu_memory_mib(cell: str) -> int | None:
    """Memory of a GPU or of a share of one; None if nothing is written."""
    if not cell:
        return None
    return whole_number(cell, "gpu_memory_mib", at_least=1, at_most=MOST_GPU_MEMORY_MIB)


def gpu_count(cell: str, column: str) -> int:
    """A number of GPUs of one node, or the number of one of them."""
    return whole_number(cell, column, at_most=MOST_GPUS_PER_NODE)


def pod_count(cell: str, column: str, *, at_least: int = 0) -> int:
    """A number of pods."""
    return whole_number(cell, column, at_least=at_least, at_most=MOST_PODS)


def signed_number(cell: str, column: str, *, at_least: int, at_most: int) -> int:
    """A number that may be below zero."""
    if _SIGNED.fullmatch(cell) and at_least <= int(cell) <= at_most:
        return int(cell)
    problem = "out of range" if _SIGNED.fullmatch(cell) else _not_a_number(cell)
    expected = f"a whole number from {at_least} to {at_most}"
    raise InputError(problem, field=column, value=cell, expected=expected)


def time_us(cell: str, column: str) -> int:
    """Seconds, with up to six decimals, as exact microseconds."""
    if len(cell) <= WHOLE_SECONDS_DIGITS and cell.isdigit() and cell.isascii():
        return int(cell) * MICROSECONDS
    match = _SECONDS.fullmatch(cell)
    if match and int(match[1]) <= LARGEST_TIME_S:
        return int(match[1]) * MICROSECONDS + int((match[2] or "").ljust(6, "0"))
    problem = "too large" if match else _not_a_number(cell)
    expected = f"seconds from 0 to {LARGEST_TIME_S:,}, with at most 6 decimals"
    raise InputError(problem, field=column, value=cell, expected=expected)


def _not_a_number(cell: str) -> str:
    for pattern, problem in _NOT_A_NUMBER:
        if pattern.fullmatch(cell):
            return problem
    return "not a number"


def name(cell: str, column: str) -> str:
    """A name: something, in one line, without characters that hide or turn text."""
    if cell and cell.isprintable() and len(cell) <= NAME_CHARACTERS:
        if cell[0] != " " and cell[-1] != " ":
            return cell
        problem = "a space at the beginning or the end"
    elif not cell:
        problem = "is empty"
    elif len(cell) > NAME_CHARACTERS:
        problem = "too long"
    else:
        problem = "a control or invisible character"
    expected = f"a name of 1 to {NAME_CHARACTERS} printable characters"
    raise InputError(problem, field=column, value=cell, expected=expected)


def refuse_twice(row_of_name: dict[str, int], name: str, column: str, row: int) -> None:
    """Notes that ``name`` stands in ``row``; raises if it stood in an earlier one."""
    first_row = row_of_name.setdefault(name, row)
    if first_row != row:
        problem = f"the name is already in row {first_row}"
        raise InputError(problem, field=column, value=name, expected="a name once in a file")
