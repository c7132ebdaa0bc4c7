"""Where local clusters keep what they need: state below XDG_STATE_HOME, binaries below XDG_CACHE_HOME.

One folder per cluster, and beside it a lock that its supervisor holds for as long as it lives: a process that
gets the lock knows that no cluster runs there. `supervisor` holds it, `persistent` asks.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpufleet.model.model_errors import InputError
from gpufleet.progress.reporting import Progress

CLUSTER_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,38}[a-z0-9])?")
# The folder has keys of the cluster's authority.
PRIVATE = 0o700


def binaries_cache() -> Path:
    """The folder with a folder of binaries per version."""
    return _base("XDG_CACHE_HOME", ".cache") / "gpufleet" / "kube"


def clusters_folder() -> Path:
    """The folder with a folder per cluster."""
    return _base("XDG_STATE_HOME", ".local/state") / "gpufleet" / "clusters"


def cluster_folder(name: str) -> Path:
    """Where the cluster of this name lives; InputError for a name that cannot be one."""
    if not CLUSTER_NAME.fullmatch(name):
        raise InputError(
            "no name for a cluster",
            field="--name",
            value=name,
            expected="at most 40 of a-z, 0-9 and -, neither beginning nor ending with -",
        )
    return clusters_folder() / name


def lock_of(folder: Path) -> Path:
    """The lock beside a cluster's folder."""
    return folder.with_name(folder.name + ".lock")


def _base(variable: str, default: str) -> Path:
    """A base folder as the XDG specification says: relative values are ignored."""
    value = os.environ.get(variable, "")
    return Path(value) if value.startswith("/") else Path.home() / default


def try_lock(path: Path) -> int | None:
    """An open file that holds the lock, to be closed by the caller; None where another holds it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _still_there(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        # Its last holder removed it in this moment; the next one is a new file.
        os.close(descriptor)


@contextmanager
def locked(path: Path, progress: Progress, others_work: str) -> Iterator[None]:
    """Hold this lock, waiting for it as long as it takes; ``others_work`` says what its holder does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.during(f"waiting for another command, which {others_work}", lambda: ""):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_locked(path: Path) -> bool:
    """Whether a process holds this lock now; creates nothing."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _still_there(path: Path, descriptor: int) -> bool:
    mine = os.fstat(descriptor)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (mine.st_ino, mine.st_dev) == (there.st_ino, there.st_dev)
