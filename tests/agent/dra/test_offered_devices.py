"""What a node offers to claims is as the vendors' drivers describe it, so that claims for them are served."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.agent.dra.device_pools import DEVICES_MOST, device_pools, pool_slices, slice_name
from gpufleet.agent.dra.offered_device import binary_quantity, bus_id, semantic_version
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.devices.facts import Driver, Engines, GpuFacts, MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.plan import Exclusive, SharingPlan
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId
from tests.agent.dra.claims import a_claim, exactly, given, of_profile, pools_of, slices_of
from tests.agent.node_values import a_gpu, a_node

GOLDEN = Path(__file__).parent / "data" / "slices.json"
CARD = "device.attributes['gpu.nvidia.com']"
NVIDIA = (Driver(Vendor.NVIDIA, "580.95.05", "13.0"),)


def instance(uuid: str, profile: str, start: int, memory_mib: int = 4864) -> MigFacts:
    return MigFacts(uuid, profile, start, start + 7, 0, memory_mib, 14, engines=Engines(copy=1, decoders=0))


def cut_card(index: int) -> Gpu:
    """An A100 cut as NVIDIA's example gpu-test4 wants it."""
    parts = (("3g.20gb", 4, 19968), ("2g.10gb", 2, 9856), ("1g.5gb", 0, 4864), ("1g.5gb", 1, 4864))
    cut = tuple(instance(f"MIG-{index}-{start}", profile, start, memory) for profile, start, memory in parts)
    return a_gpu(f"GPU-{index}", mig=cut, product="NVIDIA A100-SXM4-40GB", memory_mib=40_960, minor=index)


def whole_card(index: int, **more: Any) -> Gpu:
    known: dict[str, Any] = {
        "minor": index,
        "pci_bus_id": f"00000000:1{index}:00.0",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "compute_capability": (9, 0),
        "numa_node": index % 2,
    }
    return a_gpu(f"GPU-{index}", **known, **more)


def other_card(vendor: Vendor, uuid: str, **facts: object) -> Gpu:
    known = GpuFacts(DeviceId(uuid), vendor, 0, **facts)  # type: ignore[arg-type]
    return Gpu(known, SharingPlan(known.uuid, Exclusive()))


def amd_card(**more: object) -> Gpu:
    return other_card(
        Vendor.AMD,
        "GPU-0x1a2b",
        product="AMD Instinct MI300X",
        minor=1,
        memory_mib=196_608,
        multiprocessors=304,
        simd_units=1216,
        pci_device=0x74A1,
        pci_bus_id="0000:05:00.0",
        numa_node=1,
        device_nodes=("/dev/dri/card1", "/dev/dri/renderD128"),
        **more,
    )


def intel_card() -> Gpu:
    return other_card(
        Vendor.INTEL,
        "0000:03:00.0-0x56c0",
        product="Intel Data Center GPU Flex 170",
        memory_mib=16_384,
        pci_device=0x56C0,
        pci_bus_id="0000:03:00.0",
        kernel_driver="i915",
        device_nodes=("/dev/dri/card0",),
    )


def a_mixed_node() -> NodeGpus:
    """One card of each kind."""
    parts = tuple(
        MigFacts(
            f"part-{number}", "cpx_nps4", number, 0, 0, 98_304, 152,
            device_nodes=(f"/dev/dri/renderD{128 + number}",),
        )
        for number in range(2)
    )  # fmt: skip
    return a_node(
        whole_card(0),
        cut_card(1),
        amd_card(mig=parts, partitioning="cpx_nps4"),
        intel_card(),
        drivers=(*NVIDIA, Driver(Vendor.AMD, "6.10.5"), Driver(Vendor.INTEL, "")),
    )


def test_slices_are_those_of_the_vendors_drivers() -> None:
    made = msgspec.json.format(msgspec.json.encode(slices_of(a_mixed_node()), order="sorted"), indent=1)
    assert made.decode() + "\n" == GOLDEN.read_text(encoding="utf-8")


