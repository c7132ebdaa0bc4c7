"""The whole verdict on a waiting pod: nodes, queues, and each of the models that it wants in an order.

``verdict`` asks the nodes and ``queueing.gate`` the queues; here their answers are put together, once for all
models that the pod accepts and, where it has an order, once for each group of it.
"""

from collections.abc import Iterable

import msgspec

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.instruction import ModelsTried, Verdict
from gpufleet.engine.place.refusal.shape_verdicts import ShapeVerdicts
from gpufleet.engine.place.refusal.survey_cache import SurveyCache
from gpufleet.engine.place.refusal.verdict import judge, judge_each
from gpufleet.engine.place.relations.neighbours import Neighbours
from gpufleet.engine.queueing.gate import Gate
from gpufleet.engine.state.model_order import Models, groups_of
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.identifiers import NodeName

OTHER_GPUS = frozenset({"no-gpu", "gpu-vendor", "gpu-model"})
"""Reasons of nodes that have no GPU of the models in question."""


class Judging:
    """Says why pods wait."""

    def __init__(self, store: TableStore, shapes: ShapeTable, neighbours: Neighbours, gate: Gate) -> None:
        self.store = store
        self.shapes = shapes
        self.neighbours = neighbours
        self.gate = gate
        self.surveys = SurveyCache(store, shapes)
        self.shape_verdicts = ShapeVerdicts(self.surveys, neighbours)

    def verdict(self, row: int, models: Models = ()) -> Verdict:
        """Why a pod fits nowhere as of now, on these models if any are given."""
        shape_row = self._shape_row(row)
        reasons = self.neighbours.reasons_beyond_room(row)
        asks_alike = not models and not len(reasons)
        judged = self.shape_verdicts.of(shape_row) if asks_alike else self._judge(shape_row, models, reasons)
        verdict = self.gate.complete(judged, row)
        order = () if models else self.shapes.shape_at(shape_row).gpu.model_order
        return verdict if not order else msgspec.structs.replace(verdict, models_tried=self.tried(row, order))

    def reasons_by_node(self, row: int, models: Models = ()) -> dict[NodeName, tuple[str, ...]]:
        """The reasons of every node against a pod, as of now, on these models if any are given."""
        slot = self._slot(self._shape_row(row), models)
        return judge_each(self.surveys, slot, self.neighbours.reasons_beyond_room(row))

    def tried(self, row: int, groups: Iterable[Models]) -> tuple[ModelsTried, ...]:
        """Why a pod fits on none of these groups of models, one by one."""
        shape_row, reasons = self._shape_row(row), self.neighbours.reasons_beyond_room(row)
        found: list[ModelsTried] = []
        for models in groups:
            accepted = groups_of(self.shapes.shape_at(shape_row).gpu, models)
            if not accepted:
                found.append(ModelsTried(models, {}))
                continue
            counts = self._judge(shape_row, accepted[0], reasons).first_reasons
            here = {name: count for name, count in counts.items() if name not in OTHER_GPUS}
            found.append(ModelsTried(models, here, self.gate.shortage_on(row, models)))
        return tuple(found)

    def _shape_row(self, row: int) -> int:
        return int(self.store.tables.pods[layout.POD_SHAPE, row])

    def _judge(self, shape_row: int, models: Models, reasons: Int64Array) -> Verdict:
        return judge(self.surveys, self._slot(shape_row, models), reasons)

    def _slot(self, shape_row: int, models: Models) -> int:
        shapes = self.shapes
        return shapes.slot_of_models(shape_row, models) if models else shapes.slot(shape_row)
