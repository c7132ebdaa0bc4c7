"""ResourceSlices, DeviceClasses and DeviceTaintRules, as ``dra_allocation`` understands them.

What the API server refuses is refused here too: a slice that cannot be read is left out by its reader, and
its pool, of which a slice is missing then, gives no device.
"""

from collections.abc import Iterable

from gpufleet.device_selectors.selector import Attribute
from gpufleet.device_selectors.values import Version
from gpufleet.dra_allocation.capacity import AmountRange, DeviceCapacity, RequestPolicy
from gpufleet.dra_allocation.claims import Configuration, DeviceClass
from gpufleet.dra_allocation.slices import (
    CounterSet,
    CounterUse,
    Device,
    DeviceTaint,
    NodeReach,
    PoolPart,
    ResourceSlice,
)
from gpufleet.dra_allocation.taint_rules import DeviceTaintRule
from gpufleet.kube.codec import selectors
from gpufleet.kube.codec.field_path import inside, of_object
from gpufleet.kube.objects import resource_slices as written
from gpufleet.kube.objects.selectors import NodeSelector
from gpufleet.model.labels import NodeTerm
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import Quantity, parse_quantity

DEVICES_MOST = 128
"""Of one slice, as the API server has it."""

ATTRIBUTE_KINDS = "one of int, bool, string, version, ints, bools, strings, versions"
"""The kinds of values that attributes have."""


def read_resource_slice(one: written.ResourceSliceObject) -> ResourceSlice:
    """The slice as a value. Raises ObjectError, naming the field."""
    spec = one.spec
    with of_object("ResourceSlice", one.metadata.name), inside("spec"):
        by_device = bool(spec.per_device_node_selection)
        if len(spec.devices) > DEVICES_MOST:
            expected = f"at most {DEVICES_MOST}, the others in further slices of the pool"
            raise InputError(f"{len(spec.devices)} devices", field="devices", expected=expected)
        return ResourceSlice(
            one.metadata.name,
            spec.driver,
            PoolPart(spec.pool.name, spec.pool.generation, spec.pool.resource_slice_count),
            None if by_device else _reach(spec.node_name, spec.all_nodes, spec.node_selector),
            tuple(
                _device(device, by_device, f"devices[{position}]")
                for position, device in enumerate(spec.devices)
            ),
            tuple(
                CounterSet(one.name, _counters(one.counters, f"sharedCounters[{position}].counters"))
                for position, one in enumerate(spec.shared_counters)
            ),
            bool(spec.skip_node_operations),
        )


def read_device_class(one: written.DeviceClassObject) -> DeviceClass:
    """The class as a value. Raises ObjectError, naming the field."""
    with of_object("DeviceClass", one.metadata.name), inside("spec"):
        return DeviceClass(
            one.metadata.name,
            read_selectors(one.spec.selectors),
            read_configurations(one.spec.config),
            one.spec.extended_resource_name or "",
        )


def read_taint_rule(one: written.DeviceTaintRuleObject) -> DeviceTaintRule | None:
    """The rule as a value; None for one without a selector, which taints nothing."""
    selector, taint = one.spec.device_selector, one.spec.taint
    if selector is None:
        return None
    # The server writes none of these as "".
    found = (selector.driver or None, selector.pool or None, selector.device or None)
    return DeviceTaintRule(DeviceTaint(taint.key, taint.value, taint.effect), *found)


def read_selectors(listed: Iterable[written.WrittenSelector]) -> tuple[str, ...]:
    """The expressions of selectors."""
    found = []
    for position, one in enumerate(listed):
        if one.cel is None:
            field = f"selectors[{position}]"
            raise InputError("a selector that is not known here", field=field, expected="cel")
        found.append(one.cel.expression)
    return tuple(found)


def read_configurations(listed: Iterable[written.WrittenConfiguration]) -> tuple[Configuration, ...]:
    """Configurations for drivers."""
    found = []
    for position, one in enumerate(listed):
        if one.opaque is None:
            field = f"config[{position}]"
            raise InputError("a configuration that is not known here", field=field, expected="opaque")
        found.append(Configuration(one.opaque.driver, bytes(one.opaque.parameters), one.requests))
    return tuple(found)


