"""ResourceClaims: what they ask for, and what they have, as ``dra_allocation`` understands them."""

from collections.abc import Iterable
from typing import Protocol

import msgspec

from gpufleet.dra_allocation.claims import (
    Configuration,
    DeviceChoice,
    DeviceConstraint,
    DeviceRequest,
    DeviceToleration,
    ResourceClaim,
)
from gpufleet.dra_allocation.results import AllocatedConfiguration, AllocatedDevice, Allocation
from gpufleet.dra_allocation.slices import EQUAL, EXISTS, DeviceId
from gpufleet.kube.codec import selectors
from gpufleet.kube.codec.field_path import inside, of_object
from gpufleet.kube.codec.resource_slices import read_configurations, read_selectors
from gpufleet.kube.objects import resource_claims as written
from gpufleet.kube.objects.resource_slices import OpaqueConfiguration
from gpufleet.kube.objects.selectors import NodeSelector, NodeSelectorTerm, SelectorRequirement
from gpufleet.model.labels import NodeTerm
from gpufleet.model.model_errors import InputError
from gpufleet.model.quantity import parse_quantity

EXACT_COUNT = "ExactCount"
ALL = "All"
MODES = ("", EXACT_COUNT, ALL)
"""Modes of allocation; none stands for a count."""


class ShareIds(Protocol):
    """Makes the id of a share: another one for each."""

    def __call__(self) -> str:
        """A new UUID."""
        ...


def read_resource_claim(one: written.ResourceClaimObject) -> ResourceClaim:
    """What a claim asks for. Raises ObjectError, naming the field."""
    metadata, devices = one.metadata, one.spec.devices
    with of_object("ResourceClaim", metadata.path), inside("spec.devices"):
        return ResourceClaim(
            metadata.namespace,
            metadata.name,
            tuple(
                _request(request, f"requests[{position}]")
                for position, request in enumerate(devices.requests or ())
            ),
            tuple(
                _constraint(constraint, f"constraints[{position}]")
                for position, constraint in enumerate(devices.constraints)
            ),
            read_configurations(devices.config),
        )


def read_allocation(one: written.ResourceClaimObject) -> Allocation | None:
    """What a claim has; None until it has something. Raises ObjectError, naming the field."""
    allocation = one.status.allocation
    if allocation is None:
        return None
    with of_object("ResourceClaim", one.metadata.path), inside("status.allocation"):
        terms = selectors.node_terms(allocation.node_selector, "nodeSelector")
        if terms is not None and len(terms) != 1:
            field = "nodeSelector.nodeSelectorTerms"
            raise InputError(f"{len(terms)} terms", field=field, expected="exactly one")
        return Allocation(
            tuple(
                _allocated(result, f"devices.results[{position}]")
                for position, result in enumerate(allocation.devices.results)
            ),
            tuple(
                AllocatedConfiguration(
                    config.source,
                    Configuration(config.opaque.driver, bytes(config.opaque.parameters), config.requests),
                )
                for config in allocation.devices.config
                if config.opaque is not None
            ),
            None if terms is None else terms[0],
        )


def write_allocation(allocation: Allocation, share_id: ShareIds) -> written.WrittenAllocation:
    """The allocation as the status of a claim has it."""
    return written.WrittenAllocation(
        written.DeviceAllocation(
            tuple(_result(device, share_id) for device in allocation.devices),
            tuple(
                written.WrittenAllocatedConfiguration(
                    one.source,
                    one.configuration.requests,
                    OpaqueConfiguration(one.configuration.driver, msgspec.Raw(one.configuration.parameters)),
                )
                for one in allocation.configurations
            ),
        ),
        None if allocation.nodes is None else _written_nodes(allocation.nodes),
    )


