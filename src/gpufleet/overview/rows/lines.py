"""The values of a line in each view; ``-o json`` prints them with these names.

None is unknown. Amounts are in the unit of their name; times are RFC 3339.
"""

import msgspec


class NodeLine(msgspec.Struct, frozen=True):
    """A node with GPUs. ``state`` is "ready" or what is wrong; ``reason`` says more of it.

    Amounts of use are over all cards that the node's agent tells of.
    """

    name: str
    state: str
    reason: str = ""
    model: str = ""
    gpus: int | None = None
    gpus_held: float | None = None
    gpus_unwell: int | None = None
    pods: int | None = None
    busy_ratio: float | None = None
    memory_used_bytes: float | None = None
    memory_bytes: float | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None


class PodLine(msgspec.Struct, frozen=True):
    """A pod that asks for GPUs and has not ended. ``state`` is in the words of ``gpufleet explain``."""

    namespace: str
    name: str
    state: str
    node: str = ""
    queue: str = ""
    gpus: float | None = None
    used_ratio: float | None = None
    memory_used_bytes: float | None = None
    power_watts: float | None = None
    created: str = ""
    position: int | None = None
    cause: str = ""
    why: str = ""


class GangLine(msgspec.Struct, frozen=True):
    """A gang. ``expected_start`` is that of its reservation, None where it holds none or the start is
    unknown.
    """

    namespace: str
    name: str
    state: str
    queue: str = ""
    members_placed: int = 0
    members_arrived: int = 0
    members_min: int = 0
    gpus: float | None = None
    created: str = ""
    position: int | None = None
    cause: str = ""
    why: str = ""
    expected_start: str | None = None


class QueueLine(msgspec.Struct, frozen=True):
    """A queue for one resource, as ``gpufleet queues`` has it. ``depth`` is how far below a root it is."""

    name: str
    depth: int = 0
    resource: str = ""
    used: str | None = None
    quota: str | None = None
    borrowed: str | None = None
    lent: str | None = None
    fair_share: str | None = None
    pods_waiting: int | None = None
    oldest: str = ""
    why: str = ""
    is_active: bool = True
    expected_start: str | None = None


class IdleLine(msgspec.Struct, frozen=True):
    """GPUs that compute nothing: ``state`` is "free", "empty" (held without memory) or "holding" (with
    memory).

    ``idle_s`` is how long that was seen, at least.
    """

    namespace: str
    name: str
    state: str
    node: str = ""
    queue: str = ""
    gpus: float | None = None
    idle_s: float | None = None
    used_ratio: float | None = None
    memory_used_bytes: float | None = None
    power_watts: float | None = None
