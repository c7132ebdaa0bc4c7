"""Which slices have to be written so that the API server says what a pool is; a pure comparison.

A pool changes as one: all its slices carry a generation, and only the highest counts. So where one differs
all are written with the next; where nothing differs nothing is written. After a process that was killed
between two writes, what it wrote with a generation stays, and what lacks comes with the same one.
"""

from collections.abc import Callable, Iterable

import msgspec

from gpufleet.agent.dra.device_pools import DevicePool, pool_slices, slice_name
from gpufleet.kube.objects.resource_slices import ResourceSliceObject, ResourceSliceSpec

Alike = Callable[[ResourceSliceSpec, ResourceSliceSpec], bool]
"""Whether the first, as the server has it, says what the second was meant to say."""


class SlicePlan(msgspec.Struct, frozen=True):
    """What to write, in this order: slices that lack, slices that change, slices that are too many."""

    created: tuple[tuple[str, ResourceSliceSpec], ...] = ()
    changed: tuple[tuple[ResourceSliceObject, ResourceSliceSpec], ...] = ()
    deleted: tuple[ResourceSliceObject, ...] = ()


def is_equal(there: ResourceSliceSpec, wanted: ResourceSliceSpec) -> bool:
    """Equality, for a server that keeps what it is sent."""
    return there == wanted


def slice_plan(pool: DevicePool, there: Iterable[ResourceSliceObject], alike: Alike = is_equal) -> SlicePlan:
    """What makes the slices of this pool that are there what they should be."""
    by_name = {one.metadata.name: one for one in there}
    newest = max((one.spec.pool.generation for one in by_name.values()), default=1)
    wanted = _named(pool, newest)
    current = {name: one for name, one in by_name.items() if one.spec.pool.generation == newest}
    if not all(name in wanted and alike(one.spec, wanted[name]) for name, one in current.items()):
        wanted, current = _named(pool, newest + 1), {}
    outdated = by_name.keys() & wanted.keys() - current.keys()
    return SlicePlan(
        tuple((name, spec) for name, spec in wanted.items() if name not in by_name),
        tuple((by_name[name], spec) for name, spec in wanted.items() if name in outdated),
        tuple(one for name, one in by_name.items() if name not in wanted),
    )


def _named(pool: DevicePool, generation: int) -> dict[str, ResourceSliceSpec]:
    slices = pool_slices(pool, generation)
    return {slice_name(pool, number): spec for number, spec in enumerate(slices)}
