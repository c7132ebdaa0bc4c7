"""What pods are charged for devices that they have or ask for by resource claims.

A claim without devices is charged the most that it may come to have of each resource, so that no choice of
devices exceeds a quota; one that the API server says has devices is charged what these are. A claim that
several pods use is charged for each of them. The charge of a shape is worked out anew when its claims or
the kinds of devices change.
"""

from collections.abc import Callable

import numpy as np

from gpufleet.dra_allocation.charged_devices import ChargedDevice, ChargedRequest
from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.identifiers import QuotaResource
from gpufleet.model.queue import MIG_SLICES
from gpufleet.model.shape import Shape

DEVICES_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
"""The end of the name by which a quota counts devices of a class, as a ResourceQuota does."""

Charged = Callable[[tuple[str, ...]], tuple[ChargedRequest, ...]]


def asks_for_nothing(_paths: tuple[str, ...]) -> tuple[ChargedRequest, ...]:
    """Without claims there are no devices of claims."""
    return ()


class ClaimCharges:
    """What claims are charged, by shape; ``requests_of`` says what claims have or may come to have."""

    def __init__(self, store: TableStore, fleet: Fleet) -> None:
        self.store = store
        self.fleet = fleet
        self.requests_of: Charged = asks_for_nothing
        self._shapes_by_claim: dict[str, dict[int, Shape]] = {}
        self._changed: dict[str, None] = {}
        self._all_changed = False

    def claim_changed(self, path: str) -> None:
        """A claim has other devices, or asks for others."""
        if path in self._shapes_by_claim:
            self._changed[path] = None

    def kinds_changed(self) -> None:
        """Other kinds of devices are offered, or other classes of them are there."""
        self._all_changed = bool(self._shapes_by_claim)

    def take_changed(self) -> dict[int, Shape]:
        """The shapes with claims of which something changed since the last call, by their rows."""
        if not (self._changed or self._all_changed):
            return {}
        paths = list(self._shapes_by_claim) if self._all_changed else list(self._changed)
        self._changed.clear()
        self._all_changed = False
        return {row: shape for path in paths for row, shape in self._shapes_by_claim.get(path, {}).items()}

    def note(self, row: int, shape: Shape) -> None:
        """A shape has this row."""
        for path in shape.relations.device_claims:
            self._shapes_by_claim.setdefault(path, {})[row] = shape

    def forget(self, row: int, shape: Shape) -> None:
        """The shape has the row no more."""
        for path in shape.relations.device_claims:
            rows = self._shapes_by_claim.get(path, {})
            rows.pop(row, None)
            if not rows:
                self._shapes_by_claim.pop(path, None)

    def of(self, shape: Shape, columns: dict[QuotaResource, int]) -> Int64Array:
        """By column, what a pod of the shape is charged for its claims."""
        charges = np.zeros(self.store.tables.shape_charges.shape[1], np.int64)
        if not shape.relations.device_claims:
            return charges
        for request in self.requests_of(shape.relations.device_claims):
            if request:
                charges += np.max([one.count * self._charge(one.device, columns) for one in request], axis=0)
        return charges

    def _charge(self, device: ChargedDevice, columns: dict[QuotaResource, int]) -> Int64Array:
        tables = self.store.tables
        charges = np.zeros(tables.shape_charges.shape[1], np.int64)
        code = None if device.model is None else self.fleet.model_codes.get(device.model)
        price = layout.ONE_PRICE_MILLI
        if device.model is not None:
            price = self.fleet.price_milli_by_model.get(device.model, price)
        amounts = {
            layout.CHARGE_GPU: device.gpu_milli,
            layout.CHARGE_GPU_MEMORY: device.memory_mib,
            # Rounded up as for GPUs: many small shares may not be free.
            layout.CHARGE_COST: -(-device.gpu_milli * price // layout.ONE_PRICE_MILLI),
        }
        for resource, column in columns.items():
            kind = int(tables.quota_columns[layout.QUOTA_KIND, column])
            if resource == MIG_SLICES:
                charges[column] = device.mig_slices
            elif resource == f"{device.class_name}{DEVICES_OF_CLASS}":
                charges[column] = 1
            elif kind == layout.CHARGE_GPU_OF_MODEL:
                of_model = code is not None and code == tables.quota_columns[layout.QUOTA_MODEL, column]
                charges[column] = device.gpu_milli if of_model else 0
            elif kind in amounts:
                charges[column] = amounts[kind]
        return charges
