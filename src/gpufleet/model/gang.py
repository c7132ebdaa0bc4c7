"""A gang: pods of which a minimum must run together, or none."""

import msgspec

from gpufleet.model.identifiers import DEFAULT_QUEUE, GangName, QueueName, TopologyLevelName


class Gang(msgspec.Struct, frozen=True):
    """A group that starts only when ``min_members`` of its pods can be placed at once.

    ``required_level`` names a topology level; all members must then share one domain of it.
    Queue and priority are the gang's own and hold for its pods. ``role_minimums`` asks in addition
    for so many pods of each role, as (role, count).
    """

    name: GangName
    min_members: int
    queue: QueueName = DEFAULT_QUEUE
    priority: int = 0
    required_level: TopologyLevelName | None = None
    created_at_us: int = 0
    role_minimums: tuple[tuple[str, int], ...] = ()
