"""A cheap set of bins that holds all items, by sizes alone.

Bins are nodes that can be bought, items are pods. Sizes are shares of a bin in several dimensions (GPUs, CPU,
memory), so the problem is variable-sized vector bin packing. Few items are solved exactly, by
``small_purchases``. Many are solved greedily: again and again the bin is taken that costs least for the worth
of what it holds; an item is worth what it costs in the bin where it is cheapest. One greedy pass may begin
with a bin that a later one makes needless, so passes are made with all bins, with each alone, without each,
and with each pair. Of the cheapest pass the bins that are filled worst are emptied again, and their items
packed exactly.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Sequence

from gpufleet.plan.small_purchases import FULL, Bin, Filled, Item, is_small, optimal_bins

PAIRS_MAX = 24
"""With more types, pairs are not tried: their number grows with the square, and the other passes remain."""

Solution = Counter[Filled]
"""Bins with their contents, equal ones counted."""


def cheapest_bins(items: Sequence[Item], bins: Sequence[Bin]) -> tuple[int, ...] | None:
    """How many bins of each kind hold all items at a low price; None if no number does."""
    if is_small(items):
        best = optimal_bins(items, bins)
        if best is None:
            return None
        counts = _counts(Counter(best), bins)
        if _can_be_had(counts, bins):
            return counts
    found = [one for kinds in _subsets(len(bins)) if (one := _greedy(items, bins, kinds)) is not None]
    if not found:
        return None
    greedy = min(found, key=lambda one: (cost_of(_counts(one, bins), bins), one.total()))
    mended = _counts(_with_exact_rest(greedy, items, bins), bins)
    return mended if _can_be_had(mended, bins) else _counts(greedy, bins)


def _counts(solution: Solution, bins: Sequence[Bin]) -> tuple[int, ...]:
    by_kind = Counter[int]()
    for filled, count in solution.items():
        by_kind[filled.kind] += count
    return tuple(by_kind[kind] for kind in range(len(bins)))


def _can_be_had(counts: Sequence[int], bins: Sequence[Bin]) -> bool:
    return all(one.most is None or count <= one.most for count, one in zip(counts, bins, strict=True))


def _with_exact_rest(solution: Solution, items: Sequence[Item], bins: Sequence[Bin]) -> Solution:
    """The solution with its worst bins packed anew: those that cost most for the worth of what they hold."""
    worth = [_worth(item, bins, range(len(bins))) or 0.0 for item in items]

    def value(filled: Filled) -> float:
        held = sum(one * count for one, count in zip(worth, filled.held, strict=True))
        return held / bins[filled.kind].price

    kept, rest, left = Solution(solution), Solution(), [0] * len(items)
    for filled in sorted(solution, key=value):
        for _ in range(solution[filled]):
            more = [had + count for had, count in zip(left, filled.held, strict=True)]
            if not is_small([Item(count, ()) for count in more]):
                break
            left = more
            rest[filled] += 1
    anew = optimal_bins([Item(count, item.sizes) for count, item in zip(left, items, strict=True)], bins)
    if anew is None or cost_of(_counts(Counter(anew), bins), bins) >= cost_of(_counts(rest, bins), bins):
        return solution
    return kept - rest + Counter(anew)


def cost_of(counts: Sequence[int], bins: Sequence[Bin]) -> int:
    """What so many bins of each kind cost."""
    return sum(count * one.price for count, one in zip(counts, bins, strict=True))


def _subsets(kinds: int) -> list[tuple[int, ...]]:
    every = tuple(range(kinds))
    alone = [(one,) for one in every]
    without = [tuple(other for other in every if other != one) for one in every] if kinds > 2 else []
    pairs = list(itertools.combinations(every, 2)) if 2 < kinds <= PAIRS_MAX else []
    return list(dict.fromkeys([every, *alone, *without, *pairs]))


def _greedy(items: Sequence[Item], bins: Sequence[Bin], kinds: Collection[int]) -> Solution | None:
    """Bins of these kinds that hold all, the best value first."""
    left = [item.count for item in items]
    worth = [_worth(item, bins, kinds) for item in items]
    if any(count and value is None for count, value in zip(left, worth, strict=True)):
        return None
    values = [value or 0.0 for value in worth]
    orders = {kind: _largest_first(items, kind) for kind in kinds}
    counts = [0] * len(bins)
    found = Solution()
    while any(left):
        best = _best_value(items, bins, left, values, orders, counts)
        if best is None:
            return None
        kind, taken = best
        # The same content again, as often as it is there: a thousand equal nodes are one step.
        times = min(left[item] // count for item, count in taken.items())
        most = bins[kind].most
        times = times if most is None else min(times, most - counts[kind])
        counts[kind] += times
        found[Filled(kind, tuple(taken.get(index, 0) for index in range(len(items))))] += times
        for item, count in taken.items():
            left[item] -= count * times
    return found


def _worth(item: Item, bins: Sequence[Bin], kinds: Collection[int]) -> float | None:
    """What one such item costs where it is cheapest: its share of the price of the bin."""
    costs = [
        bins[kind].price * max(sizes)
        for kind in kinds
        if (sizes := item.sizes[kind]) is not None and max(sizes) <= FULL
    ]
    return min(costs, default=None)


def _largest_first(items: Sequence[Item], kind: int) -> list[int]:
    fitting = [
        index
        for index, item in enumerate(items)
        if (sizes := item.sizes[kind]) is not None and max(sizes) <= FULL
    ]
    return sorted(fitting, key=lambda index: -max(items[index].sizes[kind] or (0.0,)))


def _best_value(
    items: Sequence[Item],
    bins: Sequence[Bin],
    left: Sequence[int],
    values: Sequence[float],
    orders: dict[int, list[int]],
    counts: Sequence[int],
) -> tuple[int, dict[int, int]] | None:
    """The kind of bin that costs least for the worth of what it would hold, with what that is."""
    best: tuple[float, int, int, dict[int, int]] | None = None
    for kind, order in orders.items():
        most = bins[kind].most
        if most is not None and counts[kind] >= most:
            continue
        taken = _filled(items, kind, order, left)
        held = sum(values[item] * count for item, count in taken.items())
        if held:
            rated = (bins[kind].price / held, bins[kind].price, kind, taken)
            if best is None or rated[:3] < best[:3]:
                best = rated
    return None if best is None else (best[2], best[3])


def _filled(items: Sequence[Item], kind: int, order: Sequence[int], left: Sequence[int]) -> dict[int, int]:
    """What one bin holds, the largest items first."""
    room: list[float] | None = None
    taken: dict[int, int] = {}
    for index in order:
        sizes = items[index].sizes[kind]
        if not left[index] or sizes is None:
            continue
        if room is None:
            room = [FULL] * len(sizes)
        fits = min(
            (int(free / size) for free, size in zip(room, sizes, strict=True) if size), default=left[index]
        )
        count = min(left[index], fits)
        if count:
            taken[index] = count
            room = [free - size * count for free, size in zip(room, sizes, strict=True)]
    return taken
