"""Whether this user on this machine can have a real node, asked before anything is started."""

import os
import sys
from pathlib import Path

from gpufleet.files.regular import read_kernel_file
from gpufleet.localkube.processes.process_errors import ClusterError

NEEDED = {"CAP_NET_ADMIN": 12, "CAP_SYS_CHROOT": 18, "CAP_SYS_ADMIN": 21, "CAP_MKNOD": 27}
"""Rights that root lacks inside an unprivileged container, by their bit."""

STATUS = Path("/proc/self/status")


def problem() -> str | None:
    """Why there can be no real node here, with the way out; None if there can."""
    if sys.platform != "linux":
        return "a real node needs Linux; without --real-node all nodes are simulated"
    if os.geteuid() != 0:
        return (
            "a real node needs root, because it starts containers: run the command with sudo, "
            "or leave --real-node out; simulated nodes need no rights"
        )
    held = _capabilities()
    lacking = [name for name, bit in NEEDED.items() if not held >> bit & 1]
    if lacking:
        return (
            f"a real node needs {', '.join(lacking)}, which root does not have here; in a container, "
            "run it privileged, or leave --real-node out"
        )
    return None


def check() -> None:
    """ClusterError with the way out if there can be no real node here."""
    found = problem()
    if found is not None:
        raise ClusterError(found)


def _capabilities() -> int:
    for line in read_kernel_file(STATUS).decode("ascii").splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0
