"""Claims that were made ready for containers, each in a file that outlives the process and the boot.

The kubelet prepares a claim once and never again, also after restarts; so what it was answered has to be
found here, whatever else is lost. A file that is torn or was changed is not believed in part: it is moved
out of the way and told, and harms no other claim. One that cannot be read is told too, and stays where it is.
"""

import enum
import logging
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin.cdi import CdiEdits
from gpufleet.agent.state.checksummed import ChecksumError, checked, with_checksum
from gpufleet.agent.state.disk import DISK, PRIVATE, Disk, replace_file
from gpufleet.agent.state.topic import Topic
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance

LOG = logging.getLogger(__name__)
# A record of another version is not believed.
VERSION = 1
FOLDER_MODE = 0o700
_SUFFIX = ".json"
_DAMAGED = ".damaged"
"""Behind the name of a record that was put aside."""

# UIDs of the API server: nothing else becomes the name of a file.
_UID = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z-]{0,62}")


class PreparedDevice(msgspec.Struct, frozen=True):
    """One device of a claim: for which request, as what it is named, and which card or part of a card it is.

    ``profile`` and ``start`` find an instance again whose UUID changed with a reboot. ``edits`` is what a
    container gets. ``by_admin`` is set where the device may be held by another claim too.
    ``slices`` are the memory slices, as bits, of a device that is made for its claim; 0 for all others.
    """

    request: str
    pool: str
    device: str
    gpu: DeviceId
    instance: str = ""
    profile: str = ""
    start: int | None = None
    edits: CdiEdits = CdiEdits()
    share_id: str | None = None
    by_admin: bool = False
    slices: int = 0

    @property
    def place(self) -> MigInstance | None:
        """Where the instance is that it is; None for a whole card, and for a part without a place."""
        return None if self.start is None else MigInstance(self.start, self.profile)

    def overlaps(self, other: "PreparedDevice") -> bool:
        """Whether both are the same device, or one is a part of the other."""
        if self.gpu != other.gpu:
            return False
        if self.slices and other.slices:
            return bool(self.slices & other.slices)
        if not self.instance or not other.instance or self.instance == other.instance:
            return True
        # After a reboot the instance at a place has another UUID. Partitions without a place keep theirs.
        place = (self.profile, self.start)
        return self.start is not None and place == (other.profile, other.start)


class Stage(enum.Enum):
    """How far a claim is."""

    MAKING = "making"
    """Devices of it are being made; no container has it yet."""

    READY = "ready"
    ENDING = "ending"
    """It is being taken back: no container has it any more, and what was made for it goes."""


class PreparedClaim(msgspec.Struct, frozen=True):
    """A claim with its devices of one driver; ``boot_id`` is of the boot in which ``edits`` were found."""

    uid: str
    namespace: str
    name: str
    driver: str
    boot_id: str
    devices: tuple[PreparedDevice, ...] = ()
    stage: Stage = Stage.READY

    @property
    def title(self) -> str:
        """How it is named in sentences: namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def made(self) -> tuple[PreparedDevice, ...]:
        """The devices that are made for it, and go with it."""
        return tuple(one for one in self.devices if one.slices and not one.by_admin)


Prepared = Topic[Mapping[tuple[str, str], PreparedClaim]]
"""The prepared claims by UID and driver."""


class _Data(msgspec.Struct, frozen=True):
    version: int
    boot_id: str
    claim: PreparedClaim


_DATA = msgspec.json.Decoder(_Data)


class ClaimRecord:
    """The prepared claims of all drivers in one folder."""

    def __init__(self, folder: Path, disk: Disk = DISK) -> None:
        self._folder = folder
        self._disk = disk
        self.is_whole = True
        """Whether all claims that were prepared are known: not where a record or the folder is lost."""

        self.problem = ""
        """What could not be read, in sentences; empty where all could."""

    def load(self) -> tuple[PreparedClaim, ...]:
        """What earlier processes prepared, in a fixed order. Raises OSError."""
        if not self._folder.is_dir():
            self.is_whole = False
            return ()
        found, problems = [], []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                found.append(self._read(path))
            except (ChecksumError, OSError) as error:
                problem = f"the record {path.name} of a prepared claim {error}"
                LOG.warning(problem, extra={"path": str(path)})
                problems.append(problem)
        self.problem = "; ".join(problems)
        # A record that was put aside by an earlier process stays lost until its claim is found again.
        self.is_whole = not problems and not any(self._folder.glob(f"*{_DAMAGED}"))
        return tuple(found)

    def keep(self, claim: PreparedClaim) -> None:
        """Remember a claim. Raises OSError; then it is not known whether it is remembered."""
        text = with_checksum(_Data(VERSION, claim.boot_id, claim))
        self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        replace_file(self._disk, self._path(claim.uid, claim.driver), text, PRIVATE)
        self._remove_damaged(claim.uid, claim.driver)

    def forget(self, uid: str, driver: str) -> None:
        """Remove a claim; one that is not there is no error. Raises OSError."""
        self._disk.remove(self._path(uid, driver))
        self._remove_damaged(uid, driver)

    def _remove_damaged(self, uid: str, driver: str) -> None:
        """Remove what was put aside of a claim that is known again, or gone. Raises OSError."""
        path = _damaged(self._path(uid, driver))
        if path.exists():
            self._disk.remove(path)

    def _path(self, uid: str, driver: str) -> Path:
        return self._folder / f"{uid}.{driver}{_SUFFIX}"

    def _read(self, path: Path) -> PreparedClaim:
        """The claim of a file. Raises ChecksumError for one that was put aside, OSError."""
        try:
            data = self._disk.read(path)
        except OSError as error:
            # Left where it is: it may be readable the next time.
            raise OSError(f"cannot be read: {error}") from error
        try:
            _, value = checked(data, VERSION)
            return _DATA.decode(value).claim
        except ChecksumError as error:
            problem = str(error)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problem = f"is damaged: {error}"
        path.replace(_damaged(path))
        raise ChecksumError(problem)


def _damaged(path: Path) -> Path:
    return path.with_name(f"{path.name}{_DAMAGED}")


def is_uid(text: str) -> bool:
    """Whether a text can be the UID of a claim, and so part of a file's name."""
    return _UID.fullmatch(text) is not None


def has_records(folder: Path) -> bool:
    """Whether a folder has records of prepared claims, readable or not."""
    return any(folder.glob(f"*{_SUFFIX}"))