def _request(request: written.WrittenRequest, field: str) -> DeviceRequest:
    with inside(field):
        if (request.exactly is None) == (not request.first_available):
            raise InputError("no one kind of request", expected="either exactly or firstAvailable")
        if request.exactly is not None:
            return DeviceRequest(request.name, (_choice(request.exactly, "exactly"),))
        choices = tuple(
            _choice(choice, f"firstAvailable[{position}]")
            for position, choice in enumerate(request.first_available)
        )
        return DeviceRequest(request.name, choices)


def _choice(choice: written.WrittenChoice, field: str) -> DeviceChoice:
    with inside(field):
        if choice.derived_attributes:
            problem = "attributes that a request makes of others"
            raise InputError(problem, field="derivedAttributes", expected="attributes of the devices")
        if not choice.device_class_name:
            raise InputError("no class", field="deviceClassName", expected="the name of a DeviceClass")
        requests = {} if choice.capacity is None else choice.capacity.requests
        return DeviceChoice(
            choice.device_class_name,
            choice.name,
            read_selectors(choice.selectors),
            _count(choice),
            bool(choice.admin_access),
            _tolerations(choice.tolerations),
            {
                name: parse_quantity(text, field=f"capacity.requests[{name}]")
                for name, text in requests.items()
            },
        )


def _count(choice: written.WrittenChoice) -> int | None:
    if choice.allocation_mode not in MODES:
        expected = f"{EXACT_COUNT} or {ALL}"
        raise InputError("unknown", field="allocationMode", value=choice.allocation_mode, expected=expected)
    return None if choice.allocation_mode == ALL else choice.count or 1


def _tolerations(listed: Iterable[written.WrittenToleration]) -> tuple[DeviceToleration, ...]:
    found = []
    for position, one in enumerate(listed):
        operator = one.operator or EQUAL
        if operator not in {EQUAL, EXISTS}:
            field = f"tolerations[{position}].operator"
            raise InputError("unknown", field=field, value=operator, expected=f"{EQUAL} or {EXISTS}")
        found.append(DeviceToleration(one.key, operator, one.value, one.effect, one.toleration_seconds))
    return tuple(found)


def _constraint(constraint: written.WrittenConstraint, field: str) -> DeviceConstraint:
    both = (constraint.match_attribute, constraint.distinct_attribute)
    given = [one for one in both if one is not None]
    if len(given) != 1:
        expected = "either matchAttribute or distinctAttribute"
        raise InputError("no one kind of constraint", field=field, expected=expected)
    return DeviceConstraint(given[0], constraint.requests, constraint.distinct_attribute is not None)


def _allocated(result: written.WrittenResult, field: str) -> AllocatedDevice:
    with inside(field):
        return AllocatedDevice(
            result.request,
            DeviceId(result.driver, result.pool, result.device),
            bool(result.admin_access),
            _tolerations(result.tolerations),
            result.binding_conditions,
            result.binding_failure_conditions,
            result.share_id is not None,
            {
                name: parse_quantity(text, field=f"consumedCapacity[{name}]")
                for name, text in result.consumed_capacity.items()
            },
        )


def _result(device: AllocatedDevice, share_id: ShareIds) -> written.WrittenResult:
    return written.WrittenResult(
        request=device.request,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=True if device.admin_access else None,
        tolerations=tuple(
            written.WrittenToleration(one.key, one.operator, one.value, one.effect, one.toleration_seconds)
            for one in device.tolerations
        ),
        binding_conditions=device.binding_conditions,
        binding_failure_conditions=device.binding_failure_conditions,
        share_id=share_id() if device.is_share else None,
        consumed_capacity={name: str(amount) for name, amount in device.taken.items()},
    )


def _written_nodes(term: NodeTerm) -> NodeSelector:
    return NodeSelector(
        (
            NodeSelectorTerm(
                tuple(
                    SelectorRequirement(one.key, one.operator.value, one.values) for one in term.expressions
                ),
                tuple(
                    SelectorRequirement(selectors.NODE_NAME_FIELD, one.operator.value, (one.name,))
                    for one in term.fields
                ),
            ),
        )
    )
