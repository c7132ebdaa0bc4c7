"""Checksums of months that change no more, each in a file beside its month.

They are in the form of ``sha256sum``, which can check them.
"""

import hashlib
from pathlib import Path

from gpufleet.files.atomic_write import write_whole
from gpufleet.files.regular import MEBIBYTE, read_regular
from gpufleet.model.model_errors import InputError

ENDING = ".sha256"
"""What stands behind the name of the file that a checksum is of."""


def checksum_path(path: Path) -> Path:
    """Where the checksum of a file is."""
    return path.with_name(path.name + ENDING)


def write_checksum(path: Path, content: bytes) -> str:
    """Write the checksum of a file of this content beside it; what it is. Raises FileWriteError."""
    checksum = hashlib.sha256(content).hexdigest()
    write_whole(checksum_path(path), f"{checksum}  {path.name}\n".encode())
    return checksum


def check(path: Path, content: bytes) -> None:
    """Raises InputError for a file that has no checksum, or another one than its content."""
    beside = checksum_path(path)
    if not beside.exists():
        raise InputError("has no checksum beside it", where=str(path), expected=f"the file {beside.name}")
    told = read_regular(beside, MEBIBYTE, field="LOG").decode(errors="replace").partition(" ")[0]
    found = hashlib.sha256(content).hexdigest()
    if told != found:
        raise InputError(
            "was changed after it was sealed",
            where=str(path),
            value=found,
            expected=f"the checksum {told} of {beside.name}",
        )
