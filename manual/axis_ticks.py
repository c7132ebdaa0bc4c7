"""The values that an axis is marked with: evenly apart, and round in the unit in which they are read.

Times go by seconds, minutes, hours and days, bytes by powers of two, what is counted by whole numbers.
``board_drawing`` puts them beside its lines.
"""

import math
from collections.abc import Iterator

from gpufleet.dashboards.board import Unit

PARTS_MAX = 5
"""More lines across would crowd a panel of eight rows."""
DECIMAL = (1.0, 2.0, 2.5, 5.0)
WHOLE = (1.0, 2.0, 4.0, 5.0)
TIMES_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
DAY_S = 86_400


def _steps(unit: Unit, *, is_whole: bool) -> Iterator[float]:
    """Distances of two marks, the smallest first."""
    if unit is Unit.BYTES:
        yield from (2.0**power for power in range(64))
        return
    if unit is Unit.SECONDS:
        yield from (one * 10.0**power for power in range(-4, 0) for one in DECIMAL)
        yield from map(float, TIMES_S)
        yield from (one * DAY_S * 10.0**power for power in range(6) for one in DECIMAL)
        return
    sizes = WHOLE if is_whole else DECIMAL
    yield from (one * 10.0**power for power in range(0 if is_whole else -6, 15) for one in sizes)


def ticks(
    low: float,
    high: float,
    unit: Unit,
    *,
    is_whole: bool = False,
    ends_there: bool = False,
    parts_max: int = PARTS_MAX,
) -> tuple[float, ...]:
    """The marks of an axis that shows everything from ``low`` to ``high``, from its end to its end.

    ``is_whole``: the values are whole numbers, and so are the marks. ``ends_there``: ``high`` is the end
    of the axis, and a distance that leads there is taken where there is one. There are at most ``parts_max``
    distances.
    """
    high = max(high, low + (1.0 if is_whole else 1e-6))
    fitting = [step for step in _steps(unit, is_whole=is_whole) if _parts(low, high, step) <= parts_max]
    step = fitting[0]
    if ends_there:
        even = [one for one in fitting if (high - low) / one == round((high - low) / one)]
        step = (even or fitting)[0]
    first = math.floor(low / step + 1e-9)
    return tuple((first + part) * step for part in range(_parts(low, high, step) + 1))


def _parts(low: float, high: float, step: float) -> int:
    """How many steps lead from the mark at or below ``low`` to that at or above ``high``."""
    return math.ceil(high / step - 1e-9) - math.floor(low / step + 1e-9)
