"""What was found, as the status of a claim says it: devices, configurations, nodes."""

from collections.abc import Sequence

from gpufleet.dra_allocation.claims import Configuration, DeviceChoice, DeviceRequest, ResourceClaim
from gpufleet.dra_allocation.results import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocatedConfiguration,
    AllocatedDevice,
    Allocation,
)
from gpufleet.dra_allocation.search import Found
from gpufleet.model.labels import NodeNameRequirement, NodeTerm, Operator


def allocation_of(claim: ResourceClaim, found: Sequence[Sequence[Found]], node_name: str) -> Allocation:
    """The allocation of a claim; ``found`` has the devices of each of its requests."""
    flat = [one for devices in found for one in devices]
    chosen = [(devices[0].choice.matcher.request, devices[0].choice.matcher.choice) for devices in found]
    return Allocation(
        tuple(_device(one) for one in flat),
        tuple(_whole(one, chosen) for one in (*_of_classes(found), *_of_claim(claim, chosen))),
        _nodes(flat, node_name),
    )


def _device(found: Found) -> AllocatedDevice:
    matcher, device = found.choice.matcher, found.candidate.device
    # A device that is held whole gives all of its capacity, so no amounts are written down.
    taken = matcher.amounts(found.candidate) if device.is_shareable else None
    return AllocatedDevice(
        matcher.request.full_name(matcher.choice),
        found.candidate.id,
        matcher.choice.admin_access,
        matcher.choice.tolerations,
        device.binding_conditions,
        device.binding_failure_conditions,
        device.is_shareable,
        taken or {},
    )


def _of_classes(found: Sequence[Sequence[Found]]) -> list[AllocatedConfiguration]:
    """The configurations of each class once, for all requests that got devices of it."""
    names: dict[str, list[str]] = {}
    classes = {}
    for devices in found:
        matcher = devices[0].choice.matcher
        classes[matcher.device_class.name] = matcher.device_class
        requests = names.setdefault(matcher.device_class.name, [])
        requests.append(matcher.request.full_name(matcher.choice))
    return [
        AllocatedConfiguration(FROM_CLASS, Configuration(one.driver, one.parameters, tuple(names[name])))
        for name, device_class in classes.items()
        for one in device_class.configurations
    ]


def _of_claim(
    claim: ResourceClaim, chosen: Sequence[tuple[DeviceRequest, DeviceChoice]]
) -> list[AllocatedConfiguration]:
    # A configuration may name a request, which stands for all of its choices, or one choice of it.
    names = {name for request, choice in chosen for name in (request.name, request.full_name(choice))}
    return [
        AllocatedConfiguration(FROM_CLAIM, one)
        for one in claim.configurations
        if not one.requests or not names.isdisjoint(one.requests)
    ]


def _whole(
    one: AllocatedConfiguration, chosen: Sequence[tuple[DeviceRequest, DeviceChoice]]
) -> AllocatedConfiguration:
    """The configuration, without names of requests where they are all."""
    named = one.configuration.requests
    if not all(request.name in named or request.full_name(choice) in named for request, choice in chosen):
        return one
    configuration = Configuration(one.configuration.driver, one.configuration.parameters)
    return AllocatedConfiguration(one.source, configuration)


def _nodes(found: Sequence[Found], node_name: str) -> NodeTerm | None:
    """Where the devices can be used: on this node if one is local to it, else where their slices say."""
    for one in found:
        if one.candidate.reach.node_name or one.candidate.device.binds_to_node:
            return NodeTerm((), (NodeNameRequirement(Operator.IN, node_name),))
    terms = [one.candidate.reach.term for one in found if one.candidate.reach.term is not None]
    expressions = dict.fromkeys(one for term in terms for one in term.expressions)
    fields = dict.fromkeys(one for term in terms for one in term.fields)
    return NodeTerm(tuple(expressions), tuple(fields)) if expressions or fields else None
