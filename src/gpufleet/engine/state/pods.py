"""Pods and where they are booked: rows of the pod table, and which pods sit on which node.

A booking follows facts: a pod that runs somewhere is booked there even where that over-commits
the node, and it stays booked to a node that vanished until it is removed itself, so that a node
that comes back is not given away twice. A pod that is only on its way to a node holds as much of
it, in free devices that stand in, where the node does not show those that were decided. ``placing``
does the arithmetic.
"""

from collections import defaultdict

import msgspec
import numpy as np
import numpy.typing as npt

from gpufleet.engine.arrays import journal, layout
from gpufleet.engine.arrays.eviction_columns import (
    CHECKPOINTED_AT_US,
    STARTED_AT_US,
    EvictionColumns,
    TimesByRow,
)
from gpufleet.engine.arrays.layout import (
    NOT_SET,
    POD_NODE,
    POD_PROTECTED,
    POD_QUEUE,
    POD_SHAPE,
    POD_STATE,
    PodState,
)
from gpufleet.engine.arrays.placing import place, release_by_handle, writes_for
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.engine_errors import EventError
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.state.placed_priorities import PlacedPriorities
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.identifiers import DeviceId, GpuModelName, NodeName, PodUid
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod

# As plain numbers: an array takes a member of an enumeration several times as slowly.
WAITING = int(PodState.WAITING)
ABSENT = int(PodState.ABSENT)
STATES = {int(one): one for one in PodState}


