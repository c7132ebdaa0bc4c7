"""Which devices of a node a pod gets, once the node is chosen.

A share goes to the device with the least room that still holds it (or to the one the score likes
best); whole devices come from one link group if any group has enough, the smallest such group, so
that large groups stay whole, else from one NUMA node if that has enough; replicas from as many cards as can
be. A pod that asks for devices near each other gets them so, whatever the policy. ``placing`` books them.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.arrays.compiled import kernel, leaf
from gpufleet.engine.arrays.request import is_whole
from gpufleet.engine.arrays.tables import Tables
from gpufleet.engine.place.score import fit, locality, policy_tables
from gpufleet.engine.place.score.policy_tables import PolicyTables
from gpufleet.engine.place.score.total import best_device
from gpufleet.engine.place.score.worth import cheapest_device
from gpufleet.model.device import WHOLE_GPU_MILLI


@kernel
def draw(tables: Tables, policy: PolicyTables, bound: int) -> int:
    """A number in 0..bound-1 from the policy's seed and the count of draws (splitmix64).

    A counter, not hidden state: the same seed and the same events draw the same numbers.
    """
    drawn = tables.counters[layout.COUNTER_RANDOM] + 1
    tables.counters[layout.COUNTER_RANDOM] = drawn
    seed = policy.options[policy_tables.OPTION_SEED]
    # The counts of neighbouring seeds begin so far apart: their draws have nothing in common for as long.
    mixed = mix_bits(seed * 0x9E3779B1 + drawn)
    return int((mixed >> 1) % bound)


@kernel
def mix_bits(number: int) -> int:
    """Steele, Lea and Flood's 64-bit finaliser on 63 bits, with wrapping multiplication."""
    mask = 0x7FFFFFFFFFFFFFFF
    # The constants of splitmix64 without their highest bit, so that they are numbers of int64.
    mixed = (number * 0x1E3779B97F4A7C15) & mask
    mixed = ((mixed ^ (mixed >> 30)) * 0x3F58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x14D049BB133111EB) & mask
    return mixed ^ (mixed >> 31)


@kernel
def choose(tables: Tables, policy: PolicyTables, shape: int, node: int, chosen: Int64Array) -> bool:
    """Fill ``chosen`` with the device rows for one pod of the shape; False if they do not suffice."""
    count = tables.shapes[layout.SHAPE_GPU_COUNT, shape]
    if count == 0:
        return True
    if is_whole(tables, shape):
        by_group = policy.options[policy_tables.OPTION_WHOLE_CHOICE] == policy_tables.WHOLE_BY_LINK_GROUP
        if locality.must_be_near(tables, shape):
            return choose_near(tables, shape, node, count, chosen)
        if by_group and count > 1:
            return choose_by_link_group(tables, shape, node, count, chosen)
        return choose_lowest(tables, shape, node, count, chosen)
    # Scores and losses are those of one device, so several shares at once always go to the fullest.
    option = policy.options[policy_tables.OPTION_SHARE_CHOICE]
    if count == 1 and option == policy_tables.SHARE_BY_SCORE:
        _, chosen[0] = best_device(tables, policy, shape, node)
        return bool(chosen[0] != layout.NOT_SET)
    if count == 1 and option == policy_tables.SHARE_LEAST_LOSS:
        chosen[0] = cheapest_device(tables, policy.worth, shape, node)
        return bool(chosen[0] != layout.NOT_SET)
    if count == 1 and option == policy_tables.SHARE_RANDOM:
        chosen[0] = random_device(tables, policy, shape, node)
        return bool(chosen[0] != layout.NOT_SET)
    return choose_fullest(tables, shape, node, count, chosen)


@kernel
def choose_lowest(tables: Tables, shape: int, node: int, count: int, chosen: Int64Array) -> bool:
    """The fitting devices with the lowest index, each of another card as far as there are others."""
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    found, turn, in_this_turn = 0, 0, 1
    while found < count and in_this_turn > 0:
        in_this_turn = 0
        for device in range(first, last):
            if found < count and fit.device_fits(tables, shape, device):
                if is_due(tables, device, chosen, found, turn):
                    chosen[found] = device
                    found += 1
                    in_this_turn += 1
        turn += 1
    return found == count


