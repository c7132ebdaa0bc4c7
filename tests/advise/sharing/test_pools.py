"""What becomes of choices on a fleet: shared where it frees GPUs, whole where that is right."""

from fractions import Fraction

import msgspec

from gpufleet.advise.sharing.choosing import Mode
from gpufleet.advise.sharing.pools import SharingPlan, plan
from gpufleet.advise.sharing.workload import SharingWorkload
from gpufleet.model.resources import Resources
from gpufleet.usage.samples import SampleKind
from tests.advise.sharing.measured import A100, busy, fleet, workload

FIVE_PERCENT = Fraction(5, 100)
EXPERIMENT = SampleKind.EXPERIMENT


def modes(found: SharingPlan) -> dict[str, Mode]:
    return {choice.workload.name: choice.mode for choice in found.choices}


def test_four_notebooks_in_turn_take_one_gpu() -> None:
    pods = [busy(80, 2 * at, 2 * at + 1) for at in range(4)]
    found = plan([workload("notebooks", *pods, kind=SampleKind.NOTEBOOK)], fleet(4), FIVE_PERCENT)
    assert (found.today_gpus, found.gpus) == ({A100: 4}, 1)
    (pool,) = found.pools
    assert (pool.mode, pool.holders, pool.risk) == (Mode.TIME_SLICE, 4, Fraction(0))


def test_fewer_share_a_gpu_where_three_want_too_much() -> None:
    # Three of 40 % are 120 % all the time, two are 80 %: two GPUs for three pods.
    found = plan([workload("trials", *[busy(40)] * 3, kind=EXPERIMENT)], fleet(4), FIVE_PERCENT)
    (pool,) = found.pools
    assert (pool.holders, len(pool.on_device), pool.risk) == (2, 2, Fraction(0))


def test_who_is_busy_at_once_gets_whole_gpus() -> None:
    # 45 % on average, but all of it in the same nine of twenty instants.
    found = plan([workload("trials", *[busy(100, *range(9))] * 2, kind=EXPERIMENT)], fleet(2), FIVE_PERCENT)
    assert modes(found) == {"trials": Mode.WHOLE}
    assert found.gpus == 2
    assert (
        found.choices[0].reasons[-1] == "shared, a GPU would be wanted beyond 100 % in 45.0 % of the instants"
    )


def test_the_busiest_goes_and_the_others_still_share() -> None:
    calm = workload("calm", *[busy(20)] * 2, kind=EXPERIMENT)
    loud = workload("loud", *[busy(100, *range(9))] * 2, kind=EXPERIMENT)
    found = plan([calm, loud], fleet(4), FIVE_PERCENT)
    assert modes(found) == {"calm": Mode.TIME_SLICE, "loud": Mode.WHOLE}
    assert found.gpus == 3


def test_one_alone_stays_whole() -> None:
    found = plan([workload("notebook", busy(5), kind=SampleKind.NOTEBOOK)], fleet(2), FIVE_PERCENT)
    assert modes(found) == {"notebook": Mode.WHOLE}
    assert "free no GPU" in found.choices[0].reasons[-1]


def test_clients_of_mps_each_have_enough_threads() -> None:
    # 30 % of the threads for each: three clients, 90 % together. So six pods take two GPUs.
    found = plan([workload("embed", *[busy(30)] * 6, kind=SampleKind.INFERENCE)], fleet(6), FIVE_PERCENT)
    (pool,) = found.pools
    assert (pool.mode, pool.holders, len(pool.on_device)) == (Mode.MPS, 3, 2)


def test_memory_bounds_how_many_share() -> None:
    # 22,000 MiB and a tenth are 24,200; three are 72,600 of 81,920, four are more.
    found = plan(
        [workload("trials", *[busy(5)] * 4, kind=EXPERIMENT, memory_mib=22000)], fleet(4), FIVE_PERCENT
    )
    assert max(len(on) for on in found.pools[0].on_device.values()) <= 3
    assert found.gpus == 2


def test_fractions_are_booked_by_what_each_needs() -> None:
    # 30 % each: three are 90 % of a GPU, so seven pods need three GPUs.
    found = plan([workload("some", *[busy(30)] * 7)], fleet(8), FIVE_PERCENT)
    (pool,) = found.pools
    assert (pool.mode, len(pool.on_device)) == (Mode.FRACTION, 3)


def test_each_gpu_has_one_mode_and_each_pod_one_place() -> None:
    works = [
        workload("big", busy(90), gpus=2, kind=SampleKind.DISTRIBUTED),
        workload("notebooks", *[busy(5)] * 3, kind=SampleKind.NOTEBOOK),
        workload("servers", *[busy(15)] * 3, kind=SampleKind.INFERENCE),
        workload("tenants", *[busy(10)] * 3, strict=True),
        workload("others", *[busy(10)] * 3),
    ]
    found = plan(works, fleet(8, 8), FIVE_PERCENT)
    offered = [device for pool in found.pools for device in pool.on_device]
    assert len(offered) == len(set(offered)) == 6
    assert not found.unplaced
    # Turns and MPS are asked for by one name, so they are on different nodes.
    nodes = {pool.mode: set(pool.node_of.values()) for pool in found.pools}
    assert not nodes[Mode.MPS] & nodes[Mode.TIME_SLICE]