def test_a_claim_gets_a_card_and_two_claims_get_two() -> None:
    slices = slices_of(a_node(whole_card(0), whole_card(1), drivers=NVIDIA))
    one, two = (a_claim(exactly("gpu", "gpu.nvidia.com"), name=name) for name in ("one", "two"))
    assert given(slices, one, two) == [["gpu-0"], ["gpu-1"]]


def test_a_claim_for_several_cards_counts_them() -> None:
    slices = slices_of(a_node(*map(whole_card, range(4)), drivers=NVIDIA))
    assert given(slices, a_claim(exactly("gpu", "gpu.nvidia.com", count=2))) == [["gpu-0", "gpu-1"]]
    every = a_claim(exactly("gpu", "gpu.nvidia.com", allocationMode="All"))
    assert given(slices, every) == [["gpu-0", "gpu-1", "gpu-2", "gpu-3"]]


def test_four_instances_of_a_claim_are_of_one_card() -> None:
    """As in the example gpu-test4 of NVIDIA's driver."""
    slices = slices_of(a_node(*map(cut_card, range(4)), drivers=NVIDIA))
    requests = [
        of_profile("mig-1g-5gb-0", "1g.5gb"),
        of_profile("mig-1g-5gb-1", "1g.5gb"),
        of_profile("mig-2g-10gb", "2g.10gb"),
        of_profile("mig-3g-20gb", "3g.20gb"),
    ]
    claims = [a_claim(*requests, same="gpu.nvidia.com/parentUUID", name=f"c{n}") for n in range(4)]
    found = given(slices, *claims)
    assert isinstance(found, list)
    for number, names in enumerate(found):
        assert names == [
            f"gpu-{number}-mig-1g5gb-19-0",
            f"gpu-{number}-mig-1g5gb-19-1",
            f"gpu-{number}-mig-2g10gb-14-2",
            f"gpu-{number}-mig-3g20gb-9-4",
        ]


@pytest.mark.parametrize(
    "selector",
    [
        f"{CARD}.productName.lowerAscii().matches('^.*h100.*$')",
        f"{CARD}.driverVersion.isGreaterThan(semver('570.0.0'))",
        f"{CARD}.cudaComputeCapability.compareTo(semver('9.0.0')) == 0",
        f"{CARD}.architecture == 'Hopper' && {CARD}.brand == 'Nvidia'",
        "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) > 0",
        "device.attributes['resource.kubernetes.io'].pciBusID == '0000:10:00.0'",
        "device.attributes['resource.kubernetes.io'].numaNode == 0",
        f"{CARD}.uuid == 'GPU-0'",
    ],
)
def test_a_card_is_chosen_by_what_it_is(selector: str) -> None:
    node = a_node(
        whole_card(0),
        a_gpu("GPU-1", product="Tesla T4", memory_mib=15_360, minor=1, compute_capability=(7, 5),
              architecture="Turing", brand="Tesla", pci_bus_id="00000000:20:00.0", numa_node=1),
        drivers=NVIDIA,
    )  # fmt: skip
    chosen = given(slices_of(node), a_claim(exactly("gpu", "gpu.nvidia.com", selector)))
    assert chosen == [["gpu-0"]]


def test_other_vendors_cards_are_chosen_by_their_own_words() -> None:
    slices = slices_of(a_mixed_node())
    partition = exactly("p", "gpu.amd.com", "device.attributes['gpu.amd.com'].type == 'amdgpu-partition'")
    assert given(slices, a_claim(partition)) == [["gpu-1-128"]]
    flex = exactly("f", "gpu.intel.com", "device.attributes['gpu.intel.com'].family == 'Flex'")
    assert given(slices, a_claim(flex)) == [["0000-03-00-0-0x56c0"]]


