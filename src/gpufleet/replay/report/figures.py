"""How a figure is written: decimals, units, and a dash where there is none.

One place, so that the same figure reads the same in the headline, a table and a chart, and what is
absent never turns into 0. ``table`` and the charts put these texts on the page.
"""

from gpufleet.replay.results import MeanDeviation

ABSENT = "–"  # noqa: RUF001 - an en dash is what is meant
_SECONDS_PER_UNIT = (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0))


def count(value: float | None) -> str:
    """A number of things, without decimals: ``6,212``."""
    return ABSENT if value is None else f"{value:,.0f}"


def amount(value: float | None, decimals: int = 1) -> str:
    """A number with decimals: ``12.3``."""
    return ABSENT if value is None else f"{value:,.{decimals}f}"


def percent(value: float | None, decimals: int = 2) -> str:
    """A share in percent: ``95.23%``."""
    return ABSENT if value is None else f"{value:.{decimals}f}%"


def mean_deviation(value: MeanDeviation | None, decimals: int = 2) -> str:
    """Mean and deviation: ``95.23 ± 0.12``; the mean alone where one seed leaves no deviation."""
    if value is None:
        return ABSENT
    mean = amount(value.mean, decimals)
    return mean if value.deviation is None else f"{mean} ± {amount(value.deviation, decimals)}"


def duration(seconds: float | None) -> str:
    """A time in the unit a person would choose: ``42 s``, ``3.5 h``."""
    if seconds is None:
        return ABSENT
    for unit, unit_s in _SECONDS_PER_UNIT:
        if seconds >= unit_s:
            return f"{seconds / unit_s:,.1f} {unit}"
    return f"{seconds:,.3g} s"


def plural(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: ``1 seed``, ``10 seeds``, ``2 policies``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: list[str]) -> str:
    """Names as a sentence has them: ``a, b and c``."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
