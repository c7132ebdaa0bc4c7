"""The devices that claims have or may come to have, as quota counts them."""

from collections import Counter
from collections.abc import Iterator, Mapping

from gpufleet.device_selectors.cel_errors import CostExceededError, ExpressionError
from gpufleet.device_selectors.selector import DeviceView, selector
from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.capacity import amounts_taken
from gpufleet.dra_allocation.charged_devices import (
    ChargedChoice,
    ChargedDevice,
    ChargedRequest,
    charged_device,
)
from gpufleet.dra_allocation.claims import DeviceChoice, DeviceClass, ResourceClaim
from gpufleet.dra_allocation.likeness import NAMES_OF_ONE_DEVICE
from gpufleet.dra_allocation.results import RESULTS_MAX, AllocatedDevice, Allocation
from gpufleet.dra_allocation.slices import Device, DeviceId, ResourceSlice
from gpufleet.engine.place.relations.device_claims import DeviceClaims


class ChargedClaims:
    """What each claim has by what the API server says, or the most that it may come to have."""

    def __init__(self, claims: DeviceClaims) -> None:
        self._claims = claims
        self._by_asks: dict[bytes, tuple[ChargedRequest, ...]] = {}
        self._had_by_claim: dict[str, dict[DeviceId, ChargedDevice]] = {}
        self._as_of: tuple[int, int] = (0, 0)

    def kinds_changed(self) -> bool:
        """True if other devices are offered, or other classes are there, than when this was last asked."""
        catalogue = self._claims.catalogue
        now = (catalogue.alike_nodes.kind_changes, catalogue.class_changes)
        if now == self._as_of:
            return False
        self._as_of = now
        self._by_asks.clear()
        known = self._claims.known
        for path in [path for path in self._had_by_claim if path not in known]:
            del self._had_by_claim[path]
        return True

    def of(self, paths: tuple[str, ...]) -> tuple[ChargedRequest, ...]:
        """What each request of these claims has, or may come to have."""
        self.kinds_changed()
        known = (self._claims.known.get(path) for path in paths)
        return tuple(
            request
            for one in known
            if one is not None
            for request in (
                self._asked(one.asks, one.claim)
                if one.allocation is None
                else self._had(one.claim, one.allocation)
            )
        )

    def _had(self, claim: ResourceClaim, allocation: Allocation) -> tuple[ChargedRequest, ...]:
        classes = {
            request.full_name(choice): choice.class_name
            for request in claim.requests
            for choice in request.choices
        }
        before = self._had_by_claim.get(claim.path, {})
        devices = {
            one.id: self._charged(one, classes.get(one.request, ""), before)
            for one in allocation.devices
            if not one.admin_access
        }
        self._had_by_claim[claim.path] = devices
        return tuple((ChargedChoice(one, 1),) for one in devices.values())

    def _charged(
        self, one: AllocatedDevice, class_name: str, before: Mapping[DeviceId, ChargedDevice]
    ) -> ChargedDevice:
        device = self._device(one.id)
        if device is None:
            # A device that left its slice is held all the same, and counts as what it was.
            return before.get(one.id, ChargedDevice(class_name))
        return charged_device(one.id.driver, device, class_name, one.taken)

    def _device(self, named: DeviceId) -> Device | None:
        slices = self._claims.catalogue.slices_of((named.driver, named.pool))
        return next((one for each in slices for one in each.devices if one.name == named.device), None)

    def _asked(self, asks: bytes, claim: ResourceClaim) -> tuple[ChargedRequest, ...]:
        found = self._by_asks.get(asks)
        if found is None:
            found = self._by_asks[asks] = tuple(
                tuple(option for choice in request.choices for option in self._options(choice))
                for request in claim.requests
            )
        return found

    def _options(self, choice: DeviceChoice) -> Iterator[ChargedChoice]:
        """The kinds of devices that a choice may get, with their number. Administrators only look."""
        device_class = self._claims.catalogue.classes.get(choice.class_name)
        if device_class is None or choice.admin_access:
            return
        kinds = self._claims.catalogue.alike_nodes.kinds
        found = {number: Counter(self._matching(one, choice, device_class)) for number, one in kinds.items()}
        for kind in dict.fromkeys(kind for of_slice in found.values() for kind in of_slice):
            yield ChargedChoice(kind, choice.count or self._most_on_a_node(kind, found))

    def _most_on_a_node(self, kind: ChargedDevice, found: Mapping[int, Counter[ChargedDevice]]) -> int:
        """How many devices of a kind a request for all of them gets at most."""
        nodes = self._claims.catalogue.alike_nodes.contents_by_node()
        most = max((sum(found[number][kind] for number in numbers) for numbers in nodes), default=0)
        return min(RESULTS_MAX, most)

    @staticmethod
    def _matching(
        one: ResourceSlice, choice: DeviceChoice, device_class: DeviceClass
    ) -> Iterator[ChargedDevice]:
        expressions = (*device_class.selectors, *choice.selectors)
        for device in one.devices:
            if all(_may_select(expression, one.driver, device) for expression in expressions):
                taken = None
                if device.is_shareable:
                    try:
                        taken = amounts_taken(choice.capacity, device.capacity)
                    except ClaimError:
                        continue
                yield charged_device(one.driver, device, device_class.name, taken)


def _may_select(expression: str, driver: str, device: Device) -> bool:
    """Whether a selector selects the device, or may select another one that is alike."""
    try:
        found = selector(expression)
    except ExpressionError:
        return False
    if found.reads is None or not found.reads.isdisjoint(NAMES_OF_ONE_DEVICE):
        return True
    amounts = {name: has.value for name, has in device.capacity.items()}
    view = DeviceView(driver, device.attributes, amounts, device.is_shareable)
    try:
        return found.verdict(view).is_match
    except CostExceededError:
        return False
