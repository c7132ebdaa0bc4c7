"""Worth: place where the node loses least of what the work to come could make of it.

The worth of a node is that of its GPUs' free parts (by what the typical work can still cut out of
them), as far as the node's CPU and memory will last for them, plus a bonus for room that tasks of
several GPUs will need and that is becoming scarce. A placement costs the worth it takes away, times
the price of the node's GPU model; among equals the fuller node is taken. What "typical" means was
learned (``learn``) from what arrived. A node's own worth is kept with it, so that a score needs
only the worth after the placement.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import entry, kernel, leaf
from gpufleet.engine.arrays.handle import opened
from gpufleet.engine.arrays.request import is_whole
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.place.score import fit, worth_tables
from gpufleet.engine.place.score.policy_tables import PolicyTables
from gpufleet.engine.place.score.worth_tables import WorthTables
from gpufleet.engine.valuation import CURVE_STEPS, FULL_SHARE, ONE_GPU, ONE_PRICE, SLOT_KINDS, SLOT_LEVELS
from gpufleet.model.device import WHOLE_GPU_MILLI

# Divisions by these powers of two are shifts.
MEBIBYTE_BITS = 20
SHARE_BITS = FULL_SHARE.bit_length() - 1
PRICE_BITS = ONE_PRICE.bit_length() - 1
GPU_BITS = ONE_GPU.bit_length() - 1
STEP_BITS = CURVE_STEPS.bit_length() - 1
# Between two of its steps a curve is a straight line, read in 256ths.
FRACTION_BITS = 8
FRACTION_MASK = (1 << FRACTION_BITS) - 1
HOST_MOST = 1 << 26
"""More CPU milli or MiB than this (67,000 cores, 64 TiB) count as this much, so that the position on
a curve is worked out in 64 bits."""

EMPTY_GPU_COST = ONE_GPU // 100
"""What an idle GPU on a node counts against it: small beside any real loss, enough to prefer the
fuller of two nodes that lose alike."""


@leaf
def served_share(worth: WorthTables, curve: int, amount: int, remainder: int) -> int:
    """The share of a remainder's worth that this amount of CPU or memory will serve."""
    whole = remainder * worth.spans[curve]
    left = min(max(0, amount), HOST_MOST)
    # Past this ``position`` lies on the curve, so the next step of it exists, too.
    if left << GPU_BITS >= whole:
        return FULL_SHARE
    position = (left << (GPU_BITS + STEP_BITS + FRACTION_BITS)) // whole
    step = position >> FRACTION_BITS
    here = worth.curves[curve, step]
    rise = worth.curves[curve, step + 1] - here
    return int(here + ((rise * (position & FRACTION_MASK)) >> FRACTION_BITS))


@leaf
def value(worth: WorthTables, remainder: int, cpu_milli: int, memory_mib: int) -> int:
    """The worth of a remainder on a host with so much CPU and memory left."""
    if remainder <= 0:
        return 0
    share = min(
        served_share(worth, worth_tables.CPU_CURVE, cpu_milli, remainder),
        served_share(worth, worth_tables.MEMORY_CURVE, memory_mib, remainder),
    )
    return int((remainder * share) >> SHARE_BITS)


@leaf
def levels_met(worth: WorthTables, kind: int, cpu_milli: int, memory_mib: int) -> int:
    """How many levels of a kind of slot the host satisfies."""
    level = 0
    while (
        level < SLOT_LEVELS
        and cpu_milli >= worth.slot_needs[kind, level, 0]
        and memory_mib >= worth.slot_needs[kind, level, 1]
    ):
        level += 1
    return level


@leaf
def slot_worth(worth: WorthTables, free_gpus: int, cpu_milli: int, memory_mib: int) -> int:
    """The bonus for the slots that so many entirely free GPUs make."""
    bonus = 0
    for kind in range(SLOT_KINDS):
        slots = free_gpus // worth.slot_gpus[kind]
        if slots > 0 and worth.slot_bonus[kind, SLOT_LEVELS] > 0:
            bonus += slots * worth.slot_bonus[kind, levels_met(worth, kind, cpu_milli, memory_mib)]
    return int(bonus)


@leaf
def free_memory_mib(tables: Tables, node: int) -> int:
    """Free memory of a node in MiB."""
    return int(tables.resources_free[node, layout.RESOURCE_MEMORY_BYTES] >> MEBIBYTE_BITS)


