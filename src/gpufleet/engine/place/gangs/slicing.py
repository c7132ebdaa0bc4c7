"""How a gang in slices is divided among domains, and each slice again among the domains inside.

``spreading`` decides one level; here a domain's room is what it holds in whole slices of the levels inside,
so that no slice is promised to a domain that would have to tear it apart. ``gang_places`` counts the room.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.place.gangs.spreading import in_slices


class Domain(NamedTuple):
    """Nodes by row, how many members find room there, and the domains inside of the next level, if any."""

    nodes: Int64Array
    room: int
    inside: "list[Domain]"


def divided(
    domains: Sequence[Domain], wanted: int, sizes: Sequence[int], *, evenly: bool
) -> list[tuple[Domain, int]]:
    """How many members go to which domain of the narrowest level; [] if the domains cannot hold them.

    ``sizes`` are those of the slices, from the widest level, which is that of ``domains``, to the narrowest.
    """
    size, *narrower = sizes
    room = [_whole(one, narrower) for one in domains]
    shares = [(domains[place], count) for place, count in in_slices(room, wanted, size, evenly=evenly)]
    if not narrower:
        return shares
    found: list[tuple[Domain, int]] = []
    for domain, count in shares:
        inside = divided(domain.inside, count, narrower, evenly=evenly)
        if not inside:
            return []
        found += inside
    return found


def _whole(domain: Domain, sizes: Sequence[int]) -> int:
    """How many members a domain holds in whole slices of the levels inside; all for which it has room
    where there are none.
    """
    if not sizes:
        return domain.room
    size, *narrower = sizes
    return sum(_whole(one, narrower) // size * size for one in domain.inside)
