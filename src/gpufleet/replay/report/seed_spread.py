"""The seeds of a policy as one curve: mean, lowest and highest at each load.

The band runs from the lowest to the highest seed rather than a deviation around the mean: it
assumes nothing about how seeds are distributed, and every run lies inside it. A load that some run
of the policy did not reach is left out, since a mean over other seeds would bend the line there.
``curve_charts`` draws it.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

import msgspec

from gpufleet.replay.results import Curve


class SpreadPoint(msgspec.Struct, frozen=True):
    """Mean, lowest and highest value over the seeds at one load."""

    load_pct: int
    mean: float
    low: float
    high: float


def spread_over_seeds(
    curves: Sequence[Curve], values_of: Callable[[Curve], Sequence[float]]
) -> list[SpreadPoint]:
    """The spread of one quantity over ``curves``, at every load that all of them have."""
    values_by_load: dict[int, list[float]] = {}
    for curve in curves:
        for load_pct, value in zip(curve.load_pct, values_of(curve), strict=True):
            values_by_load.setdefault(load_pct, []).append(value)
    return [
        SpreadPoint(load_pct, fmean(values), min(values), max(values))
        for load_pct, values in sorted(values_by_load.items())
        if len(values) == len(curves)
    ]
