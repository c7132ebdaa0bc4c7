"""Lines over time whose axis begins at 0, as most panels of all boards have them.

An axis that begins elsewhere makes small changes look large. Values below 0 need a ``Panel`` of their own.
"""

from gpufleet.dashboards.board import Panel, PanelKind, Query, Threshold, Unit


def lines_from_0(
    title: str,
    description: str,
    queries: tuple[Query, ...],
    unit: Unit,
    *,
    width: int = 12,
    height: int = 8,
    maximum: float | None = None,
    thresholds: tuple[Threshold, ...] = (),
    is_stacked: bool = False,
    empty_when_well: str = "",
) -> Panel:
    """A panel of lines; fields as of ``Panel``."""
    return Panel(
        title,
        description,
        PanelKind.LINES,
        queries,
        unit,
        width,
        height,
        thresholds=thresholds,
        is_stacked=is_stacked,
        minimum=0,
        maximum=maximum,
        empty_when_well=empty_when_well,
    )