@kernel
def choose_near(tables: Tables, shape: int, node: int, count: int, chosen: Int64Array) -> bool:
    """All from the smallest group that suffices, of the kind that the shape asks for."""
    column = locality.column_of(tables.shapes[layout.SHAPE_WITHIN, shape])
    # Of different cards where a group has as many; else replicas of one card are near each other, too.
    leader = smallest_group(tables, shape, node, count, column, True, chosen)
    if leader == layout.NOT_SET:
        leader = smallest_group(tables, shape, node, count, column, False, chosen)
    if leader == layout.NOT_SET:
        return False
    return choose_in_group(tables, shape, node, count, column, leader, chosen)


@kernel
def choose_by_link_group(tables: Tables, shape: int, node: int, count: int, chosen: Int64Array) -> bool:
    """All from the smallest link group that suffices, else from the smallest NUMA node that does, else from
    the largest link groups first.
    """
    column, leader = layout.DEVICE_NUMA_NODE, layout.NOT_SET
    linked = smallest_group(tables, shape, node, count, layout.DEVICE_LINK_GROUP, True, chosen)
    if linked == layout.NOT_SET:
        leader = smallest_group(tables, shape, node, count, column, True, chosen)
    return choose_in_group(tables, shape, node, count, column, leader, chosen)


@kernel
def smallest_group(
    tables: Tables, shape: int, node: int, count: int, column: int, of_cards: bool, chosen: Int64Array
) -> int:
    """The first device of the smallest group that has enough, NOT_SET if none has.

    Replicas of one card count as one ``of_cards``.
    """
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    best, smallest = layout.NOT_SET, 0
    for leader in range(first, last):
        if not locality.leads(tables, column, first, leader):
            continue
        if of_cards:
            free = cards_with(tables, shape, column, leader, last, chosen)
        else:
            free = fit.fitting_with(tables, shape, column, leader, last)
        # The first of equals, so that the same fleet always gives the same choice.
        if free >= count and (best == layout.NOT_SET or free < smallest):
            best, smallest = leader, free
    return best


@kernel
def cards_with(tables: Tables, shape: int, column: int, leader: int, last: int, chosen: Int64Array) -> int:
    """How many cards have a device that fits and is together with the first of a group."""
    free = 0
    for device in range(leader, last):
        if tables.devices[column, device] == tables.devices[column, leader]:
            free += is_first_due(tables, shape, device, chosen, 0, 0)
    return free


@leaf
def is_in(tables: Tables, column: int, leader: int, device: int) -> bool:
    """True if a device is of the leader's group; without a leader every device is."""
    return leader == layout.NOT_SET or bool(tables.devices[column, device] == tables.devices[column, leader])


@kernel
def choose_in_group(
    tables: Tables, shape: int, node: int, count: int, column: int, leader: int, chosen: Int64Array
) -> bool:
    """All from the smallest link group that suffices, else from the largest first, and all of them of the
    leader's group.

    Replicas are taken in turns, in each at most one of a card: two of the same card are half of it each, so
    another card is better, whatever lies between.
    """
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    found, turn, in_this_turn = 0, 0, 0
    while found < count:
        group, free = next_link_group(
            tables, shape, first, last, column, leader, count - found, chosen, found, turn
        )
        # A card is due in a turn only if it gave in the one before: after a turn without any, none follows.
        if free == 0 and in_this_turn == 0:
            return False
        if free == 0:
            turn += 1
            in_this_turn = 0
            continue
        for device in range(first, last):
            of_group = tables.devices[layout.DEVICE_LINK_GROUP, device] == group
            if found < count and of_group and is_in(tables, column, leader, device):
                if fit.device_fits(tables, shape, device) and is_due(tables, device, chosen, found, turn):
                    chosen[found] = device
                    found += 1
                    in_this_turn += 1
    return True


