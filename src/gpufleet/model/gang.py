"""A gang: pods of which a minimum must run together, or none."""

import msgspec

from gpufleet.model.identifiers import DEFAULT_QUEUE, GangName, GpuModelName, QueueName, TopologyLevelName


def short_gang_name(name: str) -> str:
    """A gang's name without the kind of group: "team-a/train" for "podgroups.x.io/team-a/train"."""
    return name.partition("/")[2] or name


def gang_title(name: str) -> str:
    """A gang in a sentence: "gang team-a/train"."""
    return f"gang {short_gang_name(name)}"


class Slices(msgspec.Struct, frozen=True):
    """Members that belong together by ``size``: each such slice is within one domain of a topology level."""

    level: TopologyLevelName
    size: int


class Gang(msgspec.Struct, frozen=True):
    """A group that starts only when ``min_members`` of its pods can be placed at once.

    ``required_level`` names a topology level; all members must then share one domain of it.
    ``preferred_level`` is one that they share if they can; else they share one of the next wider level
    that can hold them, over as few domains of the preferred one as possible. With ``slices`` the
    members come in slices, each of which has a domain for itself or with other slices; further ones divide
    each slice again, from the wider to the narrower. They must be kept, or, with ``slices_preferred``, are
    kept if they can be. ``balanced`` spreads members (or slices) evenly over these domains, as few as can
    hold them, instead of filling one after the other.
    With ``model_order`` the whole gang is on GPUs of one of these models, the first that can hold it.
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
    preferred_level: TopologyLevelName | None = None
    slices: tuple[Slices, ...] = ()
    slices_preferred: bool = False
    balanced: bool = False
    model_order: tuple[GpuModelName, ...] = ()

    @property
    def short_name(self) -> str:
        """The name without the kind of group, as pods are named: "team-a/train"."""
        return self.name.partition("/")[2]
