"""What the kernel says about devices in its file system, read so that nothing can go wrong loudly.

A file that is missing, cannot be read or holds something else than it should is None: drivers differ in
which files they have, and a GPU that is being reset answers with errors for a while. ``drm_cards`` lists
the GPUs of a driver; the vendors' backends read the rest.
"""

import re
from pathlib import Path

from gpufleet.files.regular import read_kernel_file

SIZE_MAX_BYTES = 64 * 1024
"""The kernel gives at most a page of text; binary files such as ``gpu_metrics`` have a few."""

_NUMBER = re.compile(r"-?[0-9]{1,20}|0x[0-9a-fA-F]{1,16}")
# The kernel's drivers give bytes.
MIB = 1024 * 1024


def text(path: Path) -> str | None:
    """The file's text without spaces around it; None if there is none."""
    found = content(path)
    return None if found is None else found.decode("ascii", "replace").strip("\0 \t\r\n") or None


def content(path: Path) -> bytes | None:
    """The file's bytes, up to a limit; None if it cannot be read."""
    try:
        return read_kernel_file(path, SIZE_MAX_BYTES)
    except OSError:
        return None


def number(path: Path) -> int | None:
    """The whole number in a file, decimal or with 0x; None if there is none."""
    return as_number(text(path))


def as_number(word: str | None) -> int | None:
    """The whole number that a word is; None if it is none."""
    # With base 0 a decimal number with leading zeros would be refused.
    return int(word, 0 if word.startswith("0x") else 10) if word and _NUMBER.fullmatch(word) else None


def table(path: Path) -> dict[str, int]:
    """A file of lines with a name and a number each; other lines are left out."""
    rows = (line.replace(":", " ").split() for line in (text(path) or "").splitlines())
    pairs = ((row[0], as_number(row[1])) for row in rows if len(row) == 2)
    return {name: value for name, value in pairs if value is not None}


def entries(folder: Path, pattern: str) -> list[Path]:
    """The entries of a folder with names that match as a whole, by the numbers in them."""
    try:
        found = [path for path in folder.iterdir() if re.fullmatch(pattern, path.name)]
    except OSError:
        return []
    return sorted(found, key=lambda path: _natural(path.name))


def scaled(value: int | None, divisor: int) -> int | None:
    """A reading in another unit, rounded to the nearest; None stays None."""
    return None if value is None else round(value / divisor)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.findall(r"[0-9]+|[^0-9]+", name)]
