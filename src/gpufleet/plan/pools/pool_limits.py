"""A plan is held to what the limits of the NodePools leave.

Each type alone has a bound that follows from the limits of its pool, before anything is planned. Several
types of one pool may pass its limit together. Then each is bounded by what the plan takes of it, the type of
which it takes most GPUs first, and the plan is made anew.
"""

from collections.abc import Mapping, Sequence

import msgspec

from gpufleet.model.node_pool import NODES, Amounts
from gpufleet.model.quantity import parse_quantity
from gpufleet.model.resource_names import CPU, MEMORY
from gpufleet.model.resources import MEBIBYTE
from gpufleet.plan.instance_types import NODE_COUNT_MAX, InstanceType
from gpufleet.plan.pools.overlays import gpu_resource

Left = Mapping[str, Amounts]
"""By how much each pool may still grow, by resource."""


def amounts_of(one: InstanceType) -> Amounts:
    """What a node of the type counts against limits."""
    found = {name: parse_quantity(text).value() for name, text in one.amounts}
    return {
        **found,
        CPU: one.cpu_milli,
        MEMORY: one.memory_mib * MEBIBYTE,
        gpu_resource(one): one.gpus,
        NODES: 1,
    }


def most_of(one: InstanceType, left: Amounts) -> int:
    """How many such nodes a pool may buy, were no other type bought."""
    bounds = [left[name] // amount for name, amount in amounts_of(one).items() if amount and name in left]
    return min([NODE_COUNT_MAX if one.most is None else one.most, *bounds])


def bounded(types: Sequence[InstanceType], left: Left) -> tuple[InstanceType, ...]:
    """The types with the number that can be had of each alone."""
    return tuple(
        msgspec.structs.replace(one, most=most_of(one, left[one.pool])) if left.get(one.pool) else one
        for one in types
    )


def exceeded(types: Sequence[InstanceType], counts: Sequence[int], left: Left) -> list[str]:
    """The pools of which a purchase takes more than their limits leave, by name."""
    return [pool for pool in sorted(left) if _is_too_much(types, counts, pool, left[pool])]


def _is_too_much(types: Sequence[InstanceType], counts: Sequence[int], pool: str, left: Amounts) -> bool:
    taken: Amounts = {}
    for one, count in zip(types, counts, strict=True):
        if one.pool == pool and count:
            for name, amount in amounts_of(one).items():
                taken[name] = taken.get(name, 0) + count * amount
    return any(taken.get(name, 0) > amount for name, amount in left.items())


def within(
    types: Sequence[InstanceType], counts: Sequence[int], pools: Sequence[str], left: Left
) -> tuple[InstanceType, ...]:
    """The types with bounds by which no purchase passes the limits of these pools."""
    found = list(types)
    for pool in pools:
        rest = dict(left[pool])
        places = [index for index, one in enumerate(types) if one.pool == pool]
        for index in sorted(places, key=lambda index: -counts[index] * types[index].gpus):
            one = types[index]
            most = min(counts[index], most_of(one, rest))
            found[index] = msgspec.structs.replace(one, most=most)
            for name, amount in amounts_of(one).items():
                if name in rest:
                    rest[name] -= most * amount
    return tuple(found)