def _device(device: written.WrittenDevice, has_own_reach: bool, field: str) -> Device:
    with inside(field):
        own = _reach(device.node_name, device.all_nodes, device.node_selector) if has_own_reach else None
        return Device(
            device.name,
            {name: _attribute(one, f"attributes[{name}]") for name, one in device.attributes.items()},
            {name: _capacity(one, f"capacity[{name}]") for name, one in device.capacity.items()},
            tuple(
                CounterUse(
                    use.counter_set,
                    _counters(use.counters, f"consumesCounters[{position}].counters"),
                    use.compatibility_groups,
                )
                for position, use in enumerate(device.consumes_counters)
            ),
            own,
            tuple(DeviceTaint(one.key, one.value, one.effect) for one in device.taints),
            bool(device.binds_to_node),
            device.binding_conditions,
            device.binding_failure_conditions,
            bool(device.allow_multiple_allocations),
        )


def _reach(node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> NodeReach:
    return NodeReach(node_name or "", bool(all_nodes), _term(selector))


def _term(selector: NodeSelector | None) -> NodeTerm | None:
    terms = selectors.node_terms(selector, "nodeSelector")
    if terms is None:
        return None
    if len(terms) != 1:
        field = "nodeSelector.nodeSelectorTerms"
        raise InputError(f"{len(terms)} terms", field=field, expected="exactly one")
    return terms[0]


def _attribute(one: written.WrittenAttribute, field: str) -> Attribute:
    scalars: tuple[Attribute | None, ...] = (one.int_value, one.bool_value, one.string)
    lists: tuple[Attribute, ...] = (list(one.ints), list(one.bools), list(one.strings))
    values = [value for value in scalars if value is not None]
    # An absent list is read as an empty one, which is no value then.
    values += [value for value in lists if value]
    try:
        if one.version is not None:
            values.append(Version.parse(one.version))
        if one.versions:
            values.append([Version.parse(text) for text in one.versions])
    except ValueError as error:
        raise InputError(str(error), field=field, expected="a semantic version") from error
    if len(values) != 1:
        raise InputError(f"{len(values)} values", field=field, expected=f"exactly {ATTRIBUTE_KINDS}")
    return values[0]


def _capacity(one: written.WrittenCapacity, field: str) -> DeviceCapacity:
    with inside(field):
        value = parse_quantity(one.value, field="value")
        if one.request_policy is None:
            return DeviceCapacity(value)
        with inside("requestPolicy"):
            return DeviceCapacity(value, _policy(one.request_policy))


def _policy(one: written.WrittenPolicy) -> RequestPolicy:
    values = tuple(parse_quantity(text, field="validValues") for text in one.valid_values)
    if one.valid_range is None:
        return RequestPolicy(_amount(one.default, "default"), values)
    with inside("validRange"):
        least = _amount(one.valid_range.min, "min")
        if least is None:
            raise InputError("no minimum", field="min", expected="the least amount that can be taken")
        most, step = _amount(one.valid_range.max, "max"), _amount(one.valid_range.step, "step")
        return RequestPolicy(_amount(one.default, "default"), values, AmountRange(least, most, step))


def _amount(text: str | None, field: str) -> Quantity | None:
    return None if text is None else parse_quantity(text, field=field)


def _counters(counters: dict[str, written.WrittenCounter], field: str) -> dict[str, Quantity]:
    return {name: _amount_of_counter(one.value, f"{field}[{name}]") for name, one in counters.items()}


def _amount_of_counter(text: str, field: str) -> Quantity:
    """An amount that is not negative: the API server takes one that is, and it would give others more."""
    amount = parse_quantity(text, field=field)
    if amount.nano < 0:
        raise InputError("a negative amount", field=field, value=text, expected="0 or more")
    return amount
