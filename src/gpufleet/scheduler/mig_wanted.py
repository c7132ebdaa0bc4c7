"""Which MIG instances are wanted, by pods that lack nothing else and by gangs all or none.

Of a gang as many members count as it lacks. One that has to be within a domain of the topology wants nothing:
the choice of cards knows no domains, and cards that were cut in several would not start it.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from gpufleet.cluster.mig_layouts.waiting_pods import instances_of
from gpufleet.engine.node_reasons import other_resource, unknown_resource
from gpufleet.engine.state.gang_members import Members
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.objects.pod import Pod
from gpufleet.mig.demand import WantedSince
from gpufleet.mig.plan import Wanted
from gpufleet.model import pod as model
from gpufleet.model.identifiers import GangName, NodeName
from gpufleet.model.model_errors import InputError
from gpufleet.model.resource_names import is_mig_instance

START_OF_1970 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

LACKS_INSTANCE = {other_resource.REASON.name, unknown_resource.REASON.name}


class LackingPod(msgspec.Struct, frozen=True):
    """A pod that waits for devices of a node: as written, as understood, and every node's reasons."""

    written: Pod
    meaning: model.Pod
    reasons: dict[NodeName, tuple[str, ...]]


def wanted_instances(
    waiting: Sequence[LackingPod], gang_of: Callable[[GangName], Members | None], most: int
) -> list[WantedSince]:
    """The instances that are wanted, in the order of the pods; of no more than so many pods."""
    found: list[WantedSince] = []
    for group in _groups(waiting, gang_of):
        if len(found) + len(group) > most:
            break
        found += group
    return found


def _groups(
    waiting: Sequence[LackingPod], gang_of: Callable[[GangName], Members | None]
) -> Iterator[list[WantedSince]]:
    """What single pods want, and gangs where their first member stands."""
    seen: set[GangName] = set()
    for one in waiting:
        gang = one.meaning.gang
        if gang is None:
            wanted = _wanted(one)
            yield [] if wanted is None else [wanted]
        elif gang not in seen:
            seen.add(gang)
            members = gang_of(gang)
            if members is not None:
                yield _of_gang(members, [other for other in waiting if other.meaning.gang == gang])


def _of_gang(members: Members, lacking: Sequence[LackingPod]) -> list[WantedSince]:
    """What as many members want as the gang lacks; nothing where it could not start with that."""
    gang = members.gang
    if gang is None or gang.required_level or (gang.slices and not gang.slices_preferred):
        return []
    # Once the gang has its minimum each further member starts by itself.
    group = gang.name if members.missing else ""
    found = [_wanted(one, group) for one in lacking]
    wanted = [one for one in found if one is not None]
    if not group:
        return wanted
    others = len(members.waiting) - len(lacking)
    # Each role has a minimum of its own, so that which members start is not known here.
    count = len(lacking) if gang.role_minimums else max(0, members.missing - others)
    if not members.ready or len(wanted) < len(lacking) or len(lacking) < count:
        return []
    since = max((one.since for one in wanted), default=START_OF_1970)
    return [msgspec.structs.replace(one, since=since) for one in wanted[:count]]


def _wanted(one: LackingPod, group: str = "") -> WantedSince | None:
    """The instances of a pod; None where it needs other things by name too, or no node takes it with them."""
    shape, written = one.meaning.shape, one.written
    others = [name for name, _ in shape.resources.other if not is_mig_instance(name)]
    if others or shape.gpu.count:
        return None
    nodes = frozenset(_nodes(one.reasons.items()))
    try:
        profiles = instances_of(written)
        since_us = microseconds(written.metadata.creation_timestamp or "")
    except InputError:
        return None
    if not (nodes and profiles):
        return None
    since = START_OF_1970 + dt.timedelta(microseconds=since_us)
    return WantedSince(Wanted(written.metadata.path, profiles, nodes, group), since)


def _nodes(reasons: Iterable[tuple[NodeName, tuple[str, ...]]]) -> Iterator[str]:
    """The nodes that would take the pod with the instances."""
    for node, has in reasons:
        if LACKS_INSTANCE.issuperset(has):
            yield str(node)
