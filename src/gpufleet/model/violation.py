"""Facts for which pods must end unless they go away: what is wrong, with which pods, since when."""

import msgspec

from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid


class Violation(msgspec.Struct, frozen=True, tag_field="violation"):
    """Something that running pods may not do, or a state in which they may not stay."""


class DeviceConflict(Violation, frozen=True, tag="device-conflict"):
    """A pod has a device that other pods, named by ``holders``, had before.

    ``may_be_ended``: a controller makes the pod anew, or its owner asked for its deletion.
    """

    pod: PodUid
    device: DeviceId
    holders: tuple[str, ...]
    may_be_ended: bool


class MemoryExceeded(Violation, frozen=True, tag="memory-exceeded"):
    """A pod uses more memory of a device than its share there.

    ``ends``: it is evicted if that goes on; otherwise its owner is only warned.
    """

    pod: PodUid
    device: DeviceId
    share_mib: int
    used_mib: int
    may_be_ended: bool
    ends: bool


class GangMember(msgspec.Struct, frozen=True):
    """A member of a gang that has a node and was not told to end."""

    pod: PodUid
    may_be_ended: bool


class GangIncomplete(Violation, frozen=True, tag="gang-incomplete"):
    """A gang of which ``bound`` members have a node, fewer than it needs.

    ``members`` are those among them that stay, ``allowed_us`` for how long that may be so. With ``node``
    members on a node that goes away for good are among ``members``, and do not count in ``bound``.
    """

    gang: GangName
    min_members: int
    bound: int
    members: tuple[GangMember, ...]
    allowed_us: int
    node: NodeName | None = None


AnyViolation = DeviceConflict | MemoryExceeded | GangIncomplete


def subject_of(violation: AnyViolation) -> tuple[str, str]:
    """What a violation is about: its kind, and the pod or the gang. Of each there is one at a time."""
    name = violation.gang if isinstance(violation, GangIncomplete) else violation.pod
    return type(violation).__name__, name
