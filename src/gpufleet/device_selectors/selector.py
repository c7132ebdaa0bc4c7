"""Selectors of devices: what a DeviceClass or a claim says of the devices that it takes.

A selector is compiled once; its verdict on a device is kept by the device's content, so that a thousand equal
GPUs are looked at once. Environment: Kubernetes, dynamic-resource-allocation/cel/compile.go.
"""

import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from gpufleet.device_selectors.cel_errors import EvaluationError, ExpressionError
from gpufleet.device_selectors.checking import Environment, checked
from gpufleet.device_selectors.parsing import parsed
from gpufleet.device_selectors.planning import planned
from gpufleet.device_selectors.reads import NeededValue, names_read, values_needed
from gpufleet.device_selectors.steps import Frame, Step
from gpufleet.device_selectors.types import ANY, BOOL, DYN, QUANTITY, STRING, Type, map_of
from gpufleet.device_selectors.values import DefaultMap, Value, Version
from gpufleet.model.quantity import Quantity

COST_MAX = 1_000_000
"""Of one evaluation (CELSelectorExpressionMaxCost); above it the selector fails on the device."""

SELECTORS_KEPT_MAX = 1024
"""Compiled selectors that are kept: more than classes and templates of a cluster have."""

VERDICTS_KEPT_MAX = 1024
"""Of one selector: it reads few attributes, and of these a cluster has few values."""

_DEVICE = Type("kubernetes.DRADevice")

Attribute = bool | int | str | Version | Sequence[bool | int | str | Version]
"""The value of an attribute: one, or a list of one type where lists are on."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """A device as a selector sees it. Names without a domain are in the driver's."""

    driver: str
    attributes: Mapping[str, Attribute]
    capacity: Mapping[str, Quantity]
    allow_multiple_allocations: bool = False

    def variable(self) -> dict[str, Value]:
        """What ``device`` stands for."""
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.allow_multiple_allocations,
            "attributes": self._by_domain(self.attributes),
            "capacity": self._by_domain(self.capacity),
        }

    def _by_domain(self, values: Mapping[str, Value]) -> DefaultMap:
        domains = DefaultMap()
        for name, value in values.items():
            domain, slash, identifier = name.partition("/")
            inner = domains.setdefault(domain if slash else self.driver, {})
            inner[identifier if slash else name] = value
        return domains


@dataclass(frozen=True, slots=True)
class Features:
    """Which features of the cluster's DRA are on, as far as selectors see them."""

    has_consumable_capacity: bool = True
    has_list_attributes: bool = False


DEFAULT_FEATURES = Features()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a selector says of a device, and what saying it cost.

    ``error`` is not empty where it has no value for the device: then the claim cannot be allocated at all.
    """

    is_match: bool
    cost: int
    error: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """A compiled selector."""

    expression: str
    _step: Step
    reads: frozenset[str] | None = None
    """Names of the attributes and capacities that it reads; None where it may read any."""
    needs: tuple[NeededValue, ...] = ()
    """What every device has that it chooses."""

    _known: dict[Hashable, Verdict] = field(default_factory=dict)
    """Verdicts by all that it can read of a device: cards of one model differ in what no selector reads."""

    def verdict(self, device: DeviceView, cost_max: int = COST_MAX) -> Verdict:
        """Ask it of a device. Raises CostExceededError above the limit."""
        content = self._content(device) if cost_max == COST_MAX else None
        known = None if content is None else self._known.get(content)
        if known is None:
            known = self._found(device, cost_max)
            if content is not None and len(self._known) < VERDICTS_KEPT_MAX:
                self._known[content] = known
        return known

    def _content(self, device: DeviceView) -> Hashable | None:
        """What it reads of a device; None where that is not known, or has no hash."""
        if self.reads is None:
            return None
        found: list[Hashable] = [device.driver, device.allow_multiple_allocations]
        for name, value in device.attributes.items():
            if name.rpartition("/")[2] in self.reads:
                if not isinstance(value, bool | int | str | Version):
                    return None
                # 1 and true are two values, and equal to Python.
                found.append((name, type(value), value))
        for name, amount in device.capacity.items():
            if name.rpartition("/")[2] in self.reads:
                found.append((name, Quantity, amount.nano, amount.notation))
        return tuple(found)

    def _found(self, device: DeviceView, cost_max: int) -> Verdict:
        """Ask it anew."""
        frame = Frame({"device": device.variable()}, cost_max)
        try:
            found = self._step(frame)
        except EvaluationError as error:
            return Verdict(is_match=False, cost=frame.cost, error=str(error))
        if type(found) is not bool:
            # The words are those of Kubernetes' own scheduler (cel/compile.go), by which people search.
            words = f"CEL result of type {type(found).__name__} could not be converted to bool"
            return Verdict(is_match=False, cost=frame.cost, error=words)
        return Verdict(found, frame.cost)


@functools.lru_cache(SELECTORS_KEPT_MAX)
def selector(expression: str, features: Features = DEFAULT_FEATURES) -> Selector:
    """Compile a selector. Raises ExpressionError with the place of what is wrong."""
    attribute = DYN if features.has_list_attributes else ANY
    tree = parsed(expression)
    found = checked(tree, _environment(features, attribute))
    if found.type not in {BOOL, attribute}:
        raise ExpressionError(f"must evaluate to bool or the unknown type, not {found.type}")
    return Selector(expression, planned(found), names_read(tree), values_needed(tree))


def _environment(features: Features, attribute: Type) -> Environment:
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, attribute)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    if features.has_consumable_capacity:
        fields["allowMultipleAllocations"] = BOOL
    without = frozenset() if features.has_list_attributes else frozenset(("includes",))
    return Environment({"device": _DEVICE}, {_DEVICE.name: fields}, without)
