"""The agent's own file of holders, for the case that the kubelet loses its checkpoint.

Each container with the units that the kubelet gave it, each answer to Allocate of which it is unknown
which container took it up, and the pods of both as last seen. The file holds for one
boot. One that is torn, was changed, is of another version or boot, or could not be written, is treated as
absent with its reason; other sources (``holder_memory``) then count alone.
"""

import logging
from pathlib import Path

import msgspec

from gpufleet.agent.state.checksummed import ChecksumError, checked, with_checksum
from gpufleet.agent.state.disk import DISK, PRIVATE, Disk, replace_file

LOG = logging.getLogger(__name__)
FILE = "holders.json"
# A file of another version is not believed.
VERSION = 1


class RememberedHolder(msgspec.Struct, frozen=True):
    """Units of one resource that one container of one pod was given."""

    pod_uid: str
    namespace: str
    pod: str
    container: str
    resource: str
    units: tuple[str, ...]


class ContainerRef(msgspec.Struct, frozen=True):
    """A container of a pod, and the pod as sentences name it."""

    pod_uid: str
    container: str
    pod: str = ""


class AllocateAnswer(msgspec.Struct, frozen=True):
    """Units that an Allocate was answered with, and the containers any of which may have asked for them."""

    resource: str
    units: tuple[str, ...]
    possible: tuple[ContainerRef, ...]


class LastSeen(msgspec.Struct, frozen=True):
    """A pod that may hold something: its grace as last seen, and since when the API has it no more.

    The moment is of the machine's monotonic clock.
    """

    pod_uid: str
    grace_s: float
    gone_since_s: float | None = None


class HolderState(msgspec.Struct, frozen=True):
    """All that is kept."""

    holders: tuple[RememberedHolder, ...] = ()
    answers: tuple[AllocateAnswer, ...] = ()
    pods: tuple[LastSeen, ...] = ()


class _Data(msgspec.Struct, frozen=True):
    version: int
    boot_id: str
    memory: HolderState


_DATA = msgspec.json.Decoder(_Data)
# What decoding raises for a file that was cut or changed.
_UNBELIEVABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class HolderRecord:
    """The file in the agent's own folder, for one boot of the machine; without a folder nothing is kept."""

    def __init__(self, folder: Path | None = None, boot_id: str = "", disk: Disk = DISK) -> None:
        self.path = None if folder is None or not boot_id else folder / FILE
        self.problem = ""
        """Why the newest state is not on the disk; empty where it is."""
        self._boot_id = boot_id
        self._disk = disk
        self._saved: HolderState | None = None

    def load(self) -> HolderState:
        """What an earlier process of this boot left; nothing where it cannot be believed."""
        if self.path is None:
            return HolderState()
        try:
            head, data = checked(self._disk.read(self.path), VERSION)
            if head.boot_id != self._boot_id:
                return self._void("is of an earlier boot")
            return _DATA.decode(data).memory
        except FileNotFoundError:
            return HolderState()
        except OSError as error:
            return self._void(f"cannot be read: {error.strerror or error}")
        except ChecksumError as error:
            return self._void(str(error))
        except _UNBELIEVABLE as error:
            return self._void(f"is damaged: {error}")

    def save(self, memory: HolderState) -> None:
        """Put the newest state on the disk. A disk that fails is told by ``problem``, and tried next time."""
        if self.path is None or memory == self._saved:
            return
        self._saved = None
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._disk, self.path, with_checksum(_Data(VERSION, self._boot_id, memory)), PRIVATE)
        except OSError as error:
            story = f"the record of holders is not written: {error.strerror or error}"
            if story != self.problem:
                LOG.warning(story, extra={"path": str(self.path)})
            self.problem = story
            return
        self._saved, self.problem = memory, ""

    def _void(self, why: str) -> HolderState:
        story = f"the record of holders {why}; the kubelet, NodeDevices and the grants count alone"
        LOG.warning(story, extra={"path": str(self.path)})
        return HolderState()
