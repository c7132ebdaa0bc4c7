"""The agent's one file: calls of the kubelet that were answered and not yet followed by a start.

It only saves work. What it says can be found in the kubelet's own record too, so a file that is torn, was
changed, is of another version or boot, or could not be written, is treated as absent with its reason, and
never believed in part. A new boot voids it: the kubelet allocates anew what it starts then.
"""

import logging
from pathlib import Path

import msgspec

from gpufleet.agent.state.checksummed import ChecksumError, checked, with_checksum
from gpufleet.agent.state.disk import DISK, PRIVATE, Disk, replace_file

LOG = logging.getLogger(__name__)
# A record of another version is not believed.
VERSION = 1


class OpenCall(msgspec.Struct, frozen=True):
    """The name that was answered for these units of shares."""

    name: str
    units: tuple[str, ...]


class State(msgspec.Struct, frozen=True):
    """All that is kept; ``calls`` from the oldest to the newest."""

    calls: tuple[OpenCall, ...] = ()


class _Data(msgspec.Struct, frozen=True):
    version: int
    boot_id: str
    state: State


_DATA = msgspec.json.Decoder(_Data)


class Loaded(msgspec.Struct, frozen=True):
    """What was read; ``problem`` says why nothing was, and is empty where there was no file or a good one."""

    state: State = State()
    problem: str = ""


class OpenCallRecord:
    """The file at one path, for one boot of the machine."""

    def __init__(self, path: Path, boot_id: str, disk: Disk = DISK) -> None:
        self._path = path
        self._boot_id = boot_id
        self._disk = disk
        self._saved: State | None = None
        self.problem = ""
        """Why the newest state is not on the disk; empty where it is."""

    def load(self) -> Loaded:
        """What an earlier process of this boot left."""
        try:
            data = self._disk.read(self._path)
        except FileNotFoundError:
            return Loaded()
        except OSError as error:
            return self._void(f"cannot be read: {error.strerror or error}")
        return self._decoded(data)

    def save(self, state: State) -> None:
        """Put the newest state on the disk. A disk that fails is told by ``problem``, and tried next time."""
        if state == self._saved:
            return
        # Forgotten before the write: after one that failed it is not known what the file says.
        self._saved = None
        text = with_checksum(_Data(VERSION, self._boot_id, state))
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self._disk, self._path, text, PRIVATE)
        except OSError as error:
            story = f"the agent's checkpoint is not written: {error.strerror or error}"
            if story != self.problem:
                LOG.warning(story, extra={"path": str(self._path)})
            self.problem = story
            return
        self._saved, self.problem = state, ""

    def _decoded(self, data: bytes) -> Loaded:
        try:
            _, value = checked(data, VERSION)
            found = _DATA.decode(value)
        except ChecksumError as error:
            return self._void(str(error))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return self._void(f"is damaged: {error}")
        if found.boot_id != self._boot_id:
            return self._void("is of an earlier boot")
        return Loaded(found.state)

    def _void(self, why: str) -> Loaded:
        story = f"the agent's checkpoint {why}; what it held is found in the kubelet's record"
        LOG.warning(story, extra={"path": str(self._path)})
        return Loaded(problem=story)
