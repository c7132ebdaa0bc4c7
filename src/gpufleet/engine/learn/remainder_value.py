"""What a free part of a GPU is worth: the price of what the typical work can still cut out of it.

GPUs are cut into requests of the sizes that arrive, in the proportions in which they arrive, with
as few GPUs as possible: the cutting-stock problem. Its dual gives each size a price (a whole GPU
costs 1), and a remainder is worth the dearest set of sizes that fits into it. What no likely task
fills is thus worth nothing. Solved by column generation as in Gilmore and Gomory, "A linear
programming approach to the cutting-stock problem", Operations Research 9 (1961); the columns are
found by an unbounded knapsack over the 1000 milli of a GPU.
"""

import numpy as np
import numpy.typing as npt

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import kernel
from gpufleet.model.device import WHOLE_GPU_MILLI

Float64Array = npt.NDArray[np.float64]

PIVOTS_MAX = 1000
"""Steps of the simplex method after which the prices so far are taken: an end, whatever rounding does."""
TOLERANCE = 1e-9
"""What counts as nothing in the simplex method."""
TIE = 1e-12
"""A filling must be better by this much to replace another: rounding must not decide."""
WASTE = -2
"""In a knapsack's choices: nothing ends at this size."""


@kernel
def fill_knapsack(sizes: Int64Array, prices: Float64Array, best: Float64Array, last: Int64Array) -> None:
    """``best[r]``: the highest sum of prices of sizes that fit into r; ``last[r]``: one of them."""
    best[0] = 0.0
    last[0] = WASTE
    for room in range(1, WHOLE_GPU_MILLI + 1):
        best[room] = best[room - 1]
        last[room] = WASTE
        for item in range(len(sizes)):
            if sizes[item] <= room:
                worth = best[room - sizes[item]] + prices[item]
                if worth > best[room] + TIE:
                    best[room] = worth
                    last[room] = item


@kernel
def read_pattern(sizes: Int64Array, last: Int64Array, pattern: Float64Array) -> None:
    """How often each size is in the best filling of a whole GPU."""
    for item in range(len(sizes)):
        pattern[item] = 0.0
    room = WHOLE_GPU_MILLI
    while room > 0:
        item = last[room]
        if item == WASTE:
            room -= 1
        else:
            pattern[item] += 1.0
            room -= sizes[item]


@kernel
def pivot(inverse: Float64Array, amounts: Float64Array, direction: Float64Array) -> bool:
    """Bring the column ``direction`` (in terms of the basis) into the basis; False if nothing
    limits it.
    """
    count = len(amounts)
    leaving, step = -1, 1e300
    for row in range(count):
        if direction[row] > TOLERANCE and amounts[row] / direction[row] < step - 1e-15:
            step = amounts[row] / direction[row]
            leaving = row
    if leaving < 0:
        return False
    for row in range(count):
        amounts[row] -= step * direction[row]
    amounts[leaving] = step
    for column in range(count):
        inverse[leaving, column] /= direction[leaving]
    for row in range(count):
        if row != leaving and direction[row] != 0.0:
            for column in range(count):
                inverse[row, column] -= direction[row] * inverse[leaving, column]
    return True


@kernel
def price_sizes(
    sizes: Int64Array,
    demand: Float64Array,
    inverse: Float64Array,
    work: Float64Array,
    best: Float64Array,
    last: Int64Array,
) -> int:
    """Solve the cutting-stock LP; afterwards ``best`` values remainders at the dual prices.

    ``inverse`` (n x n) and ``work`` (4 x n) are room to work in. Starts from patterns of one size
    each. Returns the number of pivots.
    """
    count = len(sizes)
    prices, amounts, pattern, direction = work[0], work[1], work[2], work[3]
    for item in range(count):
        # A basis whose inverse is diagonal: for each size a GPU that is cut into nothing else.
        pieces = WHOLE_GPU_MILLI // sizes[item]
        inverse[item, item] = 1.0 / pieces
        amounts[item] = demand[item] / pieces
    for turn in range(PIVOTS_MAX):
        for item in range(count):
            prices[item] = 0.0
            for row in range(count):
                prices[item] += inverse[row, item]
        fill_knapsack(sizes, prices, best, last)
        # No pattern is worth more than the GPU that it takes: these prices are the optimum's.
        if best[WHOLE_GPU_MILLI] <= 1.0 + TOLERANCE:
            return turn
        read_pattern(sizes, last, pattern)
        for row in range(count):
            direction[row] = 0.0
            for item in range(count):
                direction[row] += inverse[row, item] * pattern[item]
        if not pivot(inverse, amounts, direction):
            return turn
    return PIVOTS_MAX


def remainder_values(sizes: Int64Array, demand: Float64Array) -> Float64Array:
    """The worth of r milli for r in 0..1000, a whole GPU being worth 1.

    ``sizes`` are the milli asked for (ascending, 1..1000), ``demand`` how often each is.
    """
    count = len(sizes)
    best = np.zeros(WHOLE_GPU_MILLI + 1)
    last = np.zeros(WHOLE_GPU_MILLI + 1, np.int64)
    shares = demand / demand.sum()
    price_sizes(sizes, shares, np.zeros((count, count)), np.zeros((4, count)), best, last)
    values: Float64Array = best / best[WHOLE_GPU_MILLI]
    return values
