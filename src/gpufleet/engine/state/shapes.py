"""The shapes in use: each one interned to a row, with a ranking slot while it is being decided on.

Rows live as long as a pod has the shape, and a while longer. Slots are what costs memory (a score
for every node), so their number is bounded and the least recently used one is given to the next
shape. ``ranking`` fills the slots.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import msgspec
import numpy as np

from gpufleet.engine.arrays import journal, layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.handle import Handle
from gpufleet.engine.arrays.rankings import Rankings, empty_rankings
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.state.bounds import check_shape
from gpufleet.engine.state.eligibility import distrust_reasons, fleet_reasons, reasons_at
from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.identifiers import GpuModelName
from gpufleet.model.shape import GpuRequest, Shape

RANKING_MEMORY_MIB = 192
"""Enough for 1,200 shapes over 10,000 nodes."""

IDLE_SHAPES_MAX = 2048
"""Shapes without pods that are remembered, because the next pod often has one of them."""


class ShapeTable:
    """Interns shapes and owns the ranking slots."""

    def __init__(self, store: TableStore, fleet: Fleet) -> None:
        self.store = store
        self.fleet = fleet
        self.shapes: list[Shape | None] = []
        self.row_by_shape: dict[Shape, int] = {}
        self._pods: list[int] = []
        self._asks: list[bool] = []
        # True once a shape has come that asks something of other pods: most fleets never see one.
        self.some_ask = False
        self._idle_rows: dict[int, None] = {}
        self._free_rows: list[int] = []
        self._variants: dict[tuple[Shape, tuple[GpuModelName, ...]], Shape] = {}
        self._handle = Handle()
        # Any size will do: ``_fit_rankings_to_fleet`` makes both larger.
        self._take_rankings(empty_rankings(8, 64))
        self._slot_by_row: dict[int, int] = {}
        self.when_new: Callable[[int, Shape], None] | None = None
        self.when_gone: Callable[[int, Shape], None] | None = None

    def _take_rankings(self, rankings: Rankings) -> None:
        """Use these from now on; ``rankings_handle`` are the same as a kernel's argument.

        An attribute and no property: it is asked for each pod that is placed.
        """
        self.rankings = rankings
        self.rankings_handle: Int64Array = self._handle.of(rankings)

    def shape_at(self, row: int) -> Shape:
        """The shape of a row in use."""
        shape = self.shapes[row]
        if shape is None:
            raise KeyError(row)
        return shape

    def asks_anything(self, row: int) -> bool:
        """True if pods of the shape ask something of other pods, or prefer some nodes."""
        return self._asks[row]

    def hold(self, shape: Shape) -> int:
        """The row of a shape for one more pod."""
        row = self.row_by_shape.get(shape)
        if row is None:
            check_shape(shape)
            row = self._new_row(shape)
        pods = self._pods[row]
        self._pods[row] = pods + 1
        if not pods:
            self._idle_rows.pop(row, None)
        return row

    def drop(self, row: int) -> None:
        """One pod less has the shape."""
        self._pods[row] -= 1
        if self._pods[row] == 0:
            self._idle_rows[row] = None
            # The first key is the shape that has been idle for the longest.
            if len(self._idle_rows) > IDLE_SHAPES_MAX:
                self._forget(next(iter(self._idle_rows)))

    def _forget(self, row: int) -> None:
        del self._idle_rows[row]
        shape = self.shape_at(row)
        del self.row_by_shape[shape]
        self.fleet.drop_amounts(shape.resources)
        if self.when_gone is not None:
            self.when_gone(row, shape)
        self.shapes[row] = None
        self._free_rows.append(row)
        slot = self._slot_by_row.pop(row, None)
        if slot is not None:
            self.rankings.state[slot, layout.RANKING_SHAPE] = layout.NOT_SET

    def _new_row(self, shape: Shape) -> int:
        if self._free_rows:
            row = self._free_rows.pop()
            self.shapes[row] = shape
        else:
            row = len(self.shapes)
            self.shapes.append(shape)
            self._pods.append(0)
            self._asks.append(False)
        self._asks[row] = asks_anything(shape)
        self.some_ask |= self._asks[row]
        self.row_by_shape[shape] = row
        self._write(row, shape)
        return row

    def _write(self, row: int, shape: Shape) -> None:
        amounts = self.fleet.hold_amounts(shape.resources, pods=1)
        models = [self.fleet.model_code(model) for model in shape.gpu.models]
        for field in ("shapes", "shape_resources", "shape_models", "shape_charges", "shape_claims"):
            self.store.make_room(field, row + 1)
        self.store.make_room("pod_devices", shape.gpu.count, axis=1)
        tables = self.store.tables
        tables.shape_resources[row] = 0
        for column, amount in amounts:
            tables.shape_resources[row, column] = amount
        tables.shape_models[row] = False
        tables.shape_models[row, models] = True
        memory = shape.gpu.memory_mib
        tables.shapes[layout.SHAPE_GPU_COUNT, row] = shape.gpu.count
        tables.shapes[layout.SHAPE_GPU_MILLI, row] = shape.gpu.gpu_milli
        tables.shapes[layout.SHAPE_GPU_MIB, row] = layout.NOT_SET if memory is None else memory
        tables.shapes[layout.SHAPE_KIND, row] = kind_of(shape.gpu)
        tables.shapes[layout.SHAPE_ANY_MODEL, row] = int(not models)
        tables.shapes[layout.SHAPE_WITHIN, row] = int(shape.gpu.within)
        if self.when_new is not None:
            self.when_new(row, shape)

    def slot_of_models(self, row: int, models: tuple[GpuModelName, ...]) -> int:
        """The ranking slot of the same shape as if it accepted only these models."""
        shape, models = self.shape_at(row), tuple(sorted(models))
        variant = self._variants.get((shape, models))
        if variant is None:
            # All at once: variants are cheap to make again, and no order of use is kept.
            if len(self._variants) >= IDLE_SHAPES_MAX:
                self._variants.clear()
            gpu = msgspec.structs.replace(shape.gpu, models=models, model_order=())
            variant = self._variants[shape, models] = msgspec.structs.replace(shape, gpu=gpu)
        row = self.hold(variant)
        # It is remembered like the shape of a pod that has just ended.
        self.drop(row)
        return self.slot(row)

    def slot(self, row: int) -> int:
        """The ranking slot of a shape row, made ready if it has none yet."""
        slot = self._slot_by_row.pop(row, None)
        if slot is None:
            slot = self._new_slot(row)
        self._slot_by_row[row] = slot  # the dictionary's order is that of last use
        return slot

    def _new_slot(self, row: int) -> int:
        self._fit_rankings_to_fleet()
        slots = self.rankings.state.shape[0]
        if len(self._slot_by_row) < slots:
            free = self.rankings.state[:, layout.RANKING_SHAPE] == layout.NOT_SET
            slot = int(np.argmax(free))
        else:
            # The least recently used: dictionaries keep their order, and each use moves its key to the end.
            slot = self._slot_by_row.pop(next(iter(self._slot_by_row)))
        state = self.rankings.state[slot]
        state[layout.RANKING_SHAPE] = row
        state[layout.RANKING_STALE] = 1
        self.rankings.refused[slot, : self.fleet.row_count] = fleet_reasons(self.shape_at(row), self.fleet)
        return slot

    def _fit_rankings_to_fleet(self) -> None:
        """More slots while memory allows, as many columns as there are rows of nodes."""
        slots = self.rankings.state.shape[0]
        node_rows = len(self.store.tables.changed_at)
        # A score and the reasons against the node, 8 bytes each.
        bytes_a_slot = 16 * node_rows
        most = max(64, RANKING_MEMORY_MIB * 1024 * 1024 // bytes_a_slot)
        if len(self._slot_by_row) >= slots and slots < most:
            self._resize(min(2 * slots, most), node_rows)
        elif self.rankings.scores.shape[1] < node_rows:
            self._resize(slots, node_rows)

    def _resize(self, slots: int, node_rows: int) -> None:
        old = self.rankings
        self._take_rankings(empty_rankings(slots, node_rows))
        # The scores are not taken over: every slot is stale now.
        kept = min(slots, old.state.shape[0])
        columns = min(old.scores.shape[1], self.rankings.scores.shape[1])
        self.rankings.state[:kept, layout.RANKING_SHAPE] = old.state[:kept, layout.RANKING_SHAPE]
        self.rankings.refused[:kept, :columns] = old.refused[:kept, :columns]

    def node_added(self, node_row: int) -> None:
        """A row of nodes was taken into use or got other labels: judge it for every slot."""
        if self.rankings.scores.shape[1] < len(self.store.tables.changed_at):
            self._fit_rankings_to_fleet()
        node = self.fleet.node_at(node_row)
        of_every_shape = distrust_reasons(self.fleet, node)
        for row, slot in self._slot_by_row.items():
            reasons = reasons_at(self.shape_at(row), self.fleet, node_row)
            self.rankings.refused[slot, node_row] = of_every_shape | reasons

    @contextmanager
    def opened(self, node_rows: Iterable[int]) -> Iterator[None]:
        """The cordon of these nodes does not count meanwhile. What is placed there stays."""
        rows = tuple(node_rows)
        self._open(rows, frozenset(rows))
        try:
            yield
        finally:
            self._open(rows, frozenset())

    def _open(self, rows: tuple[int, ...], opened: frozenset[int]) -> None:
        self.fleet.opened = opened
        for row in rows:
            self.node_added(row)
            # Rankings are brought up to date with what was touched, when they are asked next.
            journal.touch(self.store.tables, row)

    def rank_anew(self) -> None:
        """Every score is out of date: the policy has changed what it values."""
        self.rankings.state[:, layout.RANKING_STALE] = 1


def kind_of(gpu: GpuRequest) -> int:
    """The kind of a request: share, k whole GPUs, or none."""
    if gpu.count == 0:
        return layout.NOT_SET
    if not gpu.whole:
        return layout.KIND_SHARE
    # Requests for more GPUs than there are columns share the last one.
    return min(gpu.count, layout.KIND_COLUMNS - 1)


def asks_anything(shape: Shape) -> bool:
    """True if the shape asks anything of other pods, or prefers some nodes to others."""
    relations = shape.relations
    volumes = relations.volumes
    return bool(
        relations.ports
        or relations.affinity
        or relations.anti_affinity
        or relations.preferred
        or relations.spread
        or relations.device_claims
        or relations.data.read
        or volumes.attachments
        or volumes.exclusive
        or volumes.unbound
        or shape.affinity.preferred
    )
