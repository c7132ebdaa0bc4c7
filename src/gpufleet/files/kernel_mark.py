"""A mark in the cache of kernels says that all kernels of a policy are there and will be found.

The folder that it lies in is named after the sources of the kernels. numba finds a kernel there that was
compiled for this processor, so a mark is named after that, too, and holds as long as no kernel is missing.
Set-up and the image leave it there (``replay.kernels``), and so does a scheduler that had to compile;
``scheduler.kernels`` asks.
"""

import contextlib
import hashlib
import os
import platform
from pathlib import Path

from gpufleet.files.regular import UnfitFileError, read_beginning, read_kernel_file

MARK_BYTES_MAX = 20
"""A mark is one number."""
PROCESSOR_FILE = Path("/proc/cpuinfo")
PROCESSOR_LINES = ("vendor_id", "cpu family", "model\t", "flags", "CPU implementer", "CPU part", "Features")
"""The lines that say for which processor machine code is made, on x86-64 and on ARM."""
STATED = ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
"""The variables in which that processor may be stated, as in the image."""


class Mark:
    """Says that a folder has all kernels of a policy for this processor."""

    def __init__(self, folder: Path, policy: str, made_for: str) -> None:
        self.folder = folder
        self.path = folder / f"compiled-{policy}-{made_for}"

    def holds(self) -> bool:
        """True if all kernels were compiled and none is missing."""
        try:
            return self._kernels() >= int(read_beginning(self.path, MARK_BYTES_MAX)) > 0
        except (OSError, ValueError, UnfitFileError):
            return False

    def set(self) -> None:
        """All kernels are compiled."""
        # In an image the cache is read-only.
        with contextlib.suppress(OSError):
            self.path.write_text(str(self._kernels()))

    def _kernels(self) -> int:
        """How many kernels the folder has; numba keeps each in a file of its own."""
        return sum(1 for _ in self.folder.rglob("*.nbc"))


def processor(file: Path = PROCESSOR_FILE) -> str:
    """What machine code is made for: what is stated, else what the machine says of itself."""
    stated = [os.environ[name] for name in STATED if name in os.environ]
    if not stated:
        try:
            lines = read_kernel_file(file).decode(errors="replace").split("\n\n")[0].splitlines()
        except OSError:
            lines = []
        stated = [line for line in lines if line.startswith(PROCESSOR_LINES)]
    return short_digest([platform.machine(), *(stated or [platform.processor()])])


def short_digest(lines: list[str]) -> str:
    """A short name of some lines."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
