"""The nodes and devices of the fleet: from values into rows of the arrays, and back.

A node keeps its row as long as it is known; rows of removed nodes are used again, the lowest
first, and the row is the rank that breaks ties between equal scores. ``pods`` puts pods on
the rows; ``eligibility`` reads labels and taints.
"""

import heapq

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.arrays.numbering import Numbering
from gpufleet.engine.arrays.placing import settle_by_handle
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.engine_errors import EventError
from gpufleet.engine.state.bounds import check_node
from gpufleet.engine.state.data_copies import DataCopies
from gpufleet.engine.state.labels_by_column import LabelsByColumn
from gpufleet.model.device import WHOLE_GPU_MILLI, Device
from gpufleet.model.device_id import hardware_of
from gpufleet.model.gpu_unit import gives_out_parts
from gpufleet.model.identifiers import DeviceId, GpuModelName, NodeName
from gpufleet.model.node import Node
from gpufleet.model.resources import Resources
from gpufleet.model.spot import is_spot
from gpufleet.model.taint import Taint


class Fleet:
    """Rows of nodes and devices, and the dictionaries from names to rows."""

    def __init__(self, store: TableStore) -> None:
        self.store = store
        self.labels = LabelsByColumn()
        self.data = DataCopies()
        self.nodes: list[Node | None] = []
        self.particular_rows: set[int] = set()
        self.part_rows: set[int] = set()
        self.draining_rows: set[int] = set()
        self.opened: frozenset[int] = frozenset()
        self.row_by_name: dict[NodeName, int] = {}
        self.device_ids: list[DeviceId | None] = []
        self.device_row_by_id: dict[DeviceId, int] = {}
        self.model_codes: dict[GpuModelName, int] = {}
        self.device_kinds: dict[tuple[int, int], int] = {}
        self.price_milli_by_model: dict[GpuModelName, int] = {}
        self._resource_names: Numbering[str] = Numbering()
        self.distrusted: set[NodeName] = set()
        self.description_changes = 0
        self.soft_taint_sets: dict[tuple[Taint, ...], int] = {}
        # Any size will do: it doubles when a row lies beyond.
        self.spot: BoolArray = np.zeros(64, np.bool_)
        self.spot_nodes = 0
        self._firm: Int64Array = np.zeros(0, np.int64)
        self._firm_at = layout.NOT_SET
        self._free_rows: list[int] = []
        self._free_device_ranges: dict[int, list[int]] = {}

    @property
    def row_count(self) -> int:
        """Rows in use, those of removed nodes among them."""
        return len(self.nodes)

    def node_at(self, row: int) -> Node:
        """The node of a row that is in use."""
        node = self.nodes[row]
        if node is None:
            raise KeyError(row)
        return node

    def model_code(self, model: GpuModelName) -> int:
        """The number of a GPU model, given out on first sight."""
        code = self.model_codes.get(model)
        if code is None:
            code = self.model_codes[model] = len(self.model_codes)
            self.store.make_room("shape_models", code + 1, axis=1)
            self.store.make_room("model_prices", code + 1)
            self._write_price(model)
        return code

    def model_name(self, code: int) -> GpuModelName:
        """The GPU model of a number that was given out."""
        return list(self.model_codes)[code]

    def set_prices(self, price_milli_by_model: dict[GpuModelName, int]) -> None:
        """What a GPU of each model costs, in thousandths; one that is not listed costs 1."""
        former, self.price_milli_by_model = self.price_milli_by_model, price_milli_by_model
        # Those that lost their price too: they cost 1 again.
        for model in former | price_milli_by_model:
            if model in self.model_codes:
                self._write_price(model)

    def _write_price(self, model: GpuModelName) -> None:
        price = self.price_milli_by_model.get(model, layout.ONE_PRICE_MILLI)
        self.store.tables.model_prices[self.model_codes[model]] = price

    @property
    def resource_columns(self) -> dict[str, int]:
        """The columns of extended resources by name, of those that a node has or a pod asks for."""
        first = layout.RESOURCE_FIXED_COLUMNS
        return {name: first + number for name, number in self._resource_names.number_by_value.items()}

    def _resource_column(self, name: str) -> int:
        column = layout.RESOURCE_FIXED_COLUMNS + self._resource_names.hold(name)
        self.store.make_resource_room(column + 1)
        return column

    def drop_amounts(self, resources: Resources) -> None:
        """What ``hold_amounts`` gave columns is written nowhere any more."""
        for name, _ in resources.other:
            self._resource_names.drop(self._resource_names.number_by_value[name])

    def hold_amounts(self, resources: Resources, pods: int) -> list[tuple[int, int]]:
        """The resources as (column, amount); the columns stay theirs until ``drop_amounts``."""
        fixed = [
            (layout.RESOURCE_CPU_MILLI, resources.cpu_milli),
            (layout.RESOURCE_MEMORY_BYTES, resources.memory_bytes),
            (layout.RESOURCE_PODS, pods),
            (layout.RESOURCE_EPHEMERAL_STORAGE_BYTES, resources.ephemeral_storage_bytes),
        ]
        return fixed + [(self._resource_column(name), amount) for name, amount in resources.other]

    def check(self, node: Node) -> None:
        """Refuse a node that contradicts itself or another node, before anything is touched."""
        check_node(node)
        ids = [device.id for device in node.devices]
        own_row = self.row_by_name.get(node.name)
        for device_id in ids:
            row = self.device_row_by_id.get(device_id)
            owner = None if row is None else int(self.store.tables.devices[layout.DEVICE_NODE, row])
            if ids.count(device_id) > 1 or (owner is not None and owner != own_row):
                raise EventError(
                    "this device is reported twice",
                    field=f"node {node.name}: devices",
                    value=str(device_id),
                    expected="an id that no other device has",
                )

    def put(self, node: Node) -> int:
        """Give a new node a row, or write a known one anew, as if nothing ran on it."""
        # Two writes for each device and two for the node (``settle_by_handle``).
        self.store.make_journal_room(2 * len(node.devices) + 2)
        row = self.row_by_name.get(node.name)
        if row is None:
            row = self._new_row(node)
        else:
            self._drop_devices(row)
        old = self.nodes[row]
        self._describe(row, node)
        self._write_host(row, node)
        # Only now, so that a column which both name is not free in between, for another resource to take.
        if old is not None:
            self.drop_amounts(old.allocatable)
        self._write_devices(row, node)
        return row

    def relabel(self, row: int, node: Node) -> None:
        """Take over labels, taints and cordon of a node whose amounts did not change."""
        self._describe(row, node)

    def mark_distrusted(self, name: NodeName, *, distrusted: bool) -> bool:
        """Nothing new is placed on a node from now on, or it may be again; False where that was so."""
        if (name in self.distrusted) == distrusted:
            return False
        (self.distrusted.add if distrusted else self.distrusted.discard)(name)
        self.description_changes += 1
        return True

    def _describe(self, row: int, node: Node | None) -> None:
        """A row stands for this node from now on: everything about it but its amounts.

        ``description_changes`` counts these, for caches of what follows from descriptions;
        ``soft_taint_sets`` are the taints of nodes that ask to be avoided, with their nodes counted;
        ``particular_rows`` are the nodes that are looked at one by one for a shape;
        ``part_rows`` are those that give out parts of GPUs under the name of whole ones;
        ``draining_rows`` are those that are being drained, and ``opened`` those of them whose cordon does not
        count for what is placed right now;
        ``spot`` says of each row whether its provider may take the node back, ``spot_nodes`` of how many.
        """
        old = self.nodes[row]
        self.labels.replace(row, {} if old is None else old.labels, {} if node is None else node.labels)
        self.data.replace(row, () if old is None else old.data, () if node is None else node.data)
        self.nodes[row] = node
        (self.particular_rows.add if is_particular(node) else self.particular_rows.discard)(row)
        drains = node is not None and node.draining_until_us is not None
        (self.draining_rows.add if drains else self.draining_rows.discard)(row)
        has_parts = node is not None and gives_out_parts(node)
        (self.part_rows.add if has_parts else self.part_rows.discard)(row)
        self.description_changes += 1
        self._note_spot(row, node)
        for known, nodes in ((old, -1), (node, 1)):
            if known is not None and not all(taint.repels for taint in known.taints):
                count = self.soft_taint_sets.get(known.taints, 0) + nodes
                self.soft_taint_sets[known.taints] = count
                if not count:
                    del self.soft_taint_sets[known.taints]

    def _note_spot(self, row: int, node: Node | None) -> None:
        if row >= len(self.spot):
            self.spot = np.concatenate([self.spot, np.zeros_like(self.spot)])
        found = node is not None and is_spot(node.labels)
        self.spot_nodes += found - bool(self.spot[row])
        self.spot[row] = found

    @property
    def firm(self) -> Int64Array:
        """The nodes whose provider does not take them back, ascending."""
        if self._firm_at != self.description_changes:
            present = np.array([node is not None for node in self.nodes], np.bool_)
            self._firm = np.flatnonzero(present & ~self.spot[: self.row_count]).astype(np.int64)
            self._firm_at = self.description_changes
        return self._firm

    def remove(self, row: int) -> None:
        """Forget a node on which nothing is booked any more."""
        node = self.node_at(row)
        self._drop_devices(row)
        self._describe(row, None)
        self.drop_amounts(node.allocatable)
        del self.row_by_name[node.name]
        self.store.tables.nodes[:, row] = 0
        self.store.tables.resources_free[row] = 0
        self.store.tables.kinds[row] = 0
        # The lowest free row is used first, so rows, which break ties, do not depend on the order of
        # removals.
        heapq.heappush(self._free_rows, row)
        self.store.make_journal_room(2)
        settle_by_handle(self.store.handle, row)

    def _new_row(self, node: Node) -> int:
        if self._free_rows:
            row = heapq.heappop(self._free_rows)
        else:
            row = len(self.nodes)
            self.nodes.append(None)
            self.store.make_node_room(row + 1)
        self.row_by_name[node.name] = row
        return row

    def _write_host(self, row: int, node: Node) -> None:
        amounts = self.hold_amounts(node.allocatable, node.allocatable.pods)
        tables = self.store.tables
        tables.kinds[row] = 0
        tables.resources_free[row] = 0
        for column, amount in amounts:
            tables.resources_free[row, column] = amount
        tables.nodes[layout.NODE_PRESENT, row] = 1

    def _write_devices(self, row: int, node: Node) -> None:
        first = self._device_range(len(node.devices))
        rows: dict[DeviceId, int] = {}
        for index, device in enumerate(node.devices):
            # Replicas and parts of one GPU share its row, by which locality and spreading tell cards apart.
            hardware = rows.setdefault(hardware_of(device.id), first + index)
            self._write_device(row, first + index, device, hardware)
        tables = self.store.tables
        tables.nodes[layout.NODE_FIRST_DEVICE, row] = first
        tables.nodes[layout.NODE_DEVICE_COUNT, row] = len(node.devices)
        settle_by_handle(self.store.handle, row)

    def _device_range(self, count: int) -> int:
        # The devices of a node are rows side by side, so a gap suits only nodes with as many.
        spare = self._free_device_ranges.get(count)
        if spare:
            return heapq.heappop(spare)
        first = len(self.device_ids)
        self.device_ids.extend([None] * count)
        self.store.make_room("devices", first + count)
        return first

    def _write_device(self, node_row: int, device_row: int, device: Device, hardware_row: int) -> None:
        model = self.model_code(device.model)
        memory_mib = layout.NOT_SET if device.memory_mib is None else device.memory_mib
        cells = self.store.tables.devices[:, device_row]
        cells[layout.DEVICE_NODE] = node_row
        cells[layout.DEVICE_MODEL] = model
        cells[layout.DEVICE_FREE_MILLI] = WHOLE_GPU_MILLI
        cells[layout.DEVICE_TOTAL_MIB] = memory_mib
        cells[layout.DEVICE_FREE_MIB] = max(0, memory_mib)
        cells[layout.DEVICE_SERVES] = int(device.serves)
        cells[layout.DEVICE_HEALTHY] = int(device.healthy)
        cells[layout.DEVICE_LINK_GROUP] = device.link_group
        cells[layout.DEVICE_NUMA_NODE] = layout.NOT_SET if device.numa_node is None else device.numa_node
        cells[layout.DEVICE_HARDWARE] = hardware_row
        cells[layout.DEVICE_USERS] = 0
        cells[layout.DEVICE_MEMORY_SHARES] = 0
        self.device_ids[device_row] = device.id
        self.device_row_by_id[device.id] = device_row
        kind = (model, memory_mib)
        self.device_kinds[kind] = self.device_kinds.get(kind, 0) + 1

    def _drop_devices(self, row: int) -> None:
        tables = self.store.tables
        first = int(tables.nodes[layout.NODE_FIRST_DEVICE, row])
        count = int(tables.nodes[layout.NODE_DEVICE_COUNT, row])
        for device_row in range(first, first + count):
            device_id = self.device_ids[device_row]
            if device_id is not None:
                del self.device_row_by_id[device_id]
            self.device_ids[device_row] = None
            self._drop_kind(device_row)
        tables.devices[:, first : first + count] = 0
        if count:
            heapq.heappush(self._free_device_ranges.setdefault(count, []), first)

    def _drop_kind(self, device_row: int) -> None:
        """One device less of its model and memory (``device_kinds`` counts them)."""
        cells = self.store.tables.devices
        kind = (int(cells[layout.DEVICE_MODEL, device_row]), int(cells[layout.DEVICE_TOTAL_MIB, device_row]))
        self.device_kinds[kind] -= 1
        if not self.device_kinds[kind]:
            del self.device_kinds[kind]


def is_particular(node: Node | None) -> bool:
    """True if a node says more than labels and features, which are compared for all nodes at once."""
    if node is None:
        return False
    return bool(node.taints) or node.unschedulable or node.unreported or node.counted_only
