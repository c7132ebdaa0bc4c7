"""A node and its GPUs, from the Node, its NodeDevices and its CSINode.

Where a NodeDevices object tells what GPUs there are, it is believed, down to health and sharing
mode. Where there is none, the kubelet's count is all that is known: so many whole GPUs, without ids
to write into a grant, so that shares of them are refused. Either way GPUs are devices and never
counted a second time among the other resources.
"""

from collections.abc import Iterable, Iterator

import msgspec

from gpufleet.kube.codec.attachments import driver_feature
from gpufleet.kube.codec.cuda import offered_features
from gpufleet.kube.codec.field_path import inside, of_object
from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.keys import BACKFILL_UNTIL, GPU_SHARE
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.meanings.node_labels import MEMORY_LABELS, PRODUCT_LABELS
from gpufleet.kube.objects import node as wire
from gpufleet.kube.objects import node_devices as report
from gpufleet.kube.objects.storage import CsiNode
from gpufleet.model import gpu_model
from gpufleet.model.device import UNKNOWN_MODEL, Device, Serves
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId, GpuModelName, NodeName
from gpufleet.model.label_syntax import is_subdomain
from gpufleet.model.model_errors import InputError
from gpufleet.model.node import Node
from gpufleet.model.quantity import MAXIMUM_INT64, ZERO, Quantity, parse_quantity
from gpufleet.model.resource_names import (
    AMD_GPU,
    CPU,
    EPHEMERAL_STORAGE,
    GPU_RESOURCES,
    INTEL_GPU_I915,
    INTEL_GPU_XE,
    MEMORY,
    NVIDIA_GPU,
    is_mig_instance,
)
from gpufleet.model.resources import Resources
from gpufleet.model.taint import Taint
from gpufleet.model.volumes import Attachment

PODS = "pods"
"""The resource by which a kubelet says how many pods it runs at most."""

# The limits of the definition of NodeDevices, which also hold for reports that are older than it.
MAXIMUM_DEVICES = 1024
MAXIMUM_MEMORY_MIB = 2**31 - 1
# A device that is only counted: no GPU is called so, and a grant never names it.
ANONYMOUS = "anonymous-"

RESOURCES_BY_VENDOR = {
    Vendor.NVIDIA.value.casefold(): (NVIDIA_GPU,),
    Vendor.AMD.value.casefold(): (AMD_GPU,),
    Vendor.INTEL.value.casefold(): (INTEL_GPU_I915, INTEL_GPU_XE),
}
"""Under which names a vendor's device plugin has GPUs counted; those of Intel's two drivers differ."""

# What a device in each sharing mode can be given out for.
_SERVES = {
    report.WHOLE: Serves.WHOLE,
    report.SHARES: Serves.SHARE,
    report.MIXED: Serves.ANY,
    # Instances are counted as extended resources of their own.
    report.MIG: Serves.NOTHING,
    report.NOTHING: Serves.NOTHING,
}


def read_node(
    node: wire.Node,
    devices: report.NodeDevices | None = None,
    csi: CsiNode | None = None,
    attached: Iterable[Attachment] = (),
) -> Node:
    """The node as the engine sees it, with the volumes that are attached to it.

    Raises ObjectError for what cannot be.
    """
    with of_object("node", node.metadata.name):
        _check_name(node.metadata.name)
        amounts = _amounts(node.status.allocatable)
        limits = () if csi is None else _volume_limits(csi)
        limited = dict(limits)
        counted = _counted_devices(node, amounts) if devices is None else ()
        return Node(
            name=NodeName(node.metadata.name),
            allocatable=_allocatable(amounts),
            devices=counted if devices is None else _reported(devices, amounts),
            labels=node.metadata.labels,
            taints=_taints(node.spec.taints),
            unschedulable=node.spec.unschedulable,
            draining_until_us=_draining_until_us(node),
            features=_features(node, devices, csi),
            volume_limits=limits,
            gpu_resources=_gpu_resources(devices, amounts),
            uncounted=devices is not None and _counts_none_of(devices, amounts),
            # Volumes of drivers without a limit do not count against any.
            attached=tuple(sorted(one for one in set(attached) if one.driver in limited)),
            counted_only=bool(counted),
        )


def _draining_until_us(node: wire.Node) -> int | None:
    """Until when the drain of a closed node waits for ends; a text that is no moment says nothing."""
    written = node.metadata.annotations.get(BACKFILL_UNTIL)
    if written is None or not node.spec.unschedulable:
        return None
    try:
        return microseconds(written)
    except InputError:
        return None


