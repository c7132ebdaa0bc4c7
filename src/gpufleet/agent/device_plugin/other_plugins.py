"""Which other device plugins for NVIDIA's GPUs serve this node's kubelet.

Every device plugin has a socket in the kubelet's folder. NVIDIA's, its forks and those of clouds give theirs
a name that begins with "nvidia" (``nvidia-gpu.sock``, ``nvidiaGPU-1700000000.sock``). A socket that refuses
a connection is what a killed plugin left, and counts for nothing.
"""

import errno
import socket
from pathlib import Path

from gpufleet.agent.gpus.simulation_control import short_path

PREFIX = "nvidia"
# A plugin that is busy has a full queue; it is there all the same.
BUSY = frozenset({errno.EAGAIN, errno.EINPROGRESS})


def other_plugins(folder: Path) -> tuple[str, ...]:
    """The names of their sockets in the kubelet's folder of device plugins."""
    try:
        names = sorted(one.name for one in folder.iterdir() if one.name.lower().startswith(PREFIX))
        # Without a file no socket has to be tried.
        if not names:
            return ()
        with short_path(folder) as short:
            return tuple(name for name in names if _answers(f"{short}/{name}"))
    except OSError:
        return ()


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        return connection.connect_ex(path) in BUSY | {0}