@kernel
def next_link_group(
    tables: Tables,
    shape: int,
    first: int,
    last: int,
    column: int,
    leader: int,
    missing: int,
    taken: Int64Array,
    taken_count: int,
    turn: int,
) -> tuple[int, int]:
    """The link group to take from next, and how many cards it has that are due in this turn.

    The smallest that has all that is missing; if none has, the largest. Only devices of the leader's group in
    ``column`` count.
    """
    best_group, best_free = layout.NOT_SET, 0
    for start in range(first, last):
        group = tables.devices[layout.DEVICE_LINK_GROUP, start]
        # Devices of a group stand side by side; one that is met again changes nothing.
        if start > first and tables.devices[layout.DEVICE_LINK_GROUP, start - 1] == group:
            continue
        free = 0
        for device in range(first, last):
            of_group = tables.devices[layout.DEVICE_LINK_GROUP, device] == group
            if of_group and is_in(tables, column, leader, device):
                free += is_first_due(tables, shape, device, taken, taken_count, turn)
        if best_free >= missing:
            better = missing <= free < best_free
        else:
            better = free > best_free
        if better:
            best_group, best_free = group, free
    return best_group, best_free


@kernel
def is_first_due(
    tables: Tables, shape: int, device: int, taken: Int64Array, taken_count: int, turn: int
) -> bool:
    """True if the device is what its card has to give in this turn: the first that is free."""
    if not fit.device_fits(tables, shape, device):
        return False
    if not is_due(tables, device, taken, taken_count, turn):
        return False
    card = tables.devices[layout.DEVICE_HARDWARE, device]
    # Replicas of a card begin at the row ``card`` (``layout.DEVICE_HARDWARE``).
    for other in range(card, device):
        if tables.devices[layout.DEVICE_HARDWARE, other] == card and fit.device_fits(tables, shape, other):
            if not among(taken, taken_count, other):
                return False
    return True


@kernel
def is_due(tables: Tables, device: int, taken: Int64Array, taken_count: int, turn: int) -> bool:
    """True if exactly ``turn`` others of the device's card were taken, and not the device itself."""
    card = tables.devices[layout.DEVICE_HARDWARE, device]
    of_card = 0
    for index in range(taken_count):
        if taken[index] == device:
            return False
        of_card += tables.devices[layout.DEVICE_HARDWARE, taken[index]] == card
    return bool(of_card == turn)


@kernel
def among(taken: Int64Array, taken_count: int, device: int) -> bool:
    """True if the device is one of the first ``taken_count`` taken."""
    for index in range(taken_count):
        if taken[index] == device:
            return True
    return False


@kernel
def choose_fullest(tables: Tables, shape: int, node: int, count: int, chosen: Int64Array) -> bool:
    """Best fit: the fitting devices with the least room, lowest index first among equals."""
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    for found in range(count):
        best, least = layout.NOT_SET, WHOLE_GPU_MILLI + 1
        for device in range(first, last):
            idle = tables.devices[layout.DEVICE_IDLE_MILLI, device]
            if idle >= least:
                continue
            if fit.share_fits(tables, shape, device) and not among(chosen, found, device):
                best, least = device, idle
        if best == layout.NOT_SET:
            return False
        chosen[found] = best
    return True


@kernel
def random_device(tables: Tables, policy: PolicyTables, shape: int, node: int) -> int:
    """A fitting device, each with the same chance."""
    first = tables.nodes[layout.NODE_FIRST_DEVICE, node]
    last = first + tables.nodes[layout.NODE_DEVICE_COUNT, node]
    fitting = 0
    for device in range(first, last):
        fitting += fit.share_fits(tables, shape, device)
    if fitting == 0:
        return layout.NOT_SET
    # Counted first, so that every choice takes one draw, whatever is found on the way.
    wanted = draw(tables, policy, fitting)
    for device in range(first, last):
        if fit.share_fits(tables, shape, device):
            if wanted == 0:
                return device
            wanted -= 1
    return layout.NOT_SET
