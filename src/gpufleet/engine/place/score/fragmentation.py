"""Fragmentation gradient (FGD): place where the least idle GPU becomes useless to typical work.

Weng et al., "Beware of Fragmentation", USENIX ATC 2023. The fragmentation of a node is the
expected idle GPU that a task drawn from a target workload cannot use there: all of it if the task
does not fit, else the devices with too little left for it. A CPU-only task can use none.

Counts of tasks stand for their probabilities, so that everything is exact in integers: a
fragmentation here is the paper's times the total count of the target. The paper grades a
placement by floor(100 * sigmoid(drop of fragmentation in GPUs)); ``grade_thresholds`` gives, for
each grade, the smallest integer drop that reaches it.
"""

import decimal

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import kernel, leaf
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.place.score import policy_tables
from gpufleet.engine.place.score.policy_tables import PolicyTables
from gpufleet.model.device import WHOLE_GPU_MILLI

GRADES = 100
"""As in the paper: scores of 0 to 99."""


def grade_thresholds(total_weight: int) -> Int64Array:
    """Smallest gradient that earns each grade 1..99, for a target of this total count.

    sigmoid(x) >= k/100 where x >= ln(k / (100 - k)); the gradient is in milli times the count.
    """
    thresholds = np.zeros(GRADES, np.int64)
    # The logarithm of a float may differ in its last bit between machines, and thresholds decide.
    with decimal.localcontext(decimal.Context(prec=40)):
        for grade in range(1, GRADES):
            odds = decimal.Decimal(grade) / decimal.Decimal(GRADES - grade)
            exact = odds.ln() * WHOLE_GPU_MILLI * total_weight
            thresholds[grade] = int(exact.to_integral_value(decimal.ROUND_CEILING))
    # Grade 0 has no threshold: whatever is below that of grade 1 has it.
    thresholds[0] = np.iinfo(np.int64).min
    return thresholds


@leaf
def grade(policy: PolicyTables, gradient: int) -> int:
    """floor(100 * sigmoid(gradient)): the number of the last threshold reached."""
    low, high = 0, len(policy.grades)
    while high - low > 1:
        middle = (low + high) // 2
        if policy.grades[middle] <= gradient:
            low = middle
        else:
            high = middle
    return low


@leaf
def entry_fits(
    tables: Tables, policy: PolicyTables, entry: int, node: int, cpu_milli: int, fitting: int
) -> bool:
    """True if a target task could run: enough CPU, and ``fitting`` devices are enough."""
    target = policy.target
    if target[policy_tables.TARGET_CPU_MILLI, entry] > cpu_milli:
        return False
    if target[policy_tables.TARGET_GPU_COUNT, entry] > fitting:
        return False
    return accepts_node(tables, policy, entry, node)


@leaf
def accepts_node(tables: Tables, policy: PolicyTables, entry: int, node: int) -> bool:
    """True if the target task accepts the model of the node's devices."""
    if policy.target[policy_tables.TARGET_ANY_MODEL, entry]:
        return True
    if tables.nodes[layout.NODE_DEVICE_COUNT, node] == 0:
        return False
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    return bool(policy.target_models[entry, tables.devices[layout.DEVICE_MODEL, first]])


@leaf
def devices_for(tables: Tables, first: int, last: int, wanted_milli: int) -> tuple[int, int]:
    """How many devices have that much left, and the sum of what the others have left.

    Entries of a target that want the same stand side by side, so that this is asked once for all of them.
    """
    fitting, scraps = 0, 0
    for device in range(first, last):
        idle = tables.devices[layout.DEVICE_IDLE_MILLI, device]
        if idle >= wanted_milli:
            fitting += 1
        else:
            scraps += idle
    return fitting, scraps