def test_what_has_no_room_today_is_said() -> None:
    found = plan([workload("big", busy(90), busy(90), kind=SampleKind.TRAINING)], fleet(1), FIVE_PERCENT)
    assert found.unplaced_today == found.unplaced == ("big/pod-1",)
    assert found.today_gpus == {A100: 1}


def test_sharing_that_finds_no_room_of_its_own_comes_back_to_whole() -> None:
    # One node of two GPUs cannot have both MPS and turns: the second finds no node.
    works = [
        workload("notebooks", *[busy(5)] * 2, kind=SampleKind.NOTEBOOK),
        workload("servers", *[busy(15)] * 2, kind=SampleKind.INFERENCE),
    ]
    found = plan(works, fleet(4), FIVE_PERCENT)
    assert modes(found) == {"notebooks": Mode.WHOLE, "servers": Mode.MPS}
    assert (found.today_gpus, found.gpus, found.unplaced) == ({A100: 4}, 3, ())


def tenants(**uses: tuple[int, ...]) -> list[SharingWorkload]:
    """Strictly isolated workloads, each with pods of these uses."""
    return [workload(name, *map(busy, pods), strict=True) for name, pods in uses.items()]


def cut(found: SharingPlan) -> list[tuple[str, ...]]:
    """What the cards are cut into."""
    return [tuple(sorted(names, reverse=True)) for pool in found.pools for names in pool.instances.values()]


def test_instances_of_several_sizes_share_a_card() -> None:
    # 40 % need 3/7 of the slices, 25 % need 2/7, 10 % 1/7: 3g, 2g and 1g stand together on an A100.
    found = plan(tenants(large=(40,), middle=(25,), small=(10,)), fleet(4), FIVE_PERCENT)
    assert (found.today_gpus, found.gpus, found.unplaced) == ({A100: 3}, 1, ())
    assert cut(found) == [("3g.40gb", "2g.20gb", "1g.10gb")]


def test_more_than_a_card_holds_goes_to_a_second() -> None:
    # Two of 3g fill a card, so 2g and 1g, and another 3g, are on the next.
    found = plan(tenants(large=(40, 40, 40), middle=(25,), small=(10,)), fleet(4), FIVE_PERCENT)
    assert sorted(cut(found)) == [("3g.40gb", "2g.20gb", "1g.10gb"), ("3g.40gb", "3g.40gb")]


def test_who_is_on_a_cut_card_for_nothing_has_a_whole_one() -> None:
    # Two of 55 % (4g, one on a card) and seven of 10 % (1g): beside each 4g three 1g, so three cards; the
    # seven alone take one, and with two whole ones that is three as well.
    found = plan(tenants(large=(55, 55), small=(10,) * 7), fleet(9), FIVE_PERCENT)
    assert modes(found) == {"large": Mode.WHOLE, "small": Mode.MIG}
    assert found.gpus == 3
    assert "free no GPU" in found.choices[0].reasons[-1]


def test_who_fills_what_others_leave_stays_there() -> None:
    found = plan(tenants(large=(55, 55), small=(10,) * 6), fleet(8), FIVE_PERCENT)
    assert (modes(found), found.gpus) == ({"large": Mode.MIG, "small": Mode.MIG}, 2)


def test_an_instance_that_is_too_small_too_often_is_none() -> None:
    # 28 % in 19 instants make it a 2g (28.5 %); at one of twenty it wants 90 %. Without any risk it is whole.
    works = [*tenants(calm=(10, 10)), workload("spiky", [28] * 19 + [90], strict=True)]
    assert modes(plan(works, fleet(3), FIVE_PERCENT)) == {"calm": Mode.MIG, "spiky": Mode.MIG}
    found = plan(works, fleet(3), Fraction(0))
    assert modes(found) == {"calm": Mode.MIG, "spiky": Mode.WHOLE}
    assert found.choices[1].reasons[-1] == "2g.20gb would be too small in 5.0 % of the instants"


def test_pods_of_a_cut_card_need_the_cpu_of_its_node() -> None:
    # Each asks for 10 CPUs and a node has 16: two on one card would be on one node.
    works = [msgspec.structs.replace(one, cpu_milli=10_000) for one in tenants(small=(10, 10))]
    nodes = tuple(
        msgspec.structs.replace(node, allocatable=Resources(cpu_milli=16_000, pods=110))
        for node in fleet(1, 1)
    )
    found = plan(works, nodes, FIVE_PERCENT)
    assert (modes(found), found.unplaced) == ({"small": Mode.WHOLE}, ())
    assert "finds no room" in found.choices[0].reasons[-1]
