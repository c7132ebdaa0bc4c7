"""When the gang of each pod was whole: as many members as it needs held their places at one time."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.ledger.pod_lives import PodLife
from gpufleet.ledger.spans import NEVER_US
from gpufleet.model.identifiers import PodUid


class _Member(msgspec.Struct, frozen=True):
    uid: PodUid
    bound_us: int
    end_us: int | None
    needed: int


def gangs_whole(lives: Iterable[PodLife]) -> Iterator[tuple[PodUid, int]]:
    """For each member the first moment since its Binding at which its gang had as many as it needs."""
    members: dict[str, list[_Member]] = defaultdict(list)
    for life in lives:
        pod = life.pod
        # No more of it than this is kept: a gang is on many nodes, whose pods are not held at once.
        member = _Member(pod.uid, life.bound_us, life.end_us, pod.gang_members)
        members[f"{pod.namespace}/{pod.gang}"].append(member)
    for gang in members.values():
        changes: dict[int, int] = defaultdict(int)
        for member in gang:
            changes[member.bound_us] += 1
            changes[NEVER_US if member.end_us is None else member.end_us] -= 1
        for member in gang:
            at_us = _first_whole(changes, member)
            if at_us is not None:
                yield member.uid, at_us


def _first_whole(changes: dict[int, int], member: _Member) -> int | None:
    there = 0
    for at_us in sorted(changes):
        there += changes[at_us]
        if at_us >= member.bound_us and there >= member.needed:
            return at_us if member.end_us is None or at_us < member.end_us else None
    return None
