"""How near the estimates of ``gpufleet fit`` come to published measurements, beside their limits.

Judged are the rows that no constant was chosen with, the same that ``gpufleet fit --list-evidence`` shows. A
row is a false fit where it was worse than the worst case that an answer rests on: none may be.
"""

from bench.figures import Figure, figure
from gpufleet.fit.evidence import EvidencePart, Nearness, evidence, nearness

MEDIAN_LIMITS = {
    EvidencePart.WEIGHTS: 1.0,
    EvidencePart.KEYS: 0.1,
    EvidencePart.PEAK: 20.0,
    EvidencePart.POOL: 5.0,
    EvidencePart.TRAINING: 25.0,
    EvidencePart.ADAPTERS: 25.0,
}
"""Percent that the median row may be off, of parts with enough rows to be judged."""

FEW_SOURCES = 3
"""Of fewer sources a median says little, and none is judged."""


def accuracy_figures() -> list[Figure]:
    """The medians of each part, those that were in view for comparison, and the false fits of all rows."""
    found = nearness(evidence())
    figures = [_false_fits(found)]
    for one in found:
        limit = None if one.fitted or one.sources < FEW_SOURCES else MEDIAN_LIMITS.get(one.part)
        seen = "in view" if one.fitted else "checked only"
        name = f"fit, {one.part}, {one.rows} rows of {one.sources} sources, {seen}: median off"
        figures.append(figure(name, 100 * one.median_off, "%", "lower", limit))
        figures.append(figure("... worst off", 100 * one.worst_off, "%", "lower"))
    return figures


def _false_fits(found: list[Nearness]) -> Figure:
    rows = sum(one.rows for one in found)
    count = sum(one.false_fits for one in found)
    return figure(f"fit, false fits of {rows} measurements", count, "rows", "lower", 0)
