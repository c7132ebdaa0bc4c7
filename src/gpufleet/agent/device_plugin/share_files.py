"""The CDI files of shares: one for each call of Allocate, written when its owner is known.

A file names its own pod and container, in the variables that the container sees, so that nothing else has
to be remembered of what was given. The runtime needs it whenever the container is made; without a living
owner it goes.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gpufleet.agent.device_plugin import cdi
from gpufleet.agent.device_plugin.cdi import CdiDevice, CdiEdits, CdiSpec
from gpufleet.agent.state.disk import DISK, Disk
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId

LOG = logging.getLogger(__name__)
# The kind of CDI's device names; the file's name begins with the prefix.
KIND = "gpufleet.io/share"
PREFIX = "gpufleet.io-share-"

# Variables of a container with a share (docs/gpu-shares.md).
POD_UID = "GPUFLEET_POD_UID"
POD = "GPUFLEET_POD"
CONTAINER = "GPUFLEET_CONTAINER"
EPOCH = "GPUFLEET_EPOCH"
DEVICES = "GPUFLEET_DEVICES"
GPU_MILLI = "GPUFLEET_GPU_MILLI"
MEMORY_MIB = "GPUFLEET_MEMORY_MIB"


class ShareGiven(msgspec.Struct, frozen=True):
    """What a container was given under the name of one call. ``pod`` is its title."""

    pod_uid: str
    pod: str
    container: str
    epoch: int
    parts: tuple[GrantedDevice, ...]

    def variables(self) -> dict[str, str]:
        """As the container sees it: of several devices one value each, in the same order."""
        found = {
            POD_UID: self.pod_uid,
            POD: self.pod,
            CONTAINER: self.container,
            EPOCH: str(self.epoch),
            DEVICES: ",".join(part.id for part in self.parts),
            GPU_MILLI: ",".join(str(part.gpu_milli) for part in self.parts),
        }
        if any(part.memory_mib is not None for part in self.parts):
            amounts = ("" if part.memory_mib is None else str(part.memory_mib) for part in self.parts)
            found[MEMORY_MIB] = ",".join(amounts)
        return found


class ShareFiles:
    """What was given and is on the disk, by the name of the call."""

    def __init__(self, folder: Path = cdi.FOLDER, disk: Disk = DISK) -> None:
        self._folder = folder
        self._disk = disk
        self.given: dict[str, ShareGiven] = {}
        self.loaded = False
        """Whether it is known what earlier processes gave."""

    def load(self) -> None:
        """Read once what earlier processes gave. Raises OSError; it is then tried again with the next call.

        A file that is no CDI file of ours is removed: no runtime takes it.
        """
        if self.loaded:
            return
        for stem in cdi.spec_names(self._folder, PREFIX):
            name = stem.removeprefix(PREFIX)
            spec = cdi.read_spec(self._folder, stem, self._disk)
            found = None if spec is None else read_given(spec)
            if found is None:
                LOG.warning("a share's CDI file that cannot be read is removed", extra={"file": stem})
                cdi.remove_spec(self._folder, stem, self._disk)
            else:
                self.given[name] = found
        self.loaded = True

    def give(self, name: str, share: ShareGiven, edits: CdiEdits) -> None:
        """Let the container that was answered this name start. Raises OSError; then it was not given."""
        mine = CdiEdits(cdi.environment(share.variables()))
        spec = CdiSpec(KIND, (CdiDevice(name, edits.and_then(mine)),))
        # Remembered first: a failed write may still have put the file there.
        self.given[name] = share
        cdi.write_spec(self._folder, f"{PREFIX}{name}", spec, self._disk)

    def take_back(self, name: str) -> None:
        """The container of a name is gone. Raises OSError; the next sweep then tries its file again."""
        # The file first: if that fails the share still counts as given.
        cdi.remove_spec(self._folder, f"{PREFIX}{name}", self._disk)
        self.given.pop(name, None)

    def of(self, pod_uid: str, container: str) -> Iterator[str]:
        """The names under which a container was given something."""
        return (
            name for name, one in self.given.items() if (one.pod_uid, one.container) == (pod_uid, container)
        )


def read_given(spec: CdiSpec) -> ShareGiven | None:
    """The share that a file describes; None for one that is none of ours."""
    if spec.kind != KIND or len(spec.devices) != 1:
        return None
    values = dict(line.partition("=")[::2] for line in spec.devices[0].container_edits.env)
    try:
        ids, millis = values[DEVICES].split(","), values[GPU_MILLI].split(",")
        memories = values[MEMORY_MIB].split(",") if MEMORY_MIB in values else [""] * len(ids)
        parts = tuple(
            GrantedDevice(DeviceId(uuid), GrantKind.SHARE, int(milli), int(memory) if memory else None)
            for uuid, milli, memory in zip(ids, millis, memories, strict=True)
        )
        return ShareGiven(values[POD_UID], values[POD], values[CONTAINER], int(values[EPOCH]), parts)
    except (KeyError, ValueError):
        return None
