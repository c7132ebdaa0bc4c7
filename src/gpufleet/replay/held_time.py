"""When a task held which devices, as a timeline keeps it and the ledger's log tells it."""

import msgspec

from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.replay.trace_tasks import TaskRecord


class HeldTime(msgspec.Struct, frozen=True):
    """A run of a task on devices of a node, in times of the trace.

    ``until_us`` is None where it had not ended.
    """

    uid: PodUid
    task: TaskRecord
    node: NodeName
    devices: tuple[DeviceId, ...]
    from_us: int
    until_us: int | None
