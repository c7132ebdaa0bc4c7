"""Each GPU is counted under the names that users know, once."""

import pytest

from gpufleet.agent.state.node_state import Gpu
from gpufleet.agent.units.node_units import by_resource, device_of, node_units
from gpufleet.devices.facts import MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.plan import Fractions, Mig, Mps, TimeSlice
from gpufleet.model.gpu_catalogue import Vendor
from tests.agent.plugin_world import a_gpu, a_node, cut


def names(*gpus: Gpu, amd_mixed: bool = False) -> dict[str, list[str]]:
    units = node_units(a_node(*gpus), amd_mixed=amd_mixed)
    return {resource: [unit.id for unit in its] for resource, its in by_resource(units).items()}


def test_a_whole_gpu_is_its_uuid_with_its_numa_node() -> None:
    units = node_units(a_node(a_gpu(0, numa_node=1), a_gpu(1, numa_node=None)))
    assert [(one.resource, one.id, one.numa_node) for one in units.values()] == [
        ("nvidia.com/gpu", "GPU-0", 1),
        ("nvidia.com/gpu", "GPU-1", None),
    ]


def test_replicas_are_numbered_and_renamed_where_that_is_asked() -> None:
    assert names(a_gpu(0, TimeSlice(2)), a_gpu(1, Mps(2, 1024, 50), renamed=True)) == {
        "nvidia.com/gpu": ["GPU-0::0", "GPU-0::1"],
        "nvidia.com/gpu.shared": ["GPU-1::0", "GPU-1::1"],
    }


def test_instances_are_named_after_their_profile_with_a_dot_for_a_plus() -> None:
    assert names(cut(0, "1g.5gb", "1g.5gb+me", "3g.20gb"), a_gpu(1)) == {
        "nvidia.com/mig-1g.5gb": ["MIG-0-0"],
        "nvidia.com/mig-1g.5gb.me": ["MIG-0-1"],
        "nvidia.com/mig-3g.20gb": ["MIG-0-2"],
        "nvidia.com/gpu": ["GPU-1"],
    }


def test_with_strategy_single_instances_are_gpus() -> None:
    assert names(cut(0, "1g.5gb", "1g.5gb", mode=Mig(None, as_gpus=True))) == {
        "nvidia.com/gpu": ["MIG-0-0", "MIG-0-1"]
    }


def test_replicas_of_instances_are_those_of_their_profile() -> None:
    mode = Mig(None, {"1g.5gb": 2})
    assert names(cut(0, "1g.5gb", "2g.10gb", mode=mode, renamed=True)) == {
        "nvidia.com/mig-1g.5gb.shared": ["MIG-0-0::0", "MIG-0-0::1"],
        "nvidia.com/mig-2g.10gb": ["MIG-0-1"],
    }


def test_a_card_of_fractions_is_no_whole_device() -> None:
    assert names(a_gpu(0, Fractions(10)), a_gpu(1)) == {"nvidia.com/gpu": ["GPU-1"]}


def partitioned(index: int, kind: str, count: int) -> Gpu:
    parts = [MigFacts(f"GPU-{index}-p{part}", kind, part, part, 0) for part in range(count)]
    return a_gpu(index, Mig(None), vendor=Vendor.AMD, mig=parts)


def test_amds_partitions_are_gpus_or_named_after_their_kind() -> None:
    cards = (partitioned(0, "cpx_nps4", 2), partitioned(1, "cpx_nps4", 2))
    ids = ["GPU-0-p0", "GPU-0-p1", "GPU-1-p0", "GPU-1-p1"]
    assert names(*cards) == {"amd.com/gpu": ids}
    assert names(*cards, amd_mixed=True) == {"amd.com/cpx_nps4": ids}


def test_on_a_node_whose_amd_cards_differ_partitions_keep_their_names_apart() -> None:
    assert names(partitioned(0, "cpx_nps4", 1), a_gpu(1, vendor=Vendor.AMD)) == {
        "amd.com/cpx_nps4": ["GPU-0-p0"],
        "amd.com/gpu": ["GPU-1"],
    }


@pytest.mark.parametrize("driver", ["i915", "xe"])
def test_intels_cards_are_named_after_their_kernel_driver(driver: str) -> None:
    assert names(a_gpu(0, vendor=Vendor.INTEL, kernel_driver=driver)) == {
        f"gpu.intel.com/{driver}": ["GPU-0"]
    }


@pytest.mark.parametrize("verdict", [Verdict.UNHEALTHY, Verdict.UNKNOWN])
def test_a_sick_card_takes_its_replicas_and_instances_along_and_nothing_else(verdict: Verdict) -> None:
    cards = (a_gpu(0, TimeSlice(2), health=verdict), cut(1, "1g.5gb", health=verdict), a_gpu(2))
    units = node_units(a_node(*cards))
    assert [name for name, unit in units.items() if unit.healthy] == ["GPU-2"]


def test_a_sick_instance_is_sick_alone() -> None:
    units = node_units(a_node(cut(0, "1g.5gb", "1g.5gb", sick=["MIG-0-1"])))
    assert [name for name, unit in units.items() if unit.healthy] == ["MIG-0-0"]


def test_the_device_behind_a_unit_is_told_by_its_name() -> None:
    assert device_of("GPU-0::3") == device_of("GPU-0") == "GPU-0"
