"""How many members of a gang go into which domain: as few domains as can hold them, or evenly over these.

Counts only: ``gangs`` finds out how much room each domain has, and places members by what comes of it.
Filling is Kueue's best fit: the largest domains are filled until the rest fits into one, and for that
the smallest that can hold it is taken, so that large domains stay whole.

A gang in slices is divided among domains, and each slice again among the domains inside (``divided``): there
a domain's room is what it holds in whole slices of the levels inside, so that no slice is promised to a
domain that would have to tear it apart. ``gang_places`` counts the room.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gpufleet.engine.arrays.array_types import Int64Array

Shares = list[tuple[int, int]]
"""(place of the domain, how many members), in the order in which they are to be placed."""


class Domain(NamedTuple):
    """Nodes by row, how many members find room there, and the domains inside of the next level, if any."""

    nodes: Int64Array
    room: int
    inside: "list[Domain]"


def filled(room: Sequence[int], wanted: int) -> Shares:
    """As few domains as can hold ``wanted``; [] if all of them together cannot."""
    if sum(room) < wanted:
        return []
    left = sorted(range(len(room)), key=lambda place: (-room[place], place))
    shares: Shares = []
    # From the largest down takes the fewest domains; the last part goes to the smallest that holds it, so
    # that larger ones stay free.
    for index, largest in enumerate(left):
        if wanted <= room[largest]:
            fitting = (place for place in left[index:] if room[place] >= wanted)
            chosen = min(fitting, key=lambda place: (room[place], place))
            return [*shares, (chosen, wanted)] if wanted else shares
        shares.append((largest, room[largest]))
        wanted -= room[largest]
    return shares


def balanced(room: Sequence[int], wanted: int) -> Shares:
    """Evenly over as few domains as can hold ``wanted``: no domain has two more than another, unless
    the other is full.
    """
    domains = sorted((place for place, _ in filled(room, wanted)), key=lambda place: (room[place], place))
    shares: Shares = []
    for index, place in enumerate(domains):
        # The smallest first: what it cannot take of its part goes to those after it.
        part = wanted // (len(domains) - index)
        shares.append((place, min(part, room[place])))
        wanted -= shares[-1][1]
    return [(place, count) for place, count in shares if count]


def in_slices(room: Sequence[int], wanted: int, size: int, *, evenly: bool) -> Shares:
    """Spread in slices of ``size`` that stay together; what is left over is a smaller slice."""
    spread = balanced if evenly else filled
    slices = spread([count // size for count in room], wanted // size)
    # Without this condition, work smaller than one slice would be refused here.
    if not slices and wanted >= size:
        return []
    shares = {place: count * size for place, count in slices}
    rest = wanted % size
    if rest:
        fitting = [place for place, count in enumerate(room) if count - shares.get(place, 0) >= rest]
        if not fitting:
            return []
        # A domain that has slices of the gang comes first, then the one with the least room.
        chosen = min(
            fitting, key=lambda place: (place not in shares, room[place] - shares.get(place, 0), place)
        )
        shares[chosen] = shares.get(chosen, 0) + rest
    return list(shares.items())


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
