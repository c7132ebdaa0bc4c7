"""Problems of buying nodes, and their optimum by an integer program that knows nothing of the search."""

import itertools
from collections.abc import Iterator, Sequence
from random import Random

import highspy

from gpufleet.plan.small_purchases import Bin, Item

HELD_MAX = 8
"""No bin of these problems holds more of one item."""


def problem(seed: int, kinds_max: int = 4, count_max: int = 5) -> tuple[list[Item], list[Bin]]:
    """Pods of 1 to 8 GPUs, some heavy on CPU, and three kinds of nodes with prices that are not in line."""
    random = Random(seed)
    nodes = [(gpus, random.choice((8, 12, 24)) * gpus) for gpus in random.sample((1, 2, 4, 8, 8), 3)]
    bins = [Bin(round(100 * gpus * random.uniform(0.8, 1.3)) + 10) for gpus, _ in nodes]
    items = []
    for _ in range(random.randint(1, kinds_max)):
        gpus, cpus = random.choice((1, 1, 2, 3, 4, 8)), random.choice((1, 4, 16, 40))
        sizes = tuple(
            (gpus / of_gpus, cpus / of_cpus) if gpus <= of_gpus and cpus <= of_cpus else None
            for of_gpus, of_cpus in nodes
        )
        items.append(Item(random.randint(1, count_max), sizes))
    return items, bins


def contents(items: Sequence[Item], kind: int) -> Iterator[tuple[int, ...]]:
    """Every set of items that fits one bin of a kind."""
    for counts in itertools.product(*(range(min(item.count, HELD_MAX) + 1) for item in items)):
        held = [(item.sizes[kind], count) for item, count in zip(items, counts, strict=True) if count]
        sizes = [(size, count) for size, count in held if size is not None]
        if held and len(sizes) == len(held):
            sums = [sum(size[at] * count for size, count in sizes) for at in range(2)]
            if max(sums) <= 1 + 1e-9:
                yield counts


def optimum(items: Sequence[Item], bins: Sequence[Bin]) -> int | None:
    """The least cost, by an integer program over all contents of bins; None where there is no way."""
    program = highspy.Highs()  # type: ignore[no-untyped-call]
    program.setOptionValue("output_flag", False)
    for item in items:
        program.addRow(item.count, highspy.kHighsInf, 0, [], [])
    columns = 0
    for kind, one in enumerate(bins):
        for counts in contents(items, kind):
            used = [row for row, count in enumerate(counts) if count]
            held = [float(counts[row]) for row in used]
            program.addCol(float(one.price), 0.0, highspy.kHighsInf, len(used), used, held)
            program.changeColIntegrality(columns, highspy.HighsVarType.kInteger)
            columns += 1
    program.run()
    if not columns or program.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    return round(program.getInfo().objective_function_value)