class PodTable:
    """Interns pods and books them onto nodes."""

    def __init__(self, store: TableStore, fleet: Fleet, shapes: ShapeTable) -> None:
        self.store = store
        self.fleet = fleet
        self.shapes = shapes
        self.pods: list[Pod | None] = []
        self.row_by_uid: dict[PodUid, int] = {}
        self.on_node: defaultdict[int, dict[int, None]] = defaultdict(dict)
        self.on_lost_node: dict[NodeName, dict[PodUid, tuple[DeviceId | None, ...]]] = {}
        self._lost_node_by_uid: dict[PodUid, NodeName] = {}
        self._stated_ids: dict[int, tuple[DeviceId | None, ...]] = {}
        self.eviction_columns = EvictionColumns()
        self.started_at_us = TimesByRow(self.eviction_columns, STARTED_AT_US)
        self.assumed_at_us: dict[int, int] = {}
        self.checkpointed_at_us = TimesByRow(self.eviction_columns, CHECKPOINTED_AT_US)
        self.left_nodes: dict[int, None] = {}
        self.notes_moves = False
        self.moved: list[int] = []
        self._free_rows: list[int] = []
        self._pods_by_priority: defaultdict[int, int] = defaultdict(int)
        self._protected = 0
        self._placed: PlacedPriorities | None = None

    @property
    def placed_priorities(self) -> PlacedPriorities:
        """How many pods of each priority have a place, by queue."""
        if self._placed is None:
            rows = (row for on_node in self.on_node.values() for row in on_node)
            self._placed = PlacedPriorities(map(self.pod_at, rows))
        return self._placed

    @property
    def least_priority(self) -> int:
        """The lowest priority of any known pod, 0 where there is none."""
        return min(self._pods_by_priority, default=0)

    @property
    def any_is_protected(self) -> bool:
        """True if there is a pod that may not be evicted for another's sake."""
        return self._protected > 0

    def _count(self, pod: Pod, more: int) -> None:
        """A pod more, or, with -1, one less."""
        counts, priority = self._pods_by_priority, pod.priority
        counts[priority] += more
        if not counts[priority]:
            del counts[priority]
        if not pod.preemptible:
            self._protected += more

    def pod_at(self, row: int) -> Pod:
        """The pod of a row in use."""
        pod = self.pods[row]
        if pod is None:
            raise KeyError(row)
        return pod

    def state(self, row: int) -> PodState:
        """Where the pod stands."""
        return STATES[self.store.tables.pods.item(layout.POD_STATE, row)]

    def add(self, pod: Pod) -> int:
        """A row for a new pod, waiting."""
        shape = self._hold_shape(pod)
        if self._free_rows:
            row = self._free_rows.pop()
            self.pods[row] = pod
        else:
            row = len(self.pods)
            self.pods.append(pod)
            if row >= self.store.tables.pods.shape[1]:
                self.store.make_room("pods", row + 1)
                self.store.make_room("pod_devices", row + 1)
        self.row_by_uid[pod.uid] = row
        self.eviction_columns.begin(row, pod)
        self._count(pod, 1)
        cells = self.store.tables.pods
        cells[POD_STATE, row] = WAITING
        cells[POD_SHAPE, row] = shape
        cells[POD_NODE, row] = NOT_SET
        cells[POD_QUEUE, row] = NOT_SET
        cells[POD_PROTECTED, row] = not pod.preemptible
        return row

    def _hold_shape(self, pod: Pod) -> int:
        """The row of a pod's shape, of which the pod keeps no record of its own from now on."""
        row = self.shapes.hold(pod.shape)
        known = self.shapes.shapes[row]
        if pod.shape is not known:
            # An equal value in its place changes nothing that can be seen of a frozen record, and thousands
            # of pods, each read from a document of its own, share the memory of one shape.
            msgspec.structs.force_setattr(pod, "shape", known)
        return row

    def remove(self, uid: PodUid) -> int | None:
        """Forget a pod and free what it holds; its former row, None if it was unknown."""
        row = self.row_by_uid.pop(uid, None)
        if row is None:
            return None
        pod, cells = self.pod_at(row), self.store.tables.pods
        node = cells.item(POD_NODE, row)
        if node != NOT_SET:
            # This writes the state too.
            self._release(row, node, ABSENT)
        else:
            cells[POD_STATE, row] = ABSENT
        if self._lost_node_by_uid:
            self.leave_lost_node(uid)
        self._count(pod, -1)
        self.eviction_columns.drop(row)
        self.assumed_at_us.pop(row, None)
        self.shapes.drop(cells.item(POD_SHAPE, row))
        self.pods[row] = None
        self._free_rows.append(row)
        return row

    def describe(self, row: int, pod: Pod) -> None:
        """Take over another description of a known pod; one that has a place is booked there anew."""
        before = int(self.store.tables.pods[layout.POD_SHAPE, row])
        shape = self._hold_shape(pod)
        node, state = self.node_row(row), self.state(row)
        ids = self.device_ids(row)
        if node is not None:
            self.unbook(row, state)
        self._count(self.pod_at(row), -1)
        self._count(pod, 1)
        self.pods[row] = pod
        self.eviction_columns.put(row, pod)
        self.store.make_journal_room(2)
        protected = int(not pod.preemptible)
        journal.write(self.store.tables, layout.TABLE_PODS, row, layout.POD_SHAPE, shape)
        journal.write(self.store.tables, layout.TABLE_PODS, row, layout.POD_PROTECTED, protected)
        if node is not None:
            self.book(row, node, ids, state)
        self.shapes.drop(before)

    def named_devices(self, row: int) -> tuple[DeviceId, ...] | None:
        """The devices that a booked pod holds, None if one of them has no id."""
        ids = self.device_ids(row)
        # Without ``cast``, which is a call of its own, and this is asked for each pod that starts.
        return None if None in ids else ids  # type: ignore[return-value]

    def node_row(self, row: int) -> int | None:
        """The row of the node a pod is booked on."""
        # ``item``, because this is asked several times for each pod: it takes half as long as an index.
        node = self.store.tables.pods.item(layout.POD_NODE, row)
        return None if node == layout.NOT_SET else node

    def device_ids(self, row: int) -> tuple[DeviceId | None, ...]:
        """The devices a booked pod holds, those among them that its node does not show (any more)."""
        if self._stated_ids and row in self._stated_ids:
            return self._stated_ids[row]
        count = self.pod_at(row).shape.gpu.count
        if count == 0:
            return ()
        pod_devices, ids = self.store.tables.pod_devices, self.fleet.device_ids
        if count == 1:
            # Most pods have one device, for which a slice would take three times as long.
            device = pod_devices.item(row, 0)
            return (None if device == layout.NOT_SET else ids[device],)
        rows = pod_devices[row, :count].tolist()
        return tuple([None if device == layout.NOT_SET else ids[device] for device in rows])

    def gpu_model(self, row: int) -> GpuModelName | None:
        """The model of the GPUs that a booked pod holds, None where it holds none that its node shows."""
        tables = self.store.tables
        count = tables.shapes[layout.SHAPE_GPU_COUNT, tables.pods[layout.POD_SHAPE, row]]
        for device in tables.pod_devices[row, :count].tolist():
            if device != layout.NOT_SET:
                return self.fleet.model_name(int(tables.devices[layout.DEVICE_MODEL, device]))
        return None

    def make_journal_room(self, pods: int, devices_a_pod: int) -> None:
        """Room in the journal for placing or releasing that many pods."""
        store = self.store
        tables = store.tables
        writes = pods * (writes_for(tables.resources_free.shape[1], devices_a_pod) + store.writes_a_charge)
        # Asked before each pod is placed or released, and there nearly always is room.
        if tables.counters.item(layout.COUNTER_JOURNAL_LENGTH) + writes > len(tables.journal):
            store.make_journal_room(writes)

    def booked(self, row: int) -> int:
        """Note that a pod now sits on its node (its place was written by a kernel); the row of the node."""
        node = self.store.tables.pods.item(layout.POD_NODE, row)
        self.on_node[node][row] = None
        if self._placed is not None:
            self._placed.count(self.pod_at(row), 1)
        if self.notes_moves:
            self.moved.append(row)
        return node

    def _note_move(self, row: int) -> None:
        """The pod's place changed: ``moved`` lists it where ``notes_moves`` is set."""
        if self.notes_moves:
            self.moved.append(row)

    def book(
        self,
        row: int,
        node: int,
        ids: tuple[DeviceId | None, ...],
        state: PodState,
        spoken_for: frozenset[int] = frozenset(),
    ) -> None:
        """Book a pod on a node and devices that were decided outside of the kernels.

        ``spoken_for`` are rows of devices that others will be booked on by name.
        """
        count = self.pod_at(row).shape.gpu.count
        chosen = np.full(max(count, 1), layout.NOT_SET, np.int64)
        # Those that are named first, so that none of them stands in for another.
        for index, device_id in enumerate(ids[:count]):
            if device_id is not None:
                chosen[index] = self._device_on_node(device_id, node, chosen)
        for index in range(count):
            is_named = index < len(ids) and ids[index] is not None
            # A pod that is on its way takes a free device in place of one that is not seen, so that no other
            # gets what it will need.
            if not is_named or (state is PodState.ASSUMED and chosen[index] == layout.NOT_SET):
                chosen[index] = self._stand_in(node, spoken_for.union(chosen.tolist()))
        self.make_journal_room(1, count)
        place(self.store.tables, row, node, chosen, int(state))
        self.booked(row)
        named = self._named(ids, chosen[:count])
        if any(one is not None and one != self._id_at(chosen[index]) for index, one in enumerate(named)):
            self._stated_ids[row] = named

    def stands_elsewhere(self, row: int) -> bool:
        """True if a pod is on its way to devices that its node does not show, and holds others instead."""
        return row in self._stated_ids and self.state(row) is PodState.ASSUMED

    def _named(
        self, ids: tuple[DeviceId | None, ...], chosen: npt.NDArray[np.int64]
    ) -> tuple[DeviceId | None, ...]:
        """What a pod holds by name, also where its node does not have all of it.

        It must not be forgotten: when the device is seen again it is not free.
        """
        stated = (*ids[: len(chosen)], *[None] * (len(chosen) - len(ids)))
        pairs = zip(stated, chosen, strict=True)
        return tuple([self._id_at(device) if one is None else one for one, device in pairs])

    def _id_at(self, device: int) -> DeviceId | None:
        return None if device == layout.NOT_SET else self.fleet.device_ids[device]

    def _device_on_node(self, device_id: DeviceId, node: int, taken: npt.NDArray[np.int64]) -> int:
        """The row of a device, NOT_SET if the node does not show it or the pod has it already."""
        device = self.fleet.device_row_by_id.get(device_id, layout.NOT_SET)
        here = device != layout.NOT_SET and self.store.tables.devices[layout.DEVICE_NODE, device] == node
        return device if here and device not in taken else layout.NOT_SET

    def _stand_in(self, node: int, taken: frozenset[int]) -> int:
        """A free device that stands for one whose id is not known."""
        devices = self.store.tables.devices
        first = int(self.store.tables.nodes[layout.NODE_FIRST_DEVICE, node])
        for device in range(first, first + int(self.store.tables.nodes[layout.NODE_DEVICE_COUNT, node])):
            if devices[layout.DEVICE_WHOLE_FREE, device] == 1 and device not in taken:
                return device
        return layout.NOT_SET

    def unbook(self, row: int, state: PodState) -> None:
        """Take a pod off its node."""
        node = self.node_row(row)
        if node is None:
            raise EventError("the pod is not on a node", field="uid", value=self.pod_at(row).uid)
        self._release(row, node, int(state))

    def _release(self, row: int, node: int, state: int) -> None:
        self.make_journal_room(1, self.store.tables.pod_devices.shape[1])
        release_by_handle(self.store.handle, row, state)
        self.left(row, node)

    def left(self, row: int, node: int) -> None:
        """Note that a pod does not sit on this node any more (a kernel took it off)."""
        if self._stated_ids:
            self._stated_ids.pop(row, None)
        del self.on_node[node][row]
        if self._placed is not None:
            self._placed.count(self.pod_at(row), -1)
        self.left_nodes[node] = None
        if self.notes_moves:
            self.moved.append(row)

    def checkpointed(self, uid: PodUid, at_us: int) -> None:
        """A pod has a checkpoint of this moment; nothing where it is unknown."""
        row = self.row_by_uid.get(uid)
        if row is not None:
            self.checkpointed_at_us[row] = at_us

    def mark(self, row: int, state: PodState) -> None:
        """Set a pod's state without moving it."""
        self.store.make_journal_room(1)
        journal.write(self.store.tables, layout.TABLE_PODS, row, layout.POD_STATE, int(state))

    def lose_node(self, name: NodeName) -> None:
        """A node vanished: its pods stay booked to its name."""
        node = self.fleet.row_by_name[name]
        # A copy: each of them leaves the node here.
        for row in list(self.on_node.get(node, ())):
            ids, state = self.device_ids(row), self.state(row)
            self.unbook(row, state)
            self.book_on_lost_node(row, name, ids)
        self.on_node.pop(node, None)
        self.fleet.remove(node)

    def book_on_lost_node(self, row: int, name: NodeName, ids: tuple[DeviceId | None, ...]) -> None:
        """Book a pod on a node that is not known (yet, or any more)."""
        uid = self.pod_at(row).uid
        self.on_lost_node.setdefault(name, {})[uid] = ids
        self._lost_node_by_uid[uid] = name
        self._note_move(row)

    def ids_on_lost_node(self, uid: PodUid, name: NodeName) -> tuple[DeviceId | None, ...]:
        """The devices that a pod holds on this lost node; none if it is not booked there."""
        return self.on_lost_node.get(name, {}).get(uid, ())

    def leave_lost_node(self, uid: PodUid) -> None:
        """The pod is not, or no longer, booked on a node that is not known."""
        name = self._lost_node_by_uid.pop(uid, None)
        if name is not None:
            del self.on_lost_node[name][uid]
            if not self.on_lost_node[name]:
                del self.on_lost_node[name]
            if uid in self.row_by_uid:
                self._note_move(self.row_by_uid[uid])

    def put_node(self, node: Node) -> int:
        """Write a new or changed node and book again what runs on it."""
        known = self.fleet.row_by_name.get(node.name)
        held: list[tuple[int, tuple[DeviceId | None, ...], PodState]] = []
        if known is not None:
            for row in list(self.on_node.get(known, ())):
                held.append((row, self.device_ids(row), self.state(row)))
                self.unbook(row, PodState.BOUND)
        node_row = self.fleet.put(node)
        for uid, ids in self.on_lost_node.pop(node.name, {}).items():
            row = self.row_by_uid[uid]
            held.append((row, ids, self.state(row)))
            del self._lost_node_by_uid[uid]
        # A device that one pod has by name stands in for no other pod's.
        spoken_for = frozenset(
            self.fleet.device_row_by_id[one]
            for row, ids, _ in held
            for one in ids[: self.pod_at(row).shape.gpu.count]
            if one in self.fleet.device_row_by_id
        )
        for row, ids, state in held:
            self.book(row, node_row, ids, state, spoken_for)
        return node_row

    def is_on_lost_node(self, uid: PodUid) -> bool:
        """True if the pod is booked on a node that is not known."""
        return uid in self._lost_node_by_uid

    def lost_node_of(self, uid: PodUid) -> NodeName | None:
        """The node that is not known on which the pod is booked, if it is on one."""
        return self._lost_node_by_uid.get(uid)
