"""How much is served where cards are cut as requests come, beside layouts that stay: `make bench-mig`.

Requests for one instance each come and go at random; one that finds no place is gone. Answers to the same
requests on eight H100: the planner (``gpufleet.mig``), first fit (the first card, and there the first start
or the best one), and the best layouts that stay as they are. What these serve is exact (Erlang's loss
formula), and they are chosen with knowledge of the mix, by local search. On one card the planner is compared
with the optimum of all rules that know mix and load, computed exactly as a Markov decision process over all
layouts; the optimum may also refuse what would fit.
"""

import heapq
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from bench.figures import Figure, figure, publish
from gpufleet.mig.cards import CardInstance, MigCard
from gpufleet.mig.places import places_of
from gpufleet.mig.plan import Wanted, plan
from gpufleet.model.identifiers import DeviceId, GpuModelName
from gpufleet.model.mig import Layout, MigGeometry, MigInstance
from gpufleet.model.mig_boards import BOARDS

BOARD = BOARDS[GpuModelName("H100-80GB")]
CARDS = 8
ARRIVALS = 3_000
SEEDS = (1, 2, 3, 4)
LOADS = (1.0, 1.15, 1.3)
"""Compute slices asked for at a time, as a part of those that there are."""

PERCENT = {"1g.10gb": 35, "1g.20gb": 8, "2g.20gb": 20, "3g.40gb": 20, "4g.40gb": 7, "7g.80gb": 10}
"""The mix of bench-claims."""

SIZES = {one.name: one.compute_slices for one in BOARD.plain_profiles}
ROUNDS = 4_000
"""Rounds of value iteration; with twice as many no figure changes in its fourth digit."""

Rule = Callable[[Sequence[Layout], str], tuple[int, MigInstance] | None]
"""Layouts of cards (all in use) and a profile: which card, and where on it."""


def planner(layouts: Sequence[Layout], profile: str) -> tuple[int, MigInstance] | None:
    """The place that the planner gives."""
    cards = [
        MigCard("node", DeviceId(str(number)), BOARD, True, tuple(CardInstance(one, True) for one in layout))
        for number, layout in enumerate(layouts)
    ]
    found = plan(cards, [Wanted("request", (profile,))]).placements
    return (int(found[0].card), found[0].instance) if found else None


def first_fit(layouts: Sequence[Layout], profile: str) -> tuple[int, MigInstance] | None:
    """The first card with a free start, and the first start."""
    wanted = BOARD.profile(profile)
    for number, layout in enumerate(layouts):
        for start in BOARD.free_starts(wanted, BOARD.taken(layout)):
            return number, MigInstance(start, profile)
    return None


def first_card(layouts: Sequence[Layout], profile: str) -> tuple[int, MigInstance] | None:
    """The first card with a free start, and the start that is best there."""
    wanted = BOARD.profile(profile)
    for number, layout in enumerate(layouts):
        start = places_of(BOARD).best_start(wanted, BOARD.taken(layout))
        if start is not None:
            return number, MigInstance(start, profile)
    return None


PLANNER = "planner"
"""The rule that is judged; the others are what it is compared with."""

RULES: Mapping[str, Rule] = {"first fit": first_fit, "first card, best start": first_card, PLANNER: planner}


def rates(load: float, cards: int) -> dict[str, float]:
    """Requests for each profile in the mean time that an instance is held."""
    mean_slices = sum(share * SIZES[name] for name, share in PERCENT.items()) / 100
    total = load * cards * BOARD.compute_slices / mean_slices
    return {name: total * share / 100 for name, share in PERCENT.items()}


class Run(msgspec.Struct):
    """What came of requests, in compute slices."""

    asked: int = 0
    served: int = 0
    decision_s: float = 0.0


def churn(rule: Rule, load: float, seed: int) -> Run:
    """Requests come and go; each holds its instance for a time of its own, one unit of time in the mean."""
    chance, run, now = random.Random(seed), Run(), 0.0
    rate = sum(rates(load, CARDS).values())
    layouts: list[Layout] = [()] * CARDS
    ends: list[tuple[float, int, MigInstance]] = []
    for _ in range(ARRIVALS):
        now += chance.expovariate(rate)
        while ends and ends[0][0] <= now:
            _, card, gone = heapq.heappop(ends)
            layouts[card] = tuple(one for one in layouts[card] if one != gone)
        (profile,) = chance.choices(list(PERCENT), list(PERCENT.values()))
        holds = chance.expovariate(1.0)
        run.asked += SIZES[profile]
        begin_s = time.perf_counter()
        found = rule(layouts, profile)
        run.decision_s += time.perf_counter() - begin_s
        if found is not None:
            run.served += SIZES[profile]
            layouts[found[0]] = tuple(sorted((*layouts[found[0]], found[1])))
            heapq.heappush(ends, (now + holds, *found))
    return run


def blocked(instances: int, offered: float) -> float:
    """Erlang's loss formula: the part of requests that finds all instances held."""
    found = 1.0
    for number in range(1, instances + 1):
        found = offered * found / (number + offered * found)
    return found


