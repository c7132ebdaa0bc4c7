"""The most memory that this process held during a run.

Linux keeps a high-water mark of a process and lets it be set back, so that each of several runs in
one process has its own. Where that is not possible the mark is that of the process so far. The
mark of ``getrusage`` is not used on Linux, because it includes what the parent held before.
"""

import contextlib
import re
import resource
import sys
from pathlib import Path

from gpufleet.files.regular import read_kernel_file

# Linux counts a peak in KiB, macOS in bytes.
KIBIBYTES_A_MEBIBYTE = 1024
BYTES_A_MEBIBYTE = 1024 * 1024
STATUS = Path("/proc/self/status")
CLEAR_MARK = Path("/proc/self/clear_refs")


def forget_peak() -> None:
    """Set the mark back to what is held now, where the system allows it."""
    with contextlib.suppress(OSError):
        CLEAR_MARK.write_text("5", encoding="ascii")


def peak_rss_mib() -> float:
    """The highest resident memory since ``forget_peak``."""
    with contextlib.suppress(OSError):
        found = re.search(
            r"^VmHWM:\s+(\d+) kB", read_kernel_file(STATUS).decode("utf-8", "replace"), flags=re.MULTILINE
        )
        if found:
            return round(int(found[1]) / KIBIBYTES_A_MEBIBYTE, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (BYTES_A_MEBIBYTE if sys.platform == "darwin" else KIBIBYTES_A_MEBIBYTE), 1)
