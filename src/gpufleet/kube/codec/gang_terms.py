"""What one member says of its gang; ``gangs`` compares what all of them say."""

import msgspec

from gpufleet.model.gang import Slices
from gpufleet.model.identifiers import GangName, GpuModelName, QueueName, TopologyLevelName


class GangTerms(msgspec.Struct, frozen=True):
    """Minimums, and what overrides the members' own words; None leaves those standing.

    Levels of the topology are named as their node labels; what they mean stands in ``model.gang``.
    ``stale_after_us`` is how long the gang may be short of members once it ran, NEVER_STALE for any time.
    With ``exact_members`` more members than the minimum are a mistake. ``field`` is where the minimum
    is written.
    """

    min_members: int
    role_minimums: tuple[tuple[str, int], ...] = ()
    queue: QueueName | None = None
    priority: int | None = None
    required_level: TopologyLevelName | None = None
    preferred_level: TopologyLevelName | None = None
    slices: tuple[Slices, ...] = ()
    slices_preferred: bool = False
    balanced: bool = False
    model_order: tuple[GpuModelName, ...] = ()
    stale_after_us: int | None = None
    created_at: str | None = None
    exact_members: bool = False
    field: str = ""


class Membership(msgspec.Struct, frozen=True):
    """A pod's gang, its role there, and what it says of the gang.

    Gangs are named "podgroups.scheduling.k8s.io/team-a/train": by kind, namespace and name, so that
    groups of two kinds never mix.
    """

    gang: GangName
    terms: GangTerms
    role: str = ""
