"""Which devices a choice may have, whatever else is chosen: selectors, taints, nodes, amounts.

Verdicts are found when they are asked for: a selector that has no value for a device makes its claim fail
only where the search comes to that device, as in Kubernetes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpufleet.device_selectors.cel_errors import CostExceededError, ExpressionError
from gpufleet.device_selectors.selector import DEFAULT_FEATURES, Features, selector
from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.capacity import amounts_taken
from gpufleet.dra_allocation.claims import DeviceChoice, DeviceClass, DeviceRequest, ResourceClaim
from gpufleet.dra_allocation.pools import Candidate
from gpufleet.dra_allocation.slices import REPELLING, DeviceTaint
from gpufleet.model.quantity import Quantity


@dataclass(slots=True, eq=False)
class ChoiceMatcher:
    """A choice of a request, and what is known of devices for it."""

    claim: ResourceClaim
    request: DeviceRequest
    choice: DeviceChoice
    device_class: DeviceClass
    features: Features = DEFAULT_FEATURES
    verdicts: dict[Candidate, bool] = field(default_factory=dict)
    """What its selectors said of devices; choices with the same selectors may share it."""

    _amounts: dict[Candidate, dict[str, Quantity] | None] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The claim and the request, for messages."""
        return f"claim {self.claim.path}, request {self.request.full_name(self.choice)}"

    def matches(self, candidate: Candidate) -> bool:
        """True if the device is what the class and the choice select, and the node reaches it.

        Raises ClaimError where a selector cannot be read, or has no value for the device.
        """
        known = self.verdicts.get(candidate)
        if known is None:
            known = self.verdicts[candidate] = self._selects(candidate) and candidate.is_reached
        return known

    def amounts(self, candidate: Candidate) -> Mapping[str, Quantity] | None:
        """What the choice takes of the device's capacity; None where the device cannot serve it."""
        if not candidate.device.capacity and not self.choice.capacity:
            return {}
        if candidate not in self._amounts:
            try:
                found = amounts_taken(self.choice.capacity, candidate.device.capacity)
            except ClaimError as error:
                where = f"{self.place}, device {'/'.join(candidate.id)}"
                raise ClaimError(
                    error.problem,
                    field=error.field,
                    value=error.value,
                    expected=error.expected,
                    where=where,
                ) from error
            self._amounts[candidate] = found
        return self._amounts[candidate]

    def could_serve(self, candidate: Candidate) -> bool:
        """True if the device, with nothing of it taken, has the capacity that the choice takes."""
        amounts, has = self.amounts(candidate), candidate.device.capacity
        return amounts is not None and all(one.nano <= has[name].value.nano for name, one in amounts.items())

    def tolerates(self, candidate: Candidate) -> bool:
        """True if no taint keeps the choice from the device."""
        return all(self._bears(taint) for taint in candidate.device.taints)

    def taints_against(self, candidate: Candidate) -> list[DeviceTaint]:
        """The taints that keep the choice from the device."""
        return [taint for taint in candidate.device.taints if not self._bears(taint)]

    def _bears(self, taint: DeviceTaint) -> bool:
        return taint.effect not in REPELLING or any(one.tolerates(taint) for one in self.choice.tolerations)

    def selectors_against(self, candidate: Candidate) -> list[tuple[str, str]]:
        """Where the selectors stand that do not select the device, with each of them. Raises ClaimError."""
        return [
            (where, expression)
            for where, expression in self._selectors()
            if not self._verdict(expression, candidate, where)
        ]

    def _selects(self, candidate: Candidate) -> bool:
        return all(self._verdict(expression, candidate, where) for where, expression in self._selectors())

    def _selectors(self) -> Iterator[tuple[str, str]]:
        for expression in self.device_class.selectors:
            yield f"class {self.device_class.name}", expression
        for expression in self.choice.selectors:
            yield self.place, expression

    def _verdict(self, expression: str, candidate: Candidate, where: str) -> bool:
        try:
            found = selector(expression, self.features).verdict(candidate.view)
        except ExpressionError as error:
            raise ClaimError(
                "a selector that cannot be read", value=expression, expected=str(error), where=where
            ) from error
        except CostExceededError as error:
            raise ClaimError(str(error), field="selectors", value=expression, where=where) from error
        if found.error:
            problem = f"a selector fails on device {'/'.join(candidate.id)} ({found.error})"
            expected = "a selector that has a value for every device: attributes may be missing"
            raise ClaimError(problem, field="selectors", value=expression, expected=expected, where=where)
        return found.is_match