def _gpu_resources(devices: report.NodeDevices | None, amounts: dict[str, Quantity]) -> tuple[str, ...]:
    """The names under which the kubelet counts GPUs; where it counts none, those of the reported vendors.

    A node whose GPUs are all cut into MIG instances counts no whole GPU, and is no node for Intel's pods.
    """
    counted = tuple(name for name in GPU_RESOURCES if amounts.get(name, ZERO) != ZERO)
    if counted or devices is None:
        return counted
    vendors = {device.vendor.casefold() for device in devices.spec.devices}
    if not vendors <= RESOURCES_BY_VENDOR.keys():
        return ()
    return tuple(name for vendor in sorted(vendors) for name in RESOURCES_BY_VENDOR[vendor])


def _counts_none_of(devices: report.NodeDevices, amounts: dict[str, Quantity]) -> bool:
    """True if the kubelet counts neither the reported GPUs nor parts of them."""
    names = _gpu_resources(devices, {}) or GPU_RESOURCES
    domains = tuple(name.partition("/")[0] + "/" for name in names)
    counted = (name for name, amount in amounts.items() if amount != ZERO)
    return bool(devices.spec.devices) and not any(name.startswith(domains) for name in counted)


def _reported(devices: report.NodeDevices, amounts: dict[str, Quantity]) -> tuple[Device, ...]:
    """The GPUs of a report, as far as the kubelet can give them.

    While its plugin is away a kubelet counts no GPU, or no share of one, and would refuse the pods that were
    sent there.
    """
    found = read_devices(devices)
    if any(amounts.get(name, ZERO) != ZERO for name in GPU_RESOURCES):
        return found
    left = Serves.NOTHING if amounts.get(GPU_SHARE) == ZERO else Serves.SHARE
    return tuple(msgspec.structs.replace(one, serves=one.serves & left) for one in found)


def read_devices(devices: report.NodeDevices) -> tuple[Device, ...]:
    """The GPUs of a report. Raises ObjectError for what cannot be: it is then not used at all."""
    with of_object("NodeDevices", devices.metadata.name):
        reported = devices.spec.devices
        if len(reported) > MAXIMUM_DEVICES:
            problem = f"{len(reported)} devices"
            raise ObjectError(problem, field="spec.devices", expected=f"at most {MAXIMUM_DEVICES}")
        _check_once(device.id for device in reported)
        # A process of no known pod ends at no known time: nothing is placed on the device that it holds.
        foreign = {holder.device for holder in devices.spec.holders if not holder.pod_uid}
        found = []
        for position, device in enumerate(reported):
            with inside(f"spec.devices[{position}]"):
                found.append(_device(device, taken=device.id in foreign))
        return tuple(found)


def is_anonymous(device: DeviceId) -> bool:
    """True for a device that is only counted: no report tells its id."""
    return device.startswith(ANONYMOUS)


def _check_name(name: str) -> None:
    if not is_subdomain(name):
        raise ObjectError("not a node's name", field="metadata.name", value=name, expected="a DNS name")


def _amounts(written: dict[str, str]) -> dict[str, Quantity]:
    amounts = {}
    for name, text in written.items():
        field = f"status.allocatable[{name}]"
        amount = parse_quantity(text, field=field)
        if amount < ZERO:
            raise InputError("a negative amount", field=field, value=text, expected="0 or more")
        amounts[name] = amount
    return amounts


def _allocatable(amounts: dict[str, Quantity]) -> Resources:
    named = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS, *GPU_RESOURCES)
    counted = {name: _counted(name, amount) for name, amount in amounts.items()}
    return Resources(
        cpu_milli=counted.get(CPU, 0),
        memory_bytes=counted.get(MEMORY, 0),
        ephemeral_storage_bytes=counted.get(EPHEMERAL_STORAGE, 0),
        pods=counted.get(PODS, 0),
        other=tuple(sorted((name, count) for name, count in counted.items() if name not in named and count)),
    )


def _counted(name: str, amount: Quantity) -> int:
    """The amount in 64 bits: a larger one counts as the largest, at nodes as at pods."""
    return min(amount.milli_value() if name == CPU else amount.value(), MAXIMUM_INT64)


def _counted_devices(node: wire.Node, amounts: dict[str, Quantity]) -> tuple[Device, ...]:
    """Whole GPUs of which only the number is known, of the model that labels tell."""
    count = sum(amounts.get(name, ZERO).value() for name in GPU_RESOURCES)
    if count > MAXIMUM_DEVICES:
        problem = "too many GPUs for one node"
        raise InputError(
            problem, field="status.allocatable", value=count, expected=f"at most {MAXIMUM_DEVICES}"
        )
    names = (DeviceId(f"{ANONYMOUS}{node.metadata.name}-{position}") for position in range(count))
    return tuple(msgspec.structs.replace(labelled_device(one, node), serves=Serves.WHOLE) for one in names)


def counted_gpus(node: wire.Node) -> int:
    """How many whole GPUs the kubelet counts. Raises InputError for what is no amount."""
    amounts = _amounts(node.status.allocatable)
    return sum(amounts.get(name, ZERO).value() for name in GPU_RESOURCES)


