"""What has to be written for a pool, at every point where a process may have been killed."""

import itertools
from collections.abc import Iterable

import msgspec

from gpufleet.agent.dra.device_pools import DEVICES_MOST, DevicePool, device_pools
from gpufleet.agent.dra.slice_plan import SlicePlan, slice_plan
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.resource_slices import ResourceSliceObject
from tests.agent.node_values import a_gpu, a_node


def pool_of(cards: int) -> DevicePool:
    node = a_node(*(a_gpu(f"GPU-{number}", minor=number) for number in range(cards + 1)))
    (pool,) = device_pools(node, lambda gpu: gpu.facts.minor != cards)
    return pool


def writes(plan: SlicePlan) -> int:
    return len(plan.created) + len(plan.changed) + len(plan.deleted)


def written(there: Iterable[ResourceSliceObject], plan: SlicePlan, count: int) -> list[ResourceSliceObject]:
    """What is there after so many of the writes."""
    state = {one.metadata.name: one for one in there}
    steps = itertools.chain(
        (("put", ResourceSliceObject(Metadata(name), spec)) for name, spec in plan.created),
        (("put", msgspec.structs.replace(one, spec=spec)) for one, spec in plan.changed),
        (("delete", one) for one in plan.deleted),
    )
    for verb, one in itertools.islice(steps, count):
        if verb == "put":
            state[one.metadata.name] = one
        else:
            del state[one.metadata.name]
    return list(state.values())


def settled(pool: DevicePool, there: Iterable[ResourceSliceObject] = ()) -> list[ResourceSliceObject]:
    plan = slice_plan(pool, there)
    return written(there, plan, writes(plan))


def test_nothing_is_written_where_nothing_differs() -> None:
    pool = pool_of(2 * DEVICES_MOST)
    assert writes(slice_plan(pool, settled(pool))) == 0


def test_a_change_is_the_next_generation_of_all_slices() -> None:
    before, after = pool_of(DEVICES_MOST + 2), pool_of(DEVICES_MOST + 1)
    found = settled(after, settled(before))
    assert {(one.spec.pool.generation, one.spec.pool.resource_slice_count) for one in found} == {(2, 2)}


def test_a_pool_that_shrinks_loses_its_last_slice_after_the_others_changed() -> None:
    plan = slice_plan(pool_of(1), settled(pool_of(DEVICES_MOST + 1)))
    assert (len(plan.created), len(plan.changed), len(plan.deleted)) == (0, 1, 1)


def test_killed_after_any_write_the_next_process_comes_to_the_same_slices() -> None:
    sizes = (0, 1, DEVICES_MOST, DEVICES_MOST + 1, 3 * DEVICES_MOST)
    for before, after in itertools.product(sizes, sizes):
        first, pool = settled(pool_of(before)), pool_of(after)
        plan = slice_plan(pool, first)
        whole = written(first, plan, writes(plan))
        for count in range(writes(plan) + 1):
            assert sorted(settled(pool, written(first, plan, count)), key=name_of) == sorted(
                whole, key=name_of
            ), (before, after, count)


def name_of(one: ResourceSliceObject) -> str:
    return one.metadata.name


def test_at_no_write_two_generations_are_whole_at_once() -> None:
    """The newest counts; the older must not be taken for it while the newer is incomplete."""
    first, pool = settled(pool_of(2 * DEVICES_MOST)), pool_of(DEVICES_MOST + 1)
    plan = slice_plan(pool, first)
    for count in range(1, writes(plan) + 1):
        state = written(first, plan, count)
        newest = max(one.spec.pool.generation for one in state)
        assert newest == 2
