"""The columns of quota: which named resource stands where, and what a pod's charge in it follows from.

A resource has a column as long as some queue names it; a column whose name is not used any more goes to
the next name. What follows from a shape alone (CPU, memory, extended resources, MIG slices) is
worked out once a shape; what follows from the devices given is left to ``charge``, which finds here
only the least that it can come to. ``claim_charges`` adds what claims of devices are charged.
"""

import re
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.numbering import Numbering
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.engine_errors import EventError
from gpufleet.engine.queueing.claim_charges import ClaimCharges
from gpufleet.engine.state.bounds import check_range
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.identifiers import GpuModelName, QuotaResource
from gpufleet.model.queue import COST, CPU, GPU, GPU_MEMORY, GPU_MODEL_PREFIX, MEMORY, MIG_SLICES
from gpufleet.model.resource_names import EPHEMERAL_STORAGE, GPU_RESOURCES, is_extended, is_huge_pages
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape

RESOURCES_MAX = 64
"""How many resources the queues of a fleet may name together."""

CHARGE_MAX = 1 << 45
"""No pod is charged more of anything: 32 TiB are more than any machine has, and the sums of a fleet
stay within 64 bits.
"""

PRICE_MILLI_MAX = 1_000_000_000
"""A million times the price of the GPU that costs 1: charges by cost stay below ``CHARGE_MAX``."""
GPU_KINDS = {
    GPU: layout.CHARGE_GPU,
    GPU_MEMORY: layout.CHARGE_GPU_MEMORY,
    COST: layout.CHARGE_COST,
}
# As in nvidia.com/mig-3g.40gb, or nvidia.com/mig-1c.3g.40gb for a compute instance of it.
MIG_PROFILE = re.compile(r"^nvidia\.com/mig-(?:(\d+)c\.)?(\d+)g\.")


class DeviceKind(NamedTuple):
    """What a charge depends on of a device: the code of its model, and its memory in MiB or NOT_SET."""

    model: int
    total_mib: int


def check_resource(resource: QuotaResource, field: str) -> None:
    """Refuse a name that stands for nothing that is ever charged."""
    if resource in GPU_RESOURCES:
        raise EventError("whole GPUs have a name of their own", field=field, value=resource, expected=GPU)
    fixed = (GPU, GPU_MEMORY, MIG_SLICES, CPU, MEMORY, COST, EPHEMERAL_STORAGE)
    of_model = resource.startswith(GPU_MODEL_PREFIX) and len(resource) > len(GPU_MODEL_PREFIX)
    if not (resource in fixed or of_model or is_extended(resource) or is_huge_pages(resource)):
        expected = f"one of {', '.join(fixed)}, {GPU_MODEL_PREFIX}MODEL, or an extended resource"
        raise EventError("no resource of quota", field=field, value=resource, expected=expected)


def mig_slices(resources: Resources) -> int:
    """Compute slices of the MIG profiles that are asked for by name."""
    # A compute instance (1c.3g) takes its own slices only, which is the first number.
    matches = ((MIG_PROFILE.match(name), count) for name, count in resources.other)
    return sum(int(match[1] or match[2]) * count for match, count in matches if match)


def amount_of(resource: QuotaResource, resources: Resources) -> int:
    """How much of a resource that does not depend on the device a pod asks for."""
    if resource == CPU:
        return resources.cpu_milli
    if resource == MEMORY:
        return resources.memory_bytes
    if resource == EPHEMERAL_STORAGE:
        return resources.ephemeral_storage_bytes
    if resource == MIG_SLICES:
        return mig_slices(resources)
    return dict(resources.other).get(resource, 0)


