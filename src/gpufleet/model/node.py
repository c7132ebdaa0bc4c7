"""A machine of the fleet as the scheduler sees it."""

import msgspec

from gpufleet.model.data import DataCopy
from gpufleet.model.device import Device
from gpufleet.model.identifiers import NodeName
from gpufleet.model.resources import Resources
from gpufleet.model.taint import CORDON, Taint
from gpufleet.model.volumes import Attachment


class Node(msgspec.Struct, frozen=True):
    """A node: what it can hold (``allocatable``), its devices, labels and taints.

    ``allocatable.pods`` is the largest number of pods the node runs.
    ``unschedulable`` is what ``kubectl cordon`` sets: what runs stays, nothing new comes.
    ``draining_until_us`` is set where it was closed for a drain: until when ends are waited for, in
    microseconds since 1970.
    ``data`` are the models and datasets in folders that its agent reads.
    ``features`` are those that the node declares, sorted. ``volume_limits`` says how many volumes
    of a driver can be attached, as (driver, count); a driver that is not there has no limit.
    ``gpu_resources`` are the names under which its kubelet counts GPUs, or would; () where that is not known.
    ``uncounted`` says that its kubelet counts none of them, nor parts of them: no device plugin offers them.
    ``attached`` are volumes that take such a place already, whether or not a pod uses them.
    ``unreported`` says that its GPUs are given out by a report that cannot be had now: what runs there stays
    and is counted, and no pod that asks for GPUs is placed there. ``counted_only`` says that its kubelet's
    count is all that is known of its GPUs: no agent gives out parts of them.
    """

    name: NodeName
    allocatable: Resources
    devices: tuple[Device, ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    features: tuple[str, ...] = ()
    volume_limits: tuple[tuple[str, int], ...] = ()
    attached: tuple[Attachment, ...] = ()
    gpu_resources: tuple[str, ...] = ()
    unreported: bool = False
    counted_only: bool = False
    uncounted: bool = False
    draining_until_us: int | None = None
    data: tuple[DataCopy, ...] = ()

    @property
    def taints_beside_cordon(self) -> tuple[Taint, ...]:
        """The taints without the one that stands for the cordon, which is a reason of its own."""
        if not self.unschedulable:
            return self.taints
        return tuple(taint for taint in self.taints if taint != CORDON)
