"""How much of anything the engine takes: what stands in its arrays must fit, and so must sums of it.

An amount beyond these bounds is a mistake or an attack. It is refused with its event, before anything is
written, because an array that overflowed half-way would corrupt every later decision.
"""

import itertools

from gpufleet.engine.arrays.layout import DEVICES_A_NODE_MAX
from gpufleet.engine.engine_errors import EventError
from gpufleet.model.device import WHOLE_GPU_MILLI, Device
from gpufleet.model.gang import Gang, gang_title
from gpufleet.model.node import Node
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape, Within

CPU_MILLI_MAX = 100_000_000
"""100,000 cores: products of two such amounts, times a hundred, stay within 64 bits."""

AMOUNT_MAX = 1 << 53
"""8 PiB, and of everything that is not measured in bytes more than there is."""

# 2 PiB on one device, and a product of two such numbers stays within 64 bits.
MEMORY_MIB_MAX = (1 << 31) - 1
LINK_GROUP_MAX = (1 << 31) - 1

ENTRY_COUNT_MAX = 1_000_000_000
"""Fragmentation is a sum of counts times thousandths of GPUs, in 64 bits."""


def check_node(node: Node) -> None:
    """Refuse a node whose amounts the engine cannot hold."""
    owner = f"node {node.name}"
    check_resources(node.allocatable, owner)
    if len(node.devices) > DEVICES_A_NODE_MAX:
        raise EventError(
            "too many devices on one node",
            field=f"{owner}: devices",
            value=len(node.devices),
            expected=f"at most {DEVICES_A_NODE_MAX}",
        )
    for device in node.devices:
        check_device(device, owner)


def check_device(device: Device, owner: str) -> None:
    """Refuse a device whose memory, link group or NUMA node is no sensible number."""
    if device.memory_mib is not None:
        check_range(device.memory_mib, 0, MEMORY_MIB_MAX, f"{owner}: devices.memory_mib")
    check_range(device.link_group, -1, LINK_GROUP_MAX, f"{owner}: devices.link_group")
    if device.numa_node is not None:
        check_range(device.numa_node, 0, LINK_GROUP_MAX, f"{owner}: devices.numa_node")


def check_gang(gang: Gang) -> None:
    """Refuse a gang without members, and numbers of members that cannot be."""
    title = gang_title(gang.name)
    if gang.min_members < 1:
        problem, field = "a gang without members", f"{title}: min_members"
        raise EventError(problem, field=field, value=gang.min_members, expected="1 or more")
    for role, minimum in gang.role_minimums:
        check_range(minimum, 0, ENTRY_COUNT_MAX, f"{title}: role_minimums: {role}")
    check_slices(gang)


def check_slices(gang: Gang) -> None:
    """Refuse slices that cannot be, or that tear apart those which they divide."""
    field = f"{gang_title(gang.name)}: slices"
    for wider, narrower in itertools.pairwise((None, *gang.slices)):
        if narrower is None:
            continue
        check_range(narrower.size, 1, ENTRY_COUNT_MAX, field)
        if wider is not None and wider.size % narrower.size:
            problem, expected = "slices that do not divide the wider ones", f"a divisor of {wider.size}"
            raise EventError(problem, field=field, value=narrower.size, expected=expected)


def check_shape(shape: Shape) -> None:
    """Refuse a shape that asks for nothing sensible."""
    check_resources(shape.resources, "shape")
    check_gpu(shape.gpu)


def check_resources(resources: Resources, owner: str) -> None:
    """Refuse host resources below nothing or beyond what can be counted."""
    check_range(resources.cpu_milli, 0, CPU_MILLI_MAX, f"{owner}: cpu_milli")
    named = [
        ("memory_bytes", resources.memory_bytes),
        ("pods", resources.pods),
        ("ephemeral_storage_bytes", resources.ephemeral_storage_bytes),
        *resources.other,
    ]
    for name, amount in named:
        check_range(amount, 0, AMOUNT_MAX, f"{owner}: {name}")


def check_gpu(gpu: GpuRequest) -> None:
    """Refuse a GPU request that asks for nothing, or for more than a whole of each device."""
    if gpu.count == 0 and (gpu.gpu_milli or gpu.memory_mib is not None):
        raise EventError(
            "a share of no GPU is asked for",
            field="gpu.count",
            value=gpu.count,
            expected="1 or more devices, or neither milli nor memory",
        )
    # No node has more devices, and every pod's row has a column for each that any pod asks for.
    check_range(gpu.count, 0, DEVICES_A_NODE_MAX, "gpu.count")
    ordered = [model for group in gpu.model_order for model in group]
    if ordered and (sorted(ordered) != sorted(gpu.models) or not all(gpu.model_order)):
        raise EventError(
            "an order of other models than those accepted",
            field="gpu.model_order",
            value=", ".join(ordered),
            expected="each model that is accepted, once",
        )
    if gpu.within is not Within.NODE and not (gpu.whole and gpu.count > 1):
        raise EventError(
            "only several whole devices can be near each other",
            field="gpu.within",
            value=gpu.within.name.lower(),
            expected="2 or more whole devices, or devices anywhere on the node",
        )
    if gpu.count == 0:
        return
    check_range(gpu.gpu_milli, 0, WHOLE_GPU_MILLI, "gpu.gpu_milli")
    if gpu.memory_mib is not None:
        check_range(gpu.memory_mib, 1, MEMORY_MIB_MAX, "gpu.memory_mib")
    elif gpu.gpu_milli == 0:
        raise EventError(
            "a device is asked for but nothing of it",
            field="gpu.gpu_milli",
            value=0,
            expected="milli above 0, or a memory in MiB",
        )


def check_range(amount: int, least: int, most: int, field: str) -> None:
    """Refuse an amount outside of its range."""
    if not least <= amount <= most:
        raise EventError("out of range", field=field, value=amount, expected=f"{least} to {most}")
