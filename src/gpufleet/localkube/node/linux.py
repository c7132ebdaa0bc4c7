"""The few system calls that Python 3.11 has no name for."""

import ctypes
import os
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_BIND = 4096
MS_REC = 16384
MS_SLAVE = 1 << 19
MS_SHARED = 1 << 20
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
"""All of these stand in sched.h, sys/mount.h and sys/prctl.h."""

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave these namespaces for new ones; a new one of processes is for children only."""
    _check(_libc.unshare(flags))


def join(namespace: int, kind: int) -> None:
    """Enter the namespace behind an open file; one of processes is for children only."""
    _check(_libc.setns(namespace, kind))


def mount(source: str, target: str, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    """Mount, as the system call of that name; OSError tells the target."""
    encoded = (source.encode(), os.fsencode(target), None if kind is None else kind.encode())
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), options.encode() or None), target)


def detach(target: str) -> None:
    """Unmount now, or as soon as no process uses it any more."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent's thread ends."""
    _check(_libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))


def _check(result: int, path: str | None = None) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
