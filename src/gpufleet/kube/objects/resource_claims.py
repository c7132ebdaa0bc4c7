"""ResourceClaims (``resource.k8s.io/v1``) as written; ``codec.resource_claims`` says what they mean."""

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.resource_slices import OpaqueConfiguration, WrittenConfiguration, WrittenSelector
from gpufleet.kube.objects.selectors import NodeSelector
from gpufleet.kube.objects.structure import Structure


class WrittenToleration(Structure, frozen=True):
    """A toleration of taints of devices."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequests(Structure, frozen=True):
    """How much of a device is asked for."""

    requests: dict[str, str] = msgspec.field(default_factory=dict)


class DerivedAttribute(Structure, frozen=True):
    """An attribute that a request makes of others."""

    name: str = ""
    expression: str = ""


class WrittenChoice(Structure, frozen=True):
    """Devices of one class."""

    device_class_name: str = ""
    name: str = ""
    selectors: tuple[WrittenSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[WrittenToleration, ...] = ()
    capacity: CapacityRequests | None = None
    derived_attributes: tuple[DerivedAttribute, ...] = ()


class WrittenRequest(Structure, frozen=True):
    """A request: exactly one choice, or the first that can be had."""

    name: str
    exactly: WrittenChoice | None = None
    first_available: tuple[WrittenChoice, ...] = ()


class WrittenConstraint(Structure, frozen=True):
    """A condition on attributes of several devices."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Structure, frozen=True):
    """The devices that are asked for. The server writes ``null`` where it is none."""

    requests: tuple[WrittenRequest, ...] | None = None
    constraints: tuple[WrittenConstraint, ...] = ()
    config: tuple[WrittenConfiguration, ...] = ()


class ResourceClaimSpec(Structure, frozen=True):
    """What a claim asks for."""

    devices: DeviceClaim = DeviceClaim()


class WrittenResult(Structure, frozen=True, kw_only=True):
    """A device that a claim has."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    tolerations: tuple[WrittenToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: dict[str, str] = msgspec.field(default_factory=dict)


class WrittenAllocatedConfiguration(Structure, frozen=True):
    """A configuration of an allocation, from the class or from the claim."""

    source: str
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceAllocation(Structure, frozen=True):
    """The devices of an allocation."""

    results: tuple[WrittenResult, ...] = ()
    config: tuple[WrittenAllocatedConfiguration, ...] = ()


class WrittenAllocation(Structure, frozen=True):
    """What a claim has. ``node_selector`` is None where every node can use it."""

    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class Consumer(Structure, frozen=True):
    """What may use a claim: a pod."""

    resource: str
    name: str
    uid: str
    api_group: str = ""


class DeviceCondition(Structure, frozen=True):
    """What a driver says of a device that a claim has."""

    type: str
    status: str = ""
    message: str = ""


class DeviceStatus(Structure, frozen=True):
    """A device that a claim has, as its driver sees it."""

    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[DeviceCondition, ...] = ()


class ResourceClaimStatus(Structure, frozen=True):
    """What a claim has, and which pods may use it. ``allocation`` is None until it has something."""

    allocation: WrittenAllocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()


class ClaimMetadata(Metadata, frozen=True):
    """The metadata of a claim, with what has to be gone before it is deleted."""

    finalizers: tuple[str, ...] = ()


class ResourceClaimObject(Structure, frozen=True):
    """A claim of devices."""

    metadata: ClaimMetadata
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()