@kernel
def assess(tables: Tables, worth: WorthTables, node: int) -> None:
    """Work out the node's own worth anew, and count its slots."""
    # Out with what was counted of the node so far, which the rows below still hold.
    count_slots(worth, node, -1)
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    remainder = 0
    for device in range(first, first + tables.nodes[layout.NODE_DEVICE_COUNT, node]):
        remainder += worth.value[tables.devices[layout.DEVICE_IDLE_MILLI, device]]
    cpu = tables.resources_free[node, layout.RESOURCE_CPU_MILLI]
    memory = free_memory_mib(tables, node)
    free_gpus = tables.nodes[layout.NODE_FREE_WHOLE_GPUS, node]
    of_node = worth.of_node
    of_node[worth_tables.WORTH_REMAINDER, node] = remainder
    of_node[worth_tables.WORTH_VALUE, node] = value(worth, remainder, cpu, memory)
    of_node[worth_tables.WORTH_SLOTS, node] = slot_worth(worth, free_gpus, cpu, memory)
    of_node[worth_tables.WORTH_FREE_MILLI, node] = tables.nodes[layout.NODE_FREE_GPU_MILLI, node]
    of_node[worth_tables.WORTH_FREE_GPUS, node] = free_gpus
    of_node[worth_tables.WORTH_MODEL, node] = node_model(tables, node)
    for kind in range(SLOT_KINDS):
        met = levels_met(worth, kind, cpu, memory)
        of_node[worth_tables.WORTH_LEVELS + kind, node] = met
    count_slots(worth, node, 1)


@leaf
def count_slots(worth: WorthTables, node: int, sign: int) -> None:
    """Add the node to the fleet's count of slots and of free milli, or take it out."""
    of_node = worth.of_node
    free = of_node[worth_tables.WORTH_FREE_MILLI, node]
    worth.state[worth_tables.WORTH_TOTAL_FREE_MILLI] += sign * free
    worth.model_free[of_node[worth_tables.WORTH_MODEL, node]] += sign * free
    for kind in range(SLOT_KINDS):
        slots = of_node[worth_tables.WORTH_FREE_GPUS, node] // worth.slot_gpus[kind]
        if slots > 0:
            for level in range(of_node[worth_tables.WORTH_LEVELS + kind, node]):
                worth.slots_left[kind, level] += sign * slots


@kernel
def refresh(tables: Tables, worth: WorthTables) -> None:
    """Bring every node's own worth up to date with the changes so far."""
    head = tables.counters[layout.COUNTER_CHANGES]
    seen = worth.state[worth_tables.WORTH_SEEN_CHANGES]
    if worth.state[worth_tables.WORTH_STALE] == 1 or head - seen > len(tables.changes):
        assess_all(tables, worth)
    else:
        for position in range(seen, head):
            node = tables.changes[position % len(tables.changes)]
            # A node that changed again stands further on in the ring, and is assessed there.
            if tables.changed_at[node] == position:
                assess(tables, worth, node)
    worth.state[worth_tables.WORTH_SEEN_CHANGES] = head


@kernel
def assess_all(tables: Tables, worth: WorthTables) -> None:
    """Every node anew, as after a valuation."""
    worth.state[worth_tables.WORTH_STALE] = 0
    worth.state[worth_tables.WORTH_TOTAL_FREE_MILLI] = 0
    for model in range(len(worth.model_free)):
        worth.model_free[model] = 0
    for kind in range(SLOT_KINDS):
        for level in range(SLOT_LEVELS):
            worth.slots_left[kind, level] = 0
    for node in range(worth.of_node.shape[1]):
        # The sums begin at 0, so ``assess`` must find nothing to take out.
        worth.of_node[worth_tables.WORTH_FREE_MILLI, node] = 0
        worth.of_node[worth_tables.WORTH_FREE_GPUS, node] = 0
        if node < tables.nodes.shape[1]:
            assess(tables, worth, node)


