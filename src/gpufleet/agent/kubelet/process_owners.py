"""To which pod a process of this machine belongs, as its cgroup tells.

The kubelet puts every container below a cgroup that is named after its pod's UID, under either driver
(``/kubepods/burstable/pod<uid>/<container>`` or ``kubepods-burstable-pod<uid>.slice/...-<container>.scope``)
and either version of cgroups. Nothing is kept between two questions: a process id may be that of another
process by then. ``memory_monitor`` and the exporter ask; both need the machine's own /proc, which the agent
sees with hostPID.
"""

import re
from pathlib import Path

import msgspec

from gpufleet.files.regular import read_kernel_file

PROC = Path("/proc")
# One line for each hierarchy of control groups, at most a dozen.
_TEXT_MAX = 64 * 1024
# A UID as the API writes it, with underscores where systemd's naming took its dashes, or the hash that
# stands for it in a static pod's cgroup.
_UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD = re.compile(rf"(?:^|[/-])pod({_UID})(?:\.slice)?(?:/([^/]*)|$)")
_CONTAINER = re.compile(r"[0-9a-f]{64}")


class ProcessOwner(msgspec.Struct, frozen=True):
    """The pod of a process. ``container_id`` is the runtime's, empty where the cgroup does not name it."""

    pod_uid: str
    container_id: str = ""


def pod_of(pid: int) -> str | None:
    """The UID of the pod whose process this is; None for one of the machine's own."""
    owner = owner_of(pid)
    return None if owner is None else owner.pod_uid


def owner_of(pid: int, proc: Path = PROC) -> ProcessOwner | None:
    """The pod and container of a process; None where it has ended, is in no pod, or cannot be looked at."""
    try:
        text = read_kernel_file(proc / str(pid) / "cgroup", _TEXT_MAX)
    except OSError:
        return None
    return owner_in(text.decode("ascii", "replace"))


def owner_in(text: str) -> ProcessOwner | None:
    """The owner in the text of a cgroup file, one line for each hierarchy."""
    for line in text.splitlines():
        # Number, controllers and path; a path may contain colons.
        path = line.split(":", 2)[-1]
        found = _POD.search(path)
        if found is not None:
            container = _CONTAINER.search(found[2] or "")
            return ProcessOwner(found[1].replace("_", "-"), container[0] if container else "")
    return None
