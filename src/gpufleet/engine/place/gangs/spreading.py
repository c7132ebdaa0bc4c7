"""How many members of a gang go into which domain: as few domains as can hold them, or evenly over these.

Counts only: ``gangs`` finds out how much room each domain has, and places members by what comes of it.
Filling is Kueue's best fit: the largest domains are filled until the rest fits into one, and for that
the smallest that can hold it is taken, so that large domains stay whole.
"""

from collections.abc import Sequence

Shares = list[tuple[int, int]]
"""(place of the domain, how many members), in the order in which they are to be placed."""


def filled(room: Sequence[int], wanted: int) -> Shares:
    """As few domains as can hold ``wanted``; [] if all of them together cannot."""
    if sum(room) < wanted:
        return []
    left = sorted(range(len(room)), key=lambda place: (-room[place], place))
    shares: Shares = []
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
    """The same in slices of ``size`` that stay together; what is left over is a smaller slice."""
    spread = balanced if evenly else filled
    slices = spread([count // size for count in room], wanted // size)
    if not slices and wanted >= size:
        return []
    shares = {place: count * size for place, count in slices}
    rest = wanted % size
    if rest:
        fitting = [place for place, count in enumerate(room) if count - shares.get(place, 0) >= rest]
        if not fitting:
            return []
        chosen = min(
            fitting, key=lambda place: (place not in shares, room[place] - shares.get(place, 0), place)
        )
        shares[chosen] = shares.get(chosen, 0) + rest
    return list(shares.items())