@kernel
def valuation_is_due(tables: Tables, worth: WorthTables) -> bool:
    """True if the fleet is no longer what the last valuation was made for."""
    refresh(tables, worth)
    free = worth.state[worth_tables.WORTH_TOTAL_FREE_MILLI]
    if free <= worth.state[worth_tables.WORTH_FREE_LOW]:
        return True
    if free >= worth.state[worth_tables.WORTH_FREE_HIGH]:
        return True
    for model in range(len(worth.model_free)):
        if worth.model_free[model] <= worth.model_low[model]:
            return True
    for kind in range(SLOT_KINDS):
        for level in range(SLOT_LEVELS):
            if worth.slots_left[kind, level] < worth.slots_low[kind, level]:
                return True
    return False


@leaf
def cheapest_device(tables: Tables, worth: WorthTables, shape: int, node: int) -> int:
    """The device on which a share of this shape takes least of the remainder's worth.

    Among equals the one with the least free, then the lowest index. NOT_SET if none fits.
    """
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    taken = tables.shapes[layout.SHAPE_GPU_MILLI, shape]
    chosen, least, least_idle = layout.NOT_SET, 1 << 60, 0
    for device in range(first, first + tables.nodes[layout.NODE_DEVICE_COUNT, node]):
        idle = tables.devices[layout.DEVICE_IDLE_MILLI, device]
        if idle < taken:
            continue
        loss = worth.value[idle] - worth.value[idle - taken]
        better = loss < least or (loss == least and idle < least_idle)
        if better and fit.share_fits(tables, shape, device):
            chosen, least, least_idle = device, loss, idle
    return chosen


@leaf
def score(tables: Tables, worth: WorthTables, shape: int, node: int) -> int:
    """Minus the worth that the node loses if the shape is placed there (and a little for what
    stays idle beside it).
    """
    of_node = worth.of_node
    gpus = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    remainder = of_node[worth_tables.WORTH_REMAINDER, node]
    free_gpus = of_node[worth_tables.WORTH_FREE_GPUS, node]
    if gpus > 0 and is_whole(tables, shape):
        remainder -= gpus * worth.value[WHOLE_GPU_MILLI]
        free_gpus -= gpus
    elif gpus > 0:
        # There is one: only nodes that fit are scored.
        device = cheapest_device(tables, worth, shape, node)
        idle = tables.devices[layout.DEVICE_IDLE_MILLI, device]
        left = idle - tables.shapes[layout.SHAPE_GPU_MILLI, shape]
        remainder -= gpus * (worth.value[idle] - worth.value[left])
        free_gpus -= gpus * tables.devices[layout.DEVICE_WHOLE_FREE, device]
    cpu = tables.resources_free[node, layout.RESOURCE_CPU_MILLI]
    cpu -= tables.shape_resources[shape, layout.RESOURCE_CPU_MILLI]
    memory = tables.resources_free[node, layout.RESOURCE_MEMORY_BYTES]
    memory -= tables.shape_resources[shape, layout.RESOURCE_MEMORY_BYTES]
    # Rounded once, after the subtraction.
    memory = memory >> MEBIBYTE_BITS
    lost = of_node[worth_tables.WORTH_VALUE, node] - value(worth, remainder, cpu, memory)
    lost = (lost * node_price(tables, worth, node)) >> PRICE_BITS
    lost += of_node[worth_tables.WORTH_SLOTS, node]
    lost -= slot_worth(worth, max(0, free_gpus), cpu, memory)
    idle_milli = of_node[worth_tables.WORTH_FREE_MILLI, node]
    return int(-lost - EMPTY_GPU_COST * idle_milli // WHOLE_GPU_MILLI)


@leaf
def node_price(tables: Tables, worth: WorthTables, node: int) -> int:
    """The price of the model of the node's GPUs."""
    if tables.nodes[layout.NODE_DEVICE_COUNT, node] == 0:
        return ONE_PRICE
    return int(worth.price[node_model(tables, node)])


@leaf
def node_model(tables: Tables, node: int) -> int:
    """The model of the node's first GPU; 0, which counts for nothing there, without GPUs."""
    if tables.nodes[layout.NODE_DEVICE_COUNT, node] == 0:
        return 0
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    return int(tables.devices[layout.DEVICE_MODEL, first])


@entry
def valuation_is_due_by_handle(tables: Int64Array, policy: Int64Array) -> bool:
    """``valuation_is_due``, for Python: by handle (see ``arrays.handle``)."""
    return valuation_is_due(opened(Tables, tables), opened(PolicyTables, policy).worth)