@kernel
def node_fragmentation(tables: Tables, policy: PolicyTables, node: int) -> int:
    """Fragmentation of a node as it is, in milli times the total count of the target."""
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    cpu = tables.resources_free[node, layout.RESOURCE_CPU_MILLI]
    total = tables.nodes[layout.NODE_FREE_GPU_MILLI, node]
    fragmentation, counted_for, fitting, scraps = 0, layout.NOT_SET, 0, 0
    for entry in range(policy.target.shape[1]):
        wanted = policy.target[policy_tables.TARGET_GPU_MILLI, entry]
        if wanted != counted_for:
            fitting, scraps = devices_for(tables, first, last, wanted)
            counted_for = wanted
        usable = policy.target[policy_tables.TARGET_GPU_COUNT, entry] > 0
        fit = usable and entry_fits(tables, policy, entry, node, cpu, fitting)
        fragmentation += policy.target[policy_tables.TARGET_WEIGHT, entry] * (scraps if fit else total)
    return int(fragmentation)


@kernel
def whole_gradient(tables: Tables, policy: PolicyTables, shape: int, node: int) -> int:
    """Drop of the node's fragmentation if a CPU-only or whole-GPU shape is placed on it."""
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    cpu = tables.resources_free[node, layout.RESOURCE_CPU_MILLI]
    cpu_after = cpu - tables.shape_resources[shape, layout.RESOURCE_CPU_MILLI]
    taken = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    total = tables.nodes[layout.NODE_FREE_GPU_MILLI, node]
    gradient, counted_for, fitting, scraps = 0, layout.NOT_SET, 0, 0
    for entry in range(policy.target.shape[1]):
        weight = policy.target[policy_tables.TARGET_WEIGHT, entry]
        if policy.target[policy_tables.TARGET_GPU_COUNT, entry] == 0:
            # Work without GPUs can use none of what is idle, so all that is taken was lost to it before.
            gradient += weight * taken * WHOLE_GPU_MILLI
            continue
        wanted = policy.target[policy_tables.TARGET_GPU_MILLI, entry]
        if wanted != counted_for:
            fitting, scraps = devices_for(tables, first, last, wanted)
            counted_for = wanted
        before = scraps if entry_fits(tables, policy, entry, node, cpu, fitting) else total
        # A free GPU that is taken was no scrap, and leaves none.
        fit = entry_fits(tables, policy, entry, node, cpu_after, fitting - taken)
        after = scraps if fit else total - taken * WHOLE_GPU_MILLI
        gradient += weight * (before - after)
    return int(gradient)


@kernel
def share_gradients(tables: Tables, policy: PolicyTables, shape: int, node: int) -> None:
    """The gradient of a share on each device of the node, into ``policy.by_device``.

    Every device is worked out from one count over all devices, not from a full count each.
    """
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    count = tables.nodes[layout.NODE_DEVICE_COUNT, node]
    cpu = tables.resources_free[node, layout.RESOURCE_CPU_MILLI]
    cpu_after = cpu - tables.shape_resources[shape, layout.RESOURCE_CPU_MILLI]
    taken = tables.shapes[layout.SHAPE_GPU_MILLI, shape]
    total = tables.nodes[layout.NODE_FREE_GPU_MILLI, node]
    gradients = policy.by_device
    for index in range(count):
        gradients[index] = 0
    counted_for, fitting, scraps = layout.NOT_SET, 0, 0
    for entry in range(policy.target.shape[1]):
        weight = policy.target[policy_tables.TARGET_WEIGHT, entry]
        needed = policy.target[policy_tables.TARGET_GPU_COUNT, entry]
        if needed == 0:
            for index in range(count):
                gradients[index] += weight * taken
            continue
        wanted = policy.target[policy_tables.TARGET_GPU_MILLI, entry]
        if wanted != counted_for:
            fitting, scraps = devices_for(tables, first, first + count, wanted)
            counted_for = wanted
        before = scraps if entry_fits(tables, policy, entry, node, cpu, fitting) else total
        # Whichever device is taken, the CPU that is left is too little: the whole node is of no use then.
        if not entry_fits(tables, policy, entry, node, cpu_after, fitting):
            for index in range(count):
                gradients[index] += weight * (before - total + taken)
            continue
        for index in range(count):
            had = tables.devices[layout.DEVICE_IDLE_MILLI, first + index]
            left = had - taken
            after = scraps
            # The device is a scrap to this task already, becomes one, or still fits it: then nothing changes.
            if had < wanted:
                after -= taken
            elif left < wanted:
                # Without this device too few are left for the task, unless there was one to spare.
                after = scraps + left if fitting > needed else total - taken
            gradients[index] += weight * (before - after)
