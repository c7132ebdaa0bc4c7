"""When the gang of each pod was whole: as many members as it needs held their places at one time."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpufleet.ledger.pod_lives import PodLife
from gpufleet.ledger.spans import NEVER_US
from gpufleet.model.identifiers import PodUid


def gangs_whole(lives: Iterable[PodLife]) -> Iterator[tuple[PodUid, int]]:
    """For each pod the first moment since its Binding at which its gang had as many members as it needs."""
    members: dict[str, list[PodLife]] = defaultdict(list)
    for life in lives:
        if life.pod.gang:
            members[f"{life.pod.namespace}/{life.pod.gang}"].append(life)
        else:
            yield life.pod.uid, life.bound_us
    for gang in members.values():
        changes: dict[int, int] = defaultdict(int)
        for life in gang:
            changes[life.bound_us] += 1
            changes[NEVER_US if life.end_us is None else life.end_us] -= 1
        for life in gang:
            at_us = _first_whole(changes, life)
            if at_us is not None:
                yield life.pod.uid, at_us


def _first_whole(changes: dict[int, int], life: PodLife) -> int | None:
    there = 0
    for at_us in sorted(changes):
        there += changes[at_us]
        if at_us >= life.bound_us and there >= life.pod.gang_members:
            return at_us if life.end_us is None or at_us < life.end_us else None
    return None
