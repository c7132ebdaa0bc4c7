"""The health of each GPU on the disk: an agent that starts anew goes on where the last one was.

A GPU after an Xid may answer as if nothing had been, so an agent that forgets the Xid puts a broken GPU back
into service. The file is written before a change is published, and holds for one boot only: another one
resets every GPU, and times are those of a clock that begins with the boot.

A file that cannot be believed leaves every GPU in doubt. None is held for sick for ever, and none comes back
as if nothing had been: each is out of service, with that reason, until it has answered well and been quiet
for a while; and what the node's own report in the API says against a GPU (``reports.reported_xids``) is
held against it as before.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gpufleet.agent.state.checksummed import ChecksumError, checked, with_checksum
from gpufleet.agent.state.disk import DISK, Disk, replace_file
from gpufleet.devices.facts import GpuFacts
from gpufleet.devices.health import Health

LOG = logging.getLogger(__name__)
FILE = "gpu-health.json"
# A file of another version is not believed.
VERSION = 1
REPEATS_WRITTEN_EVERY_S = 1.0
"""A GPU that reports the same error a thousand times a second has its newest time written so often."""


class GpuRecord(msgspec.Struct, frozen=True):
    """What is kept of one GPU; ``instances`` are those of which something is known, by UUID.

    ``energy_mj`` and ``uncorrected_errors`` are as they were when this was written: where they have gone back
    since, the GPU was reset.
    """

    facts: GpuFacts
    health: Health = Health()
    instances: dict[str, Health] = {}
    lost: bool = False
    energy_mj: int | None = None
    uncorrected_errors: int | None = None


class _Data(msgspec.Struct, frozen=True):
    version: int
    boot_id: str
    cards: tuple[GpuRecord, ...]
    doubt: str = ""


_DATA = msgspec.json.Decoder(_Data)
# What decoding raises for a file that was cut or changed.
_UNBELIEVABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class HealthRecord:
    """The file in the agent's own folder, for one boot of the machine; without a boot id nothing is kept."""

    def __init__(self, folder: Path, boot_id: str, disk: Disk = DISK) -> None:
        self.path = folder / FILE
        self.disk = disk
        self.doubt = ""
        """Why it is not known what was against GPUs that no agent has seen since; mostly empty."""
        self.problem = ""
        """Why the newest health is not on the disk; empty where it is."""
        self._boot_id = boot_id
        self._written: tuple[GpuRecord, ...] | None = None
        self._written_at_s = 0.0

    def load(self) -> tuple[GpuRecord, ...]:
        """What an earlier process of this boot knew; nothing where there was none."""
        if not self._boot_id:
            return ()
        try:
            head, data = checked(self.disk.read(self.path), VERSION)
            if head.boot_id != self._boot_id:
                return ()
            found = _DATA.decode(data)
        # No file: no earlier process. One that cannot be read may have held an Xid.
        except FileNotFoundError:
            return ()
        except OSError as error:
            return self._doubted(f"cannot be read: {error.strerror or error}")
        except ChecksumError as error:
            return self._doubted(str(error))
        except _UNBELIEVABLE as error:
            return self._doubted(f"is damaged: {error}")
        self.doubt = found.doubt
        return found.cards

    def save(self, gpus: Sequence[GpuRecord], now_s: float) -> None:
        """Put it on the disk where it differs. A disk that fails is told by ``problem``, and tried again."""
        kept = tuple(gpus)
        before = self._written
        if not self._boot_id or (before is None and not kept and not self.doubt):
            return
        if before is not None and _same(kept, before, but_for_time=False):
            return
        recent = now_s - self._written_at_s < REPEATS_WRITTEN_EVERY_S
        if before is not None and recent and _same(kept, before, but_for_time=True):
            return
        self._write(kept, now_s)

    def _write(self, kept: tuple[GpuRecord, ...], now_s: float) -> None:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.disk, self.path, with_checksum(_Data(VERSION, self._boot_id, kept, self.doubt)))
        except OSError as error:
            story = f"the health of GPUs is not written: {error.strerror or error}"
            if story != self.problem:
                LOG.warning(story, extra={"path": str(self.path)})
            self.problem, self._written = story, None
            return
        self._written, self._written_at_s, self.problem = kept, now_s, ""

    def _doubted(self, why: str) -> tuple[GpuRecord, ...]:
        self.doubt = f"the record of its health {why}"
        LOG.warning("the health of GPUs is not known", extra={"path": str(self.path), "problem": self.doubt})
        return ()


def _same(those: tuple[GpuRecord, ...], others: tuple[GpuRecord, ...], *, but_for_time: bool) -> bool:
    """Whether they say the same of health; readings may differ, and the last evidence's time where asked."""
    if len(those) != len(others):
        return False
    return all(
        (one.facts, one.lost, one.instances.keys()) == (other.facts, other.lost, other.instances.keys())
        and all(
            _timeless(a) == _timeless(b) if but_for_time else a == b
            for a, b in zip(_healths(one), _healths(other), strict=True)
        )
        for one, other in zip(those, others, strict=True)
    )


def _healths(gpu: GpuRecord) -> list[Health]:
    return [gpu.health, *(health for _, health in sorted(gpu.instances.items()))]


def _timeless(health: Health) -> Health:
    return msgspec.structs.replace(health, last_evidence_s=0.0)