def best_static(load: float) -> float:
    """The part of slices that the best layouts serve which stay as they are."""
    offered = rates(load, CARDS)
    kinds = sorted(
        {
            tuple(Counter(one.profile for one in layout)[name] for name in PERCENT)
            for layout in BOARD.layouts()
            if BOARD.is_maximal(layout)
        }
    )

    def served(cards: Sequence[tuple[int, ...]]) -> float:
        counts = zip(PERCENT, (sum(column) for column in zip(*cards, strict=True)), strict=True)
        return sum(
            offered[name] * SIZES[name] * (1 - blocked(count, offered[name])) for name, count in counts
        )

    best = max(served(_climbed([kind] * CARDS, kinds, served)) for kind in kinds)
    return best / sum(offered[name] * SIZES[name] for name in PERCENT)


def _climbed(
    cards: list[tuple[int, ...]],
    kinds: Sequence[tuple[int, ...]],
    value: Callable[[Sequence[tuple[int, ...]]], float],
) -> list[tuple[int, ...]]:
    """Another layout for one card at a time, as long as one is better."""
    while True:
        others = ([*cards[:at], kind, *cards[at + 1 :]] for at in range(len(cards)) for kind in kinds)
        best = max(others, key=value)
        if value(best) <= value(cards) + 1e-9:
            return cards
        cards = best


class OneCard:
    """All layouts of one card as states; requests and ends lead from one to another."""

    def __init__(self, board: MigGeometry, load: float) -> None:
        self.layouts = sorted(board.layouts())
        self.numbers = {layout: number for number, layout in enumerate(self.layouts)}
        self.offered = rates(load, 1)
        most = max(map(len, self.layouts))
        # A chain in steps of equal mean length: each is a request, or the end of one of ``most`` instances.
        self.total = sum(self.offered.values()) + most
        self.ends = np.zeros((len(self.layouts), most), np.int64)
        for number, layout in enumerate(self.layouts):
            after = [self.numbers[tuple(one for one in layout if one != gone)] for gone in layout]
            self.ends[number] = [*after, *[number] * (most - len(layout))]

    def next_states(self, profile: str) -> Iterator[list[int]]:
        """Of each layout those with one more instance of a profile."""
        wanted = BOARD.profile(profile)
        for layout in self.layouts:
            starts = BOARD.free_starts(wanted, BOARD.taken(layout))
            yield [self.numbers[tuple(sorted((*layout, MigInstance(at, profile))))] for at in starts]

    def share_served(self, choices: Mapping[str, list[list[int]]]) -> float:
        """Slices served of those asked for, where of each layout's next states the best is taken."""
        values = np.zeros(len(self.layouts))
        width = max(len(row) for rows in choices.values() for row in rows) + 1
        here = np.arange(len(self.layouts))
        tables = {}
        for name, rows in choices.items():
            after = np.array([[*row, *[at] * (width - len(row))] for at, row in enumerate(rows)])
            tables[name] = after, np.where(after == here[:, None], 0, SIZES[name])
        gain = 0.0
        for _ in range(ROUNDS):
            new = values[self.ends].sum(axis=1)
            for name, (after, reward) in tables.items():
                new += self.offered[name] * (reward + values[after]).max(axis=1)
            new /= self.total
            gain, values = float(new[0] - values[0]), new - new[0]
        return gain * self.total / sum(self.offered[name] * SIZES[name] for name in PERCENT)

    def optimum(self) -> float:
        """The most that any rule serves; it may refuse what would fit."""
        return self.share_served({name: list(self.next_states(name)) for name in PERCENT})

    def under(self, rule: Rule) -> float:
        """What a rule serves that takes all that fits."""
        chosen: dict[str, list[list[int]]] = {}
        for name in PERCENT:
            chosen[name] = []
            for layout in self.layouts:
                found = rule([layout], name)
                after = [] if found is None else [self.numbers[tuple(sorted((*layout, found[1])))]]
                chosen[name].append(after)
        return self.share_served(chosen)


def figures_of(load: float) -> Iterator[Figure]:
    """The figures of one load."""
    part, static = f"load {load:g}", best_static(load)
    shares = {}
    for name, rule in RULES.items():
        runs = [churn(rule, load, seed) for seed in SEEDS]
        shares[name] = sum(one.served for one in runs) / sum(one.asked for one in runs)
        decision_ms = sum(one.decision_s for one in runs) / (ARRIVALS * len(SEEDS)) * 1000
        yield figure(f"{part}, 8 cards, {name}: a decision", decision_ms, "ms", "lower")
    yield figure(
        f"{part}, 8 cards, best static layouts: slices served", static, "of those asked for", "higher"
    )
    least = max(static, *(share for name, share in shares.items() if name != PLANNER))
    for name, share in shares.items():
        target = least if name == PLANNER else None
        yield figure(f"{part}, 8 cards, {name}: slices served", share, "of those asked for", "higher", target)
    card = OneCard(BOARD, load)
    for name, share in (
        ("optimum", card.optimum()),
        *((name, card.under(rule)) for name, rule in RULES.items()),
    ):
        yield figure(f"{part}, 1 card, {name}: slices served", share, "of those asked for", "higher")


def main() -> None:
    """Measure under each load."""
    publish("mig", [one for load in LOADS for one in figures_of(load)])


if __name__ == "__main__":
    main()