def counted_parts(node: wire.Node) -> dict[str, int]:
    """How many MIG instances the kubelet counts, by resource. Raises InputError for what is no amount."""
    amounts = _amounts(node.status.allocatable)
    return {name: amount.value() for name, amount in amounts.items() if is_mig_instance(name)}


def labelled_device(device: DeviceId, node: wire.Node) -> Device:
    """A device of which its node's labels alone tell what it is."""
    labels = node.metadata.labels
    model = _model(next((labels[key] for key in PRODUCT_LABELS if key in labels), ""))
    memory_mib = next((_plain_mib(labels[key]) for key in MEMORY_LABELS if key in labels), None)
    return Device(device, model, memory_mib)


def _plain_mib(text: str) -> int | None:
    """A label is a hint: what is no number tells nothing."""
    # The length before the number: Python refuses to read more than 4,300 digits.
    plain = text.isascii() and text.isdecimal() and len(text) <= 10
    return int(text) if plain and 0 < int(text) <= MAXIMUM_MEMORY_MIB else None


def _model(text: str) -> GpuModelName:
    if not text:
        return UNKNOWN_MODEL
    known = gpu_model.find(text)
    return GpuModelName(text) if known is None else known.name


def _check_once(ids: Iterable[str]) -> None:
    seen = set()
    for position, device in enumerate(ids):
        if device in seen:
            field = f"spec.devices[{position}].id"
            raise ObjectError("the same device twice", field=field, value=device, expected="each GPU once")
        seen.add(device)


def _device(device: report.ReportedDevice, *, taken: bool) -> Device:
    if not device.id or device.id.startswith(ANONYMOUS):
        raise InputError("not a device's id", field="id", value=device.id, expected="the GPU's UUID")
    serves = _SERVES.get(device.sharing)
    if serves is None:
        expected = ", ".join(report.SHARING_MODES)
        raise InputError("unknown", field="sharing", value=device.sharing, expected=expected)
    if device.health not in report.HEALTH_STATES:
        expected = ", ".join(report.HEALTH_STATES)
        raise InputError("unknown", field="health", value=device.health, expected=expected)
    return Device(
        id=DeviceId(device.id),
        model=_model(device.model),
        memory_mib=_memory(device),
        link_group=_at_least_zero(device.link_group, "linkGroup"),
        numa_node=None if device.numa_node is None else _at_least_zero(device.numa_node, "numaNode"),
        serves=Serves.NOTHING if taken else serves,
        healthy=device.health == report.HEALTHY and not any(_repels(taint) for taint in device.taints),
    )


def _repels(taint: report.DeviceTaint) -> bool:
    """Whether a device's taint keeps pods off: no pod tolerates one, and unknown effects do not count."""
    return taint.effect in (report.NO_SCHEDULE, report.NO_EXECUTE)


def _memory(device: report.ReportedDevice) -> int | None:
    if device.usable_memory_mib is None:
        return None if device.memory_mib is None else _memory_mib(device.memory_mib, "memoryMiB")
    usable = _memory_mib(device.usable_memory_mib, "usableMemoryMiB")
    if device.memory_mib is not None and usable > device.memory_mib:
        expected = f"at most memoryMiB, {device.memory_mib}"
        raise InputError("more than there is", field="usableMemoryMiB", value=usable, expected=expected)
    return usable


def _memory_mib(amount: int, field: str) -> int:
    if not 0 < amount <= MAXIMUM_MEMORY_MIB:
        raise InputError("out of range", field=field, value=amount, expected=f"1 to {MAXIMUM_MEMORY_MIB}")
    return amount


def _at_least_zero(number: int, field: str) -> int:
    if not 0 <= number < 2**31:
        raise InputError("out of range", field=field, value=number, expected="0 or more")
    return number


def _taints(taints: tuple[wire.Taint, ...]) -> tuple[Taint, ...]:
    found = []
    for position, taint in enumerate(taints):
        with inside(f"spec.taints[{position}]"):
            found.append(Taint(taint.key, taint.value, taint.effect))
    return tuple(found)


def _features(node: wire.Node, devices: report.NodeDevices | None, csi: CsiNode | None) -> tuple[str, ...]:
    """What the kubelet declares, the drivers of volumes, and the versions of CUDA that are not ruled out."""
    cuda = offered_features(node, devices)
    others = {*node.status.declared_features, *_drivers(csi)}
    # Without further features the tuple is shared by most nodes of a fleet.
    return tuple(sorted({*others, *cuda})) if others else cuda


def _drivers(csi: CsiNode | None) -> Iterator[str]:
    """The drivers on the node, as features: a pod may need one of them."""
    for driver in () if csi is None else csi.spec.drivers or ():
        yield driver_feature(driver.name)


def _volume_limits(csi: CsiNode) -> tuple[tuple[str, int], ...]:
    limits = {
        driver.name: driver.allocatable.count
        for driver in csi.spec.drivers or ()
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
    return tuple(sorted(limits.items()))