def gpu_milli_of(gpu: GpuRequest, total_mib: int) -> int:
    """What one device with this memory (NOT_SET: not known) is charged for, in thousandths of it."""
    if gpu.gpu_milli == WHOLE_GPU_MILLI or gpu.memory_mib is None:
        return gpu.gpu_milli
    # By memory alone, on a card of unknown memory: it may be all of it.
    if total_mib <= 0:
        return gpu.gpu_milli or WHOLE_GPU_MILLI
    # Rounded up: shares of a third each must not seem to leave a thousandth.
    by_memory = -(-gpu.memory_mib * WHOLE_GPU_MILLI // total_mib)
    return min(WHOLE_GPU_MILLI, max(gpu.gpu_milli, by_memory))


def memory_mib_of(gpu: GpuRequest, total_mib: int) -> int:
    """What memory one device with this memory is charged for."""
    if gpu.gpu_milli == WHOLE_GPU_MILLI:
        # NOT_SET is negative; nothing is charged for memory that is not known.
        return max(0, total_mib)
    if gpu.memory_mib is not None:
        return gpu.memory_mib
    return max(0, total_mib) * gpu.gpu_milli // WHOLE_GPU_MILLI


class QuotaResources:
    """Gives resources their columns and shapes their charges."""

    def __init__(self, store: TableStore, fleet: Fleet, shapes: ShapeTable) -> None:
        self.store = store
        self.fleet = fleet
        self.shapes = shapes
        self._columns: Numbering[QuotaResource] = Numbering()
        self._kinds: tuple[DeviceKind, ...] = ()
        self.claims = ClaimCharges(store, fleet)

    @property
    def column_by_name(self) -> dict[QuotaResource, int]:
        """The resources that some queue names, with their columns."""
        return self._columns.number_by_value

    def name_at(self, column: int) -> QuotaResource:
        """The resource that a column stands for."""
        return next(name for name, number in self.column_by_name.items() if number == column)

    def users(self, resource: QuotaResource) -> int:
        """How many queues name the resource."""
        return self._columns.users(resource)

    def check_room(self, named: set[QuotaResource], dropped: set[QuotaResource]) -> None:
        """Refuse to name more resources than there are columns for; ``dropped`` may be given up for them."""
        known = set(self.column_by_name)
        check_range(len((known - dropped) | named), 0, RESOURCES_MAX, "quotas: resources named by all queues")

    def hold(self, resource: QuotaResource) -> int:
        """The column of a resource that one more queue names."""
        is_new = resource not in self.column_by_name
        column = self._columns.hold(resource)
        if is_new:
            # Arrays grow before the column is written, since kernels read every column up to the last.
            self.store.make_queue_room(0, column + 1)
            self._open(column, resource)
        return column

    def drop(self, resource: QuotaResource) -> None:
        """A queue no longer names the resource."""
        column = self.column_by_name[resource]
        self._columns.drop(column)
        if resource not in self.column_by_name:
            # The number is given out again, and the next resource must not begin with the charges of this
            # one.
            self.store.tables.quota_columns[:, column] = layout.NOT_SET
            self.store.tables.shape_charges[:, column] = 0
            self.store.tables.shape_claims[:, column] = 0

    def _open(self, column: int, resource: QuotaResource) -> None:
        kind = GPU_KINDS.get(resource, layout.CHARGE_BY_SHAPE)
        model = layout.NOT_SET
        if resource.startswith(GPU_MODEL_PREFIX):
            kind = layout.CHARGE_GPU_OF_MODEL
            model = self.fleet.model_code(GpuModelName(resource.removeprefix(GPU_MODEL_PREFIX)))
        cells = self.store.tables.quota_columns
        cells[layout.QUOTA_KIND, column] = kind
        cells[layout.QUOTA_MODEL, column] = model

    def kinds_changed(self) -> bool:
        """True if other kinds of devices are in the fleet than when this was last asked."""
        # Sorted, because kinds come in the order of nodes, which says nothing.
        kinds = tuple(sorted(DeviceKind(*kind) for kind in self.fleet.device_kinds))
        changed = kinds != self._kinds
        self._kinds = kinds
        return changed

    def write_all(self) -> None:
        """The charges of every shape in use, by every column."""
        self.claims.take_changed()
        for row, shape in enumerate(self.shapes.shapes):
            if shape is not None:
                self.write(row, shape)

    def begin(self, row: int, shape: Shape) -> None:
        """A shape came."""
        self.claims.note(row, shape)
        self.write(row, shape)

    def write(self, row: int, shape: Shape) -> None:
        """The charges of one shape: exact, or the least where they depend on the device."""
        tables = self.store.tables
        of_claims = self.claims.of(shape, self.column_by_name)
        tables.shape_charges[row] = self.least(shape) + of_claims
        tables.shape_claims[row] = of_claims

    def least(self, shape: Shape) -> Int64Array:
        """By column, the least that a pod of the shape is charged wherever it runs, but for its claims."""
        least = np.zeros(self.store.tables.shape_charges.shape[1], np.int64)
        for resource, column in self.column_by_name.items():
            # Bounded here, so that sums in kernels stay within 64 bits.
            least[column] = min(CHARGE_MAX, amount_of(resource, shape.resources))
        if shape.gpu.count:
            # With no device that fits, the pod cannot run; it still is charged something where quota is asked
            # about it.
            accepted = self.accepted(shape) or [self._likely(shape)]
            least += np.min([self.gpu_charges(shape.gpu, kind) for kind in accepted], axis=0)
        return least

    def accepted(self, shape: Shape) -> list[DeviceKind]:
        """The kinds of devices in the fleet that the shape accepts by their model."""
        models = {self.fleet.model_codes.get(model) for model in shape.gpu.models}
        return [kind for kind in self._kinds if not models or kind.model in models]

    def _likely(self, shape: Shape) -> DeviceKind:
        """What to charge for while the fleet has no device that the shape accepts."""
        codes = [self.fleet.model_codes.get(model, layout.NOT_SET) for model in shape.gpu.models]
        return DeviceKind(codes[0] if len(codes) == 1 else layout.NOT_SET, layout.NOT_SET)

    def gpu_charges(self, gpu: GpuRequest, kind: DeviceKind) -> Int64Array:
        """By column, what the GPUs asked for are charged if all of them are of this kind."""
        tables = self.store.tables
        charges = np.zeros(tables.shape_charges.shape[1], np.int64)
        milli = gpu_milli_of(gpu, kind.total_mib)
        price = (
            layout.ONE_PRICE_MILLI if kind.model == layout.NOT_SET else int(tables.model_prices[kind.model])
        )
        amounts = {
            layout.CHARGE_GPU: milli,
            layout.CHARGE_GPU_MEMORY: memory_mib_of(gpu, kind.total_mib),
            # Rounded up like amounts of memory: many small shares may not be free.
            layout.CHARGE_COST: -(-milli * price // layout.ONE_PRICE_MILLI),
        }
        for column in self.column_by_name.values():
            of = int(tables.quota_columns[layout.QUOTA_KIND, column])
            model = int(tables.quota_columns[layout.QUOTA_MODEL, column])
            if of == layout.CHARGE_GPU_OF_MODEL and model == kind.model:
                charges[column] = milli * gpu.count
            elif of in amounts:
                charges[column] = amounts[of] * gpu.count
        return charges
