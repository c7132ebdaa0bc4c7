"""The records of changes on the disk: an agent that starts anew goes on, or back, where the last one was.

They hold for one boot, because instances do not outlive it. A file that cannot be believed counts as none:
the layout that is wanted is known from the Node, and only the layout before is lost.
"""

import logging
from pathlib import Path

import msgspec

from gpufleet.agent.state.checksummed import ChecksumError, checked, with_checksum
from gpufleet.agent.state.disk import DISK, Disk, replace_file
from gpufleet.mig.change import LayoutChange
from gpufleet.model.identifiers import DeviceId

LOG = logging.getLogger(__name__)
FILE = "mig-changes.json"
# A file of another version is not believed.
VERSION = 1


class _Data(msgspec.Struct, frozen=True):
    version: int
    boot_id: str
    changes: tuple[LayoutChange, ...]


_DATA = msgspec.json.Decoder(_Data)


class ChangesOnDisk:
    """The file in the agent's own folder; ``changes`` has what it says, by card."""

    def __init__(self, folder: Path, boot_id: str, disk: Disk = DISK) -> None:
        self.path = folder / FILE
        self._boot_id = boot_id
        self._disk = disk
        self.changes: dict[DeviceId, LayoutChange] = {one.card: one for one in self._read()}

    async def write(self, change: LayoutChange) -> None:
        """Keep the record of a card's change. Raises OSError: no call is made without its record."""
        self._save({**self.changes, change.card: change})

    def forget(self, card: DeviceId) -> None:
        """Remove the record of a change that is over. Raises OSError."""
        self._save({uuid: one for uuid, one in self.changes.items() if uuid != card})

    def _save(self, changes: dict[DeviceId, LayoutChange]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = _Data(VERSION, self._boot_id, tuple(changes.values()))
        replace_file(self._disk, self.path, with_checksum(data))
        self.changes = changes

    def _read(self) -> tuple[LayoutChange, ...]:
        try:
            head, data = checked(self._disk.read(self.path), VERSION)
            return _DATA.decode(data).changes if head.boot_id == self._boot_id else ()
        except FileNotFoundError:
            return ()
        except (OSError, ChecksumError, msgspec.DecodeError) as error:
            extra = {"path": str(self.path), "problem": str(error)}
            LOG.warning("the record of changes of MIG layouts is not believed", extra=extra)
            return ()