def test_a_sick_card_gets_no_claim_until_it_is_well() -> None:
    sick = whole_card(0, health=Verdict.UNHEALTHY, reason="Xid 79: it fell off the bus")
    claim = a_claim(exactly("gpu", "gpu.nvidia.com"))
    assert isinstance(given(slices_of(a_node(sick, drivers=NVIDIA)), claim), str)
    assert given(slices_of(a_node(whole_card(0), drivers=NVIDIA)), claim) == [["gpu-0"]]


def test_a_claim_may_tolerate_an_xid() -> None:
    sick = whole_card(0, health=Verdict.UNHEALTHY, reason="Xid 48: a double-bit error")
    toleration = {"key": "gpu.nvidia.com/xid", "operator": "Equal", "value": "48"}
    claim = a_claim(exactly("gpu", "gpu.nvidia.com", tolerations=[toleration]))
    assert given(slices_of(a_node(sick, drivers=NVIDIA)), claim) == [["gpu-0"]]


@pytest.mark.parametrize(
    ("gpu", "taint"),
    [
        ({"health": Verdict.UNHEALTHY, "reason": "the driver does not find it any more"}, ("gpu-lost", "")),
        ({"health": Verdict.UNKNOWN, "reason": "no answer to a reading for 30 s"}, ("unmonitored", "")),
        (
            {"health": Verdict.UNHEALTHY, "reason": "a broken row of its memory could not be remapped"},
            ("out-of-service", "row_remap"),
        ),
    ],
)
def test_each_reason_has_its_taint(gpu: dict[str, Any], taint: tuple[str, str]) -> None:
    (pool,) = pools_of(a_node(whole_card(0, **gpu), drivers=NVIDIA))
    (found,) = pool.devices[0].written.taints
    assert (found.key, found.value, found.effect) == (f"gpu.nvidia.com/{taint[0]}", taint[1], "NoSchedule")


def test_a_sick_instance_leaves_its_card_and_siblings_alone() -> None:
    card = cut_card(0)
    sick = msgspec.structs.replace(card, sick_instances={"MIG-0-2": "Xid 95: contained"})
    (pool,) = pools_of(a_node(sick, drivers=NVIDIA))
    assert [one.instance for one in pool.devices if one.written.taints] == ["MIG-0-2"]


def test_many_devices_are_several_slices_of_one_pool() -> None:
    (pool,) = pools_of(a_node(*map(whole_card, range(DEVICES_MOST + 1)), drivers=NVIDIA))
    slices = pool_slices(pool, 3)
    assert [len(one.devices) for one in slices] == [DEVICES_MOST, 1]
    assert {(one.pool.name, one.pool.generation, one.pool.resource_slice_count) for one in slices} == {
        ("node-1/gpu.nvidia.com", 3, 2)
    }
    assert slice_name(pool, 0) != slice_name(pool, 1)


def test_a_vendor_whose_cards_all_go_elsewhere_has_an_empty_slice() -> None:
    (pool,) = device_pools(a_node(whole_card(0), drivers=NVIDIA), lambda _: False)
    assert [one.devices for one in pool_slices(pool, 1)] == [()]


@pytest.mark.parametrize(
    ("text", "version"),
    [("580.95.05", "580.95.5"), ("13.0", "13.0.0"), ("", ""), ("6.10.5-rc1", ""), (None, "")],
)
def test_versions_are_semantic(text: str | None, version: str) -> None:
    assert semantic_version(text) == version


@pytest.mark.parametrize(
    ("text", "address"),
    [("00000000:3B:00.0", "0000:3b:00.0"), ("0000:3b:00.0", "0000:3b:00.0"), ("pci", ""), (None, "")],
)
def test_addresses_have_four_digits_of_domain(text: str | None, address: str) -> None:
    assert bus_id(text) == address


@pytest.mark.parametrize(
    ("mib", "text"), [(81_559, "81559Mi"), (81_920, "80Gi"), (3_145_728, "3Ti"), (0, "0")]
)
def test_memory_is_as_the_server_writes_it(mib: int, text: str) -> None:
    assert binary_quantity(mib) == text
