"""The cheapest set of bins for few items, exactly: dynamic programming over what is still to be held.

A state says how many items of each kind are left. The first kind of which some is left has to go into some
bin, and every full content of a bin with that kind leads to a smaller state. So each state is worked out
once, and the cost of the first is the optimum.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

STATES_MAX = 3_000
"""More states take longer than a second; such problems are solved greedily, and their rest exactly."""

ITEMS_MAX = 60
"""An item more may be a bin more, and each bin is a call deeper."""

FULL = 1 + 1e-9
"""How far a bin can be filled; sizes are quotients, whose sum may miss 1 by a rounding."""

Sizes = tuple[float, ...]
Counts = tuple[int, ...]


class Item(msgspec.Struct, frozen=True):
    """``count`` equal items; ``sizes`` by bin, None where the item must not be in that bin."""

    count: int
    sizes: tuple[Sizes | None, ...]


class Bin(msgspec.Struct, frozen=True):
    """A kind of bin: the price of one, and how many there are at most."""

    price: int
    most: int | None = None


class Filled(msgspec.Struct, frozen=True):
    """One bin of a kind, with how many of each item it holds."""

    kind: int
    held: Counts


def is_small(items: Sequence[Item]) -> bool:
    """Whether states and items are few enough."""
    return (
        sum(item.count for item in items) <= ITEMS_MAX
        and math.prod(item.count + 1 for item in items) <= STATES_MAX
    )


def optimal_bins(items: Sequence[Item], bins: Sequence[Bin]) -> tuple[Filled, ...] | None:
    """The cheapest bins that hold all items; None if none do. How many bins there are does not count."""
    contents = [Filled(kind, held) for kind in range(len(bins)) for held in full_contents(items, kind)]
    by_item = [[one for one in contents if one.held[index]] for index in range(len(items))]

    @cache
    def best(left: Counts) -> tuple[float, Filled | None]:
        first = next((index for index, count in enumerate(left) if count), None)
        if first is None:
            return 0, None
        ways = (
            (bins[one.kind].price + best(less(left, one.held))[0], at)
            for at, one in enumerate(by_item[first])
        )
        cost, at = min(ways, default=(math.inf, 0))
        return cost, by_item[first][at] if cost < math.inf else None

    left: Counts = tuple(item.count for item in items)
    found: list[Filled] = []
    while any(left):
        _, chosen = best(left)
        if chosen is None:
            return None
        # A full bin may have room for more of an item than is left.
        found.append(Filled(chosen.kind, tuple(map(min, left, chosen.held))))
        left = less(left, chosen.held)
    return tuple(found)


def less(left: Counts, held: Counts) -> Counts:
    """What is left after a bin."""
    return tuple(max(0, count - taken) for count, taken in zip(left, held, strict=True))


def full_contents(items: Sequence[Item], kind: int) -> Iterator[Counts]:
    """What one bin can hold so that no further item fits, or none is left."""
    fitting = [_fitting(item, kind) for item in items]
    for held in itertools.product(*(range(most + 1) for most in fitting)):
        room = _room(items, kind, held)
        if room is None or not any(held):
            continue
        more = (
            count < most and _fits(items[index].sizes[kind], room)
            for index, (count, most) in enumerate(zip(held, fitting, strict=True))
        )
        if not any(more):
            yield held


def _fitting(item: Item, kind: int) -> int:
    """How many of an item one bin holds alone."""
    sizes = item.sizes[kind]
    if sizes is None or max(sizes) > FULL:
        return 0
    return min(item.count, *(int(FULL / size) for size in sizes if size)) if any(sizes) else item.count


def _room(items: Sequence[Item], kind: int, held: Counts) -> list[float] | None:
    """What is free in each dimension; None where it is too full."""
    room: list[float] | None = None
    for item, count in zip(items, held, strict=True):
        sizes = item.sizes[kind]
        if count and sizes is not None:
            free = room or [FULL] * len(sizes)
            room = [left - size * count for left, size in zip(free, sizes, strict=True)]
    return None if room is None or min(room) < 0 else room


def _fits(sizes: Sizes | None, room: Sequence[float]) -> bool:
    return sizes is not None and all(size <= left for size, left in zip(sizes, room, strict=True))
