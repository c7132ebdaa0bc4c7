"""The cheapest fleet that holds the levels, by as few replays as can be.

More nodes are taken to never make waits longer. So a fleet within one that fails fails too, and what one type
needs beside the others is found by halving. A first fleet holds what is asked for at the busiest moment. From
the best fleet so far nodes are taken away, each type is tried alone, and nodes of one type are put in the
place of another's. Where the fleets that cost less are few, all that are not within another one are tried:
then the answer is the cheapest. ``FleetTrials`` does the replays.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from gpufleet.model.shape import Shape
from gpufleet.plan.history.bought_fleet import Counts, can_hold, cost_micro
from gpufleet.plan.history.demand import Demand
from gpufleet.plan.instance_types import NODE_COUNT_MAX, InstanceType
from gpufleet.plan.purchase_search import cheapest_bins
from gpufleet.plan.small_purchases import Bin
from gpufleet.plan.waiting_work import items_of_counts

REPLAYS_MAX = 150
"""A replay of a month may take a few seconds: the search ends within minutes."""

GROWTH_STEPS_MAX = 8
"""A first fleet is doubled so often; one 256 times as large that still fails fails for another reason."""

EXACT_FLEETS_MAX = 2_000
"""So many begun fleets are gone through; most are within one that failed and need no replay."""

Holds = Callable[[Counts], bool]
Say = Callable[[str], None]


class FleetSearch:
    """A search among fleets of these types; ``holds`` replays the work on one.

    ``can_be_had`` says whether a fleet is within what limits its types together. A fleet within one that can
    be had can be had too.
    """

    def __init__(
        self,
        types: Sequence[InstanceType],
        holds: Holds,
        say: Say,
        can_be_had: Holds = lambda _: True,
    ) -> None:
        self.best: Counts | None = None
        self.is_cheapest = False
        self.tried: dict[Counts, bool] = {}
        self.can_be_had = can_be_had
        self._types = types
        self._holds = holds
        self._say = say

    def run(self, first: Counts | None) -> None:
        """Find ``best``; it stays None where no fleet was found that holds the levels."""
        nothing = (0,) * len(self._types)
        if self._test(nothing):
            self.best, self.is_cheapest = nothing, True
            return
        self._begin(first)
        if self.best is None:
            return
        self._each_alone()
        self._take_away()
        while not self._is_used_up() and self._exchange():
            self._take_away()
        self._rule_out()

    def cost(self, counts: Counts) -> int:
        """What a fleet costs for an hour."""
        return cost_micro(self._types, counts)

    def _test(self, counts: Counts) -> bool:
        """Whether a fleet holds the levels, by a replay where that is not known from another one."""
        known = self.tried.get(counts)
        if known is not None:
            return known
        if any(not held and _is_within(counts, other) for other, held in self.tried.items()):
            return False
        if self._is_used_up() or not self.can_be_had(counts):
            return False
        held = self.tried[counts] = self._holds(counts)
        self._say(f"{len(self.tried)} fleets tried")
        if held and (self.best is None or self.cost(counts) < self.cost(self.best)):
            self.best = counts
        return held

    def _is_used_up(self) -> bool:
        return len(self.tried) >= REPLAYS_MAX

    def _most(self, index: int) -> int:
        most = self._types[index].most
        return NODE_COUNT_MAX if most is None else most

    def _begin(self, first: Counts | None) -> None:
        """A fleet that holds the levels: the first one, then one with nodes of all types, doubled as often as
        it takes.
        """
        counts = self._clipped(first or (1,) * len(self._types))
        for _ in range(GROWTH_STEPS_MAX):
            if self._test(counts):
                return
            larger = self._clipped(
                [min(self._most(index), 2 * count or 1) for index, count in enumerate(counts)]
            )
            if larger == counts:
                return
            counts = larger

    def _clipped(self, counts: Sequence[int]) -> Counts:
        """The fleet with as many nodes of each type as can be had beside those of the types before."""
        found = (0,) * len(self._types)
        for index, count in enumerate(counts):
            found = with_count(found, index, self._can_have(found, index, count))
        return found

    def _can_have(self, beside: Counts, index: int, most: int) -> int:
        """How many nodes of a type can be had beside others, at most so many."""
        if self.can_be_had(with_count(beside, index, most)):
            return most
        least = 0
        while most - least > 1:
            middle = (least + most) // 2
            if self.can_be_had(with_count(beside, index, middle)):
                least = middle
            else:
                most = middle
        return least

    def _each_alone(self) -> None:
        """Each type alone, as far as that costs less: one replay rules most of them out."""
        for index in sorted(range(len(self._types)), key=lambda one: self._types[one].price_micro):
            self._fill(tuple(0 for _ in self._types), index)

    def _fill(self, beside: Counts, index: int) -> bool:
        """The fewest nodes of a type that hold the levels beside others, where that costs less."""
        if self.best is None:
            return False
        room_micro = self.cost(self.best) - self.cost(beside) - 1
        most = min(self._most(index), room_micro // self._types[index].price_micro)
        most = self._can_have(beside, index, most) if most > 0 else most
        if most < 0 or not self._test(with_count(beside, index, most)):
            return False
        self._halve(beside, index, 0, most)
        return True

    def _halve(self, beside: Counts, index: int, least: int, most: int) -> None:
        """Between a number that may do and one that does."""
        while least < most:
            middle = (least + most) // 2
            if self._test(with_count(beside, index, middle)):
                most = middle
            else:
                least = middle + 1

    def _take_away(self) -> None:
        """From each type as many nodes as can be, the dearest type first."""
        for index in sorted(range(len(self._types)), key=lambda one: -self._types[one].price_micro):
            best = self.best
            # A node less first: mostly that is one too few.
            if best is not None and best[index] and self._test(with_count(best, index, best[index] - 1)):
                self._halve(best, index, 0, best[index] - 1)

    def _exchange(self) -> bool:
        """Nodes of one type in the place of another's, where that costs less."""
        best = self.best
        if best is None:
            return False
        for taken, count in enumerate(best):
            for fewer in sorted({1, count // 2, count} - {0}) if count else ():
                beside = with_count(best, taken, count - fewer)
                for given in range(len(best)):
                    if given != taken and self._more(beside, given):
                        return True
        return False

    def _more(self, beside: Counts, index: int) -> bool:
        """So many more nodes of a type as cost less than the best fleet, and then as few as can be."""
        if self.best is None:
            return False
        room_micro = self.cost(self.best) - self.cost(beside) - 1
        had = beside[index]
        most = min(self._most(index), had + room_micro // self._types[index].price_micro)
        most = self._can_have(beside, index, most) if most > had else most
        if most <= had or not self._test(with_count(beside, index, most)):
            return False
        self._halve(beside, index, had, most)
        return True

    def _rule_out(self) -> None:
        """Try every fleet that costs less and is within no other such one, if they are few."""
        while self.best is not None and not self._is_used_up():
            before = self.best
            fleets = largest_below(self._types, self.cost(before))
            if fleets is None or not all(map(self.can_be_had, fleets)):
                # What is within one that cannot be had may hold the levels all the same.
                return
            if not any(self._test(fleet) for fleet in fleets):
                self.is_cheapest = not self._is_used_up()
                return
            self._take_away()


def busiest_fleet(demand: Demand, types: Sequence[InstanceType]) -> Counts | None:
    """A cheap fleet that holds, by sizes, what would run at the busiest moment if nothing had to wait."""
    counts = _at_busiest_moment(demand)
    kept = {shape: count for shape, count in counts.items() if any(can_hold(one, shape) for one in types)}
    items = items_of_counts(kept, tuple(types), lambda shape, index: can_hold(types[index], shape))
    return cheapest_bins(items, [Bin(one.price_micro, one.most) for one in types]) if items else None


def _at_busiest_moment(demand: Demand) -> Counter[Shape]:
    changes: list[tuple[int, int, Shape]] = []
    for task in demand.tasks:
        changes.append((task.created_at_us, 1, task.shape))
        if task.duration_us is not None:
            changes.append((task.created_at_us + task.duration_us, -1, task.shape))
        elif task.withdrawn_at_us is not None:
            changes.append((task.withdrawn_at_us, -1, task.shape))
    # What ends makes room for what begins at that moment.
    changes.sort(key=lambda change: change[:2])
    running, gpus, most = Counter[Shape](), 0, -1
    busiest: Counter[Shape] = Counter()
    for number, (at_us, change, shape) in enumerate(changes):
        running[shape] += change
        gpus += change * shape.gpu.total_milli
        is_last = number + 1 == len(changes) or changes[number + 1][0] != at_us
        if is_last and gpus > most:
            most, busiest = gpus, +running
    return busiest


def with_count(counts: Counts, index: int, count: int) -> Counts:
    """The fleet with so many nodes of one type."""
    return (*counts[:index], count, *counts[index + 1 :])


def _is_within(counts: Counts, other: Counts) -> bool:
    return all(count <= most for count, most in zip(counts, other, strict=True))


def largest_below(types: Sequence[InstanceType], cost: int) -> list[Counts] | None:
    """Fleets that cost less than so much, and to which no node can be added; None where they are too many."""
    found: list[Counts] = []
    begun: list[tuple[Counts, int]] = [((), cost - 1)]
    for _ in range(EXACT_FLEETS_MAX):
        if not begun:
            return found
        counts, room = begun.pop()
        if len(counts) == len(types):
            if not any(_can_have_more(one, count, room) for one, count in zip(types, counts, strict=True)):
                found.append(counts)
            continue
        one = types[len(counts)]
        most = room // one.price_micro if one.most is None else min(one.most, room // one.price_micro)
        # The last type takes all the money that is left.
        least = most if len(counts) + 1 == len(types) else 0
        if most - least > EXACT_FLEETS_MAX:
            return None
        begun += [((*counts, count), room - count * one.price_micro) for count in range(least, most + 1)]
    return None


def _can_have_more(one: InstanceType, count: int, room: int) -> bool:
    return one.price_micro <= room and (one.most is None or count < one.most)
