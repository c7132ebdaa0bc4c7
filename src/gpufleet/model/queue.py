"""A queue: the line in which work of one team waits."""

import msgspec

from gpufleet.model.identifiers import QueueName


class Queue(msgspec.Struct, frozen=True):
    """A queue with its place among the others.

    Queues of higher ``priority`` are served first. In a ``strict`` queue the first workload that
    cannot run holds back all behind it; otherwise later work may overtake.
    """

    name: QueueName
    priority: int = 0
    strict: bool = False
