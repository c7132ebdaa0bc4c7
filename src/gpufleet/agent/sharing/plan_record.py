"""The plans that hold, on the disk: an agent that starts anew goes on where the last one was.

Without it, a node whose configuration is broken, or cannot be reached, would come back without devices,
and a plan that waits for its holders would be forgotten. It holds nothing that is not true elsewhere: where
it cannot be read, plans come from the configuration and from what the kubelet gave.
"""

import logging
import zlib
from pathlib import Path

import msgspec

from gpufleet.agent.state.disk import DISK, Disk, replace_file
from gpufleet.devices.sharing.any_format import GpuPlans
from gpufleet.devices.sharing.plan import SharingPlan

LOG = logging.getLogger(__name__)
FILE = "sharing-plans.json"
# A record of another version is not believed.
VERSION = 1


class _Record(msgspec.Struct, frozen=True):
    version: int
    checksum: int
    plans: msgspec.Raw


_RECORD = msgspec.json.Decoder(_Record)
_PLANS = msgspec.json.Decoder(tuple[SharingPlan, ...])


class PlanRecord:
    """A file in the agent's own folder."""

    def __init__(self, folder: Path, disk: Disk = DISK) -> None:
        self.path = folder / FILE
        self.disk = disk

    def read(self) -> GpuPlans:
        """The plans that held; none where the file is not there or not whole."""
        try:
            record = _RECORD.decode(self.disk.read(self.path))
            if record.version != VERSION or record.checksum != zlib.crc32(record.plans):
                LOG.warning("the record of plans is not whole, or of another version, and is not used")
                return {}
            return {plan.uuid: plan for plan in _PLANS.decode(record.plans)}
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as problem:
            LOG.warning("the record of plans cannot be read", extra={"problem": str(problem)})
            return {}

    def write(self, plans: GpuPlans) -> None:
        """Replace the file as a whole. Raises OSError; the file that was there stays then."""
        body = msgspec.json.encode(tuple(plans[uuid] for uuid in sorted(plans)))
        text = msgspec.json.encode(_Record(VERSION, zlib.crc32(body), msgspec.Raw(body)))
        replace_file(self.disk, self.path, text)
