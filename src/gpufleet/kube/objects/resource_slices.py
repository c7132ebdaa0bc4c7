"""ResourceSlices and DeviceClasses (``resource.k8s.io/v1``) as written; their codecs say what they mean."""

import msgspec

from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.selectors import NodeSelector
from gpufleet.kube.objects.structure import Structure


class WrittenAttribute(Structure, frozen=True):
    """The value of an attribute: one of these is set."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] = ()
    bools: tuple[bool, ...] = ()
    strings: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


class WrittenRange(Structure, frozen=True):
    """Amounts from a minimum up, in steps."""

    min: str | None = None
    max: str | None = None
    step: str | None = None


class WrittenPolicy(Structure, frozen=True):
    """Which amounts of a capacity may be taken."""

    default: str | None = None
    valid_values: tuple[str, ...] = ()
    valid_range: WrittenRange | None = None


class WrittenCapacity(Structure, frozen=True):
    """How much a device has of something."""

    value: str = "0"
    request_policy: WrittenPolicy | None = None


class WrittenCounter(Structure, frozen=True):
    """An amount of a counter."""

    value: str = "0"


class WrittenCounterSet(Structure, frozen=True):
    """Counters that devices share."""

    name: str
    counters: dict[str, WrittenCounter] = msgspec.field(default_factory=dict)


class WrittenCounterUse(Structure, frozen=True):
    """What a device draws from a counter set."""

    counter_set: str
    counters: dict[str, WrittenCounter] = msgspec.field(default_factory=dict)
    compatibility_groups: tuple[str, ...] = ()


class WrittenTaint(Structure, frozen=True):
    """A taint of a device."""

    key: str = ""
    value: str = ""
    effect: str = ""


class WrittenDevice(Structure, frozen=True):
    """A device of a slice."""

    name: str
    attributes: dict[str, WrittenAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, WrittenCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[WrittenCounterUse, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[WrittenTaint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None


class WrittenPool(Structure, frozen=True):
    """The pool that a slice is part of."""

    name: str
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Structure, frozen=True):
    """What a driver offers."""

    driver: str
    pool: WrittenPool
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[WrittenDevice, ...] = ()
    shared_counters: tuple[WrittenCounterSet, ...] = ()
    skip_node_operations: tuple[str, ...] = ()


class ResourceSliceObject(Structure, frozen=True):
    """A slice of a pool of devices."""

    metadata: Metadata
    spec: ResourceSliceSpec


class TaintedDevices(Structure, frozen=True):
    """Which devices a rule taints: those of this driver, pool and name, as far as they are given."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Structure, frozen=True):
    """A taint, and the devices that have it; without a selector it is no device."""

    taint: WrittenTaint
    device_selector: TaintedDevices | None = None


class DeviceTaintRuleObject(Structure, frozen=True):
    """A rule of an administrator that taints devices, beside what their drivers say."""

    metadata: Metadata
    spec: DeviceTaintRuleSpec


class CelSelector(Structure, frozen=True):
    """An expression that selects devices."""

    expression: str


class WrittenSelector(Structure, frozen=True):
    """A selector of devices; None where it is of a kind that is not known here."""

    cel: CelSelector | None = None


class OpaqueConfiguration(Structure, frozen=True):
    """Parameters that a driver alone reads."""

    driver: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class WrittenConfiguration(Structure, frozen=True):
    """A configuration of the devices of these requests; of all where none is named."""

    opaque: OpaqueConfiguration | None = None
    requests: tuple[str, ...] = ()


class DeviceClassSpec(Structure, frozen=True):
    """What devices of a class are."""

    selectors: tuple[WrittenSelector, ...] = ()
    config: tuple[WrittenConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClassObject(Structure, frozen=True):
    """A class of devices."""

    metadata: Metadata
    spec: DeviceClassSpec = DeviceClassSpec()
