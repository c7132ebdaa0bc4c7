"""Whether the disk has room for a local cluster, found out before anything of it is started.

On a full disk each program would end in its own way, some with pages of their own trace. ``up`` asks first.
"""

import os
from pathlib import Path

from gpufleet.files.files_errors import FileWriteError, shown_path

MEBIBYTE = 1 << 20
ROOM_MIB = 200
"""A new cluster of 20 nodes writes 124 MiB (`du -sm` of its folder), two logs of etcd of 64 MB at first."""


def check_room(folder: Path) -> None:
    """Raise FileWriteError where the disk that will hold this folder has too little left."""
    above = folder
    while not above.exists() and above != above.parent:
        above = above.parent
    seen = os.statvfs(above)
    left_mib = seen.f_bavail * seen.f_frsize // MEBIBYTE
    if left_mib < ROOM_MIB:
        raise FileWriteError(
            f"{shown_path(folder)}: {left_mib} MiB are left on this disk, and a cluster needs {ROOM_MIB}; "
            "free some space, or name another folder by XDG_STATE_HOME"
        )
