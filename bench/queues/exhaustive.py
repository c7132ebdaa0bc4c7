"""How far from the optimum the victims of a gang are on fleets so small that every set can be tried.

The same question as in ``optimality``, on two to four nodes with two to four GPUs each; what is found by
trying also judges the integer program.
"""

import itertools
import random

from bench.figures import Figure
from bench.progress import say
from bench.queues.optimality import (
    POLICIES,
    Running,
    VictimCase,
    Victims,
    best_victims,
    compared,
    gaps,
    our_victims,
)

SEEDS = range(200)


def small_case(seed: int) -> VictimCase:
    """A nearly full fleet of at most 16 GPUs, and a gang of one to three pods."""
    chance = random.Random(5000 + seed)
    nodes, gpus_a_node = chance.randint(2, 4), chance.randint(2, 4)
    running: list[Running] = []
    for node in range(nodes):
        left = gpus_a_node
        while left and chance.random() < 0.9:
            gpus = chance.choice([size for size in (1, 1, 2, 4) if size <= left])
            running.append(Running(node, gpus, chance.randint(0, 3)))
            left -= gpus
    gpus = chance.choice([size for size in (1, 2, 4) if size <= gpus_a_node])
    return VictimCase(nodes, tuple(running), chance.randint(1, 3), gpus, gpus_a_node)


def tried_victims(case: VictimCase) -> Victims | None:
    """The best by trying every set; None if even all pods are too few."""
    numbers = range(len(case.running))
    sets = itertools.chain.from_iterable(
        itertools.combinations(numbers, size) for size in range(len(case.running) + 1)
    )
    enough = [gone for gone in sets if fits(case, gone)]
    if not enough:
        return None
    priority = min(highest(case, gone) for gone in enough)
    kept = [gone for gone in enough if highest(case, gone) == priority]
    return Victims(priority, min(map(len, kept)), min(sum(map(case.lost, gone)) for gone in kept))


def highest(case: VictimCase, gone: tuple[int, ...]) -> int:
    """The highest priority among them, -1 of nobody."""
    return max((case.running[number].priority for number in gone), default=-1)


def fits(case: VictimCase, gone: tuple[int, ...]) -> bool:
    """Whether the gang has room once these have gone."""
    free = [case.free(node) for node in range(case.nodes)]
    for number in gone:
        free[case.running[number].node] += case.running[number].gpus
    return sum(gpus // case.gpus for gpus in free) >= case.members


def compare(seed: int, policy: str) -> tuple[Victims, Victims] | None:
    """The engine's victims and the best; None where the gang cannot fit, or fits without any."""
    case = small_case(seed)
    best = tried_victims(case)
    if best_victims(case) != best:
        raise RuntimeError(f"seed {seed}: HiGHS finds {best_victims(case)}, trying every set {best}")
    return compared(f"small case, seed {seed}", our_victims(case, policy), best)


def figures(seeds: range = SEEDS) -> list[Figure]:
    """The gaps of every policy."""
    found: list[Figure] = []
    for policy in POLICIES:
        say(f"how far {policy} is from what trying every set finds")
        pairs = [pair for seed in seeds if (pair := compare(seed, policy)) is not None]
        found += gaps(f"against exhaustive search, 2 to 4 nodes, {policy}: victims of a gang", pairs)
    return found
