"""AMD's and Intel's labels, by the sources of AMD's node labeller and Intel's rules for labels."""

from typing import Any

from gpufleet.agent.labels import node_labels
from gpufleet.agent.labels.amd import amd_labels
from gpufleet.agent.labels.intel import intel_labels
from gpufleet.agent.state.node_state import Gpu
from gpufleet.devices.facts import Driver, MigFacts
from gpufleet.model.gpu_catalogue import Vendor
from tests.agent.labels.nodes import a_gpu, a_node

MI300X: dict[str, Any] = {
    "vendor": Vendor.AMD,
    "product": "AMD Instinct MI300X OAM",
    "memory_mib": 196_592,
    "multiprocessors": 304,
    "simd_units": 1216,
    "architecture": "gfx942",
    "pci_device": 0x74A1,
    "partitioning": "spx_nps1",
    "compute_capability": None,
}
VEGA10: dict[str, Any] = {
    "vendor": Vendor.AMD,
    "product": "",
    "memory_mib": 16_368,
    "multiprocessors": 64,
    "simd_units": 256,
    "architecture": "gfx900",
    "pci_device": 0x6860,
    "compute_capability": None,
}
MAX_1550: dict[str, Any] = {
    "vendor": Vendor.INTEL,
    "product": "Intel Data Center GPU Max 1550",
    "pci_class": 0x038000,
    "pci_device": 0x0BD5,
    "compute_capability": None,
}


def test_the_example_of_amds_own_documentation() -> None:
    found = amd_labels(a_node(a_gpu(0, **VEGA10)))
    published = {
        "beta.amd.com/gpu.cu-count.64": "1",
        "beta.amd.com/gpu.device-id.6860": "1",
        "beta.amd.com/gpu.family.AI": "1",
        "beta.amd.com/gpu.simd-count.256": "1",
        "beta.amd.com/gpu.vram.16G": "1",
    }
    assert {name: found.get(name) for name in published} == published


def test_cards_that_agree_are_told_by_value() -> None:
    driver = Driver(Vendor.AMD, "6.10.5")
    found = amd_labels(a_node(a_gpu(0, **MI300X), a_gpu(1, **MI300X), drivers=(driver,)))
    plain = {name: value for name, value in found.items() if not name.startswith("beta.")}
    assert plain == {
        "amd.com/gpu.vram": "192G",
        "amd.com/gpu.cu-count": "304",
        "amd.com/gpu.simd-count": "1216",
        "amd.com/gpu.device-id": "74a1",
        "amd.com/gpu.family": "AI",
        "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
        "amd.com/gpu.driver-version": "6.10.5",
        "amd.com/compute-memory-partition": "spx_nps1",
        "amd.com/compute-partitioning-supported": "true",
        "amd.com/memory-partitioning-supported": "true",
    }
    assert found["beta.amd.com/gpu.vram"] == "192G"
    assert found["beta.amd.com/gpu.vram.192G"] == "2"


def test_cards_that_differ_are_counted_by_value() -> None:
    found = amd_labels(a_node(a_gpu(0, **MI300X), a_gpu(1, **VEGA10)))
    assert {name: value for name, value in found.items() if "cu-count" in name} == {
        "amd.com/gpu.cu-count.304": "1",
        "amd.com/gpu.cu-count.64": "1",
        "beta.amd.com/gpu.cu-count.304": "1",
        "beta.amd.com/gpu.cu-count.64": "1",
    }
    assert "amd.com/compute-memory-partition" not in found


def test_partitions_count_as_devices() -> None:
    parts = tuple(
        MigFacts(f"p{at}", "cpx_nps4", at, at, 0, memory_mib=24_574, multiprocessors=38) for at in range(8)
    )
    card = {**MI300X, "partitioning": "cpx_nps4", "mig_enabled": True, "mig": parts}
    found = amd_labels(a_node(a_gpu(0, **card)))
    assert found["beta.amd.com/gpu.vram.24G"] == "8"
    assert (found["amd.com/gpu.cu-count"], found["amd.com/gpu.simd-count"]) == ("38", "152")
    assert found["amd.com/compute-memory-partition"] == "cpx_nps4"


def test_a_card_that_cannot_be_partitioned() -> None:
    found = amd_labels(a_node(a_gpu(0, **VEGA10)))
    assert found["amd.com/compute-partitioning-supported"] == "false"
    assert found["amd.com/memory-partitioning-supported"] == "false"


def test_intels_cards_for_data_centres() -> None:
    assert intel_labels(a_node(a_gpu(0, **MAX_1550), a_gpu(1, **MAX_1550))) == {
        "gpu.intel.com/device-id.0380-0bd5.present": "true",
        "gpu.intel.com/device-id.0380-0bd5.count": "2",
        "gpu.intel.com/device.count": "2",
        "gpu.intel.com/product": "Max_1550",
        "gpu.intel.com/family": "Max_Series",
    }


def test_intels_cards_for_workstations_have_a_family_and_no_product() -> None:
    card = {**MAX_1550, "product": "Intel Arc A770 Graphics", "pci_class": 0x030000, "pci_device": 0x56A0}
    assert intel_labels(a_node(a_gpu(0, **card))) == {
        "gpu.intel.com/device-id.0300-56a0.present": "true",
        "gpu.intel.com/device-id.0300-56a0.count": "1",
        "gpu.intel.com/family": "A_Series",
    }


def test_an_unknown_card_of_intel_is_told_by_its_number_alone() -> None:
    card = {**MAX_1550, "product": "Intel GPU 0x9999", "pci_device": 0x9999}
    assert set(intel_labels(a_node(a_gpu(0, **card)))) == {
        "gpu.intel.com/device-id.0380-9999.present",
        "gpu.intel.com/device-id.0380-9999.count",
    }


def test_vendors_side_by_side() -> None:
    gpus: tuple[Gpu, ...] = (a_gpu(0), a_gpu(1, **MI300X), a_gpu(2, **MAX_1550))
    found = node_labels(a_node(*gpus), "machine")
    assert found["nvidia.com/gpu.count"] == "1"
    assert found["amd.com/gpu.vram"] == "192G"
    assert found["gpu.intel.com/product"] == "Max_1550"
