"""Why a shape fits nowhere, as far as nodes alone decide: kept as long as no node changes.

Pods of a thousand queues ask for the same few shapes, and the nodes say the same to all of them. What their
queues say besides is not kept here.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.instruction import Verdict
from gpufleet.engine.place.refusal.survey_cache import SurveyCache
from gpufleet.engine.place.refusal.verdict import judge
from gpufleet.engine.place.relations.neighbours import NO_REASONS, Neighbours
from gpufleet.model.shape import Shape


class ShapeVerdicts:
    """The verdicts of the nodes as they are."""

    def __init__(self, surveys: SurveyCache, neighbours: Neighbours) -> None:
        self.surveys = surveys
        self.neighbours = neighbours
        self._known: dict[int, tuple[Shape, Verdict]] = {}
        self._as_of = (layout.NOT_SET, layout.NOT_SET)

    def of(self, shape_row: int) -> Verdict:
        """Why a shape fits nowhere as of now, for a pod that no neighbour has anything against."""
        shapes, tables = self.surveys.shapes, self.surveys.store.tables
        as_of = (tables.counters.item(layout.COUNTER_CHANGES), self.neighbours.changes)
        if as_of != self._as_of:
            self._known.clear()
            self._as_of = as_of
        shape, known = shapes.shape_at(shape_row), self._known.get(shape_row)
        # A row may have been given to another shape while no node changed.
        if known is None or known[0] is not shape:
            known = (shape, judge(self.surveys, shapes.slot(shape_row), NO_REASONS))
            self._known[shape_row] = known
        return known[1]
