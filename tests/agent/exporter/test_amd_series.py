"""AMD's cards under the names and labels of AMD's own exporter."""

import pytest

from gpufleet.devices.health import Verdict
from tests.agent.exporter.builders import Node, changed, holds, memory, node_of, pod, sample

MI300 = "model: MI300X"
FULL = sample(
    gpu_busy_pct=55,
    memory_busy_pct=20,
    memory=memory(4096, 192512),
    power_w=410.0,
    energy_mj=1500,
    gpu_celsius=48,
    memory_celsius=52,
    sm_clock_mhz=2100,
    memory_clock_mhz=1300,
    pcie_replays=3,
    uncorrected_errors=0,
)


def amd_node() -> Node:
    node = Node(node_of(MI300))
    node.reads(0, FULL)
    return node


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("gpu_power_usage", {}, 410.0),
        ("gpu_package_power", {}, 410.0),
        ("gpu_junction_temperature", {}, 48),
        ("gpu_memory_temperature", {}, 52),
        ("gpu_gfx_activity", {}, 55),
        ("gpu_umc_activity", {}, 20),
        ("gpu_energy_consumed", {}, 1_500_000),
        ("gpu_clock", {"clock_type": "system"}, 2100),
        ("gpu_clock", {"clock_type": "memory"}, 1300),
        ("gpu_used_vram", {}, 4096),
        ("gpu_free_vram", {}, 192512),
        ("pcie_replay_count", {}, 3),
        ("gpu_ecc_uncorrect_total", {}, 0),
        ("gpu_health", {}, 1),
    ],
)
def test_readings_in_the_units_of_amds_exporter(name: str, labels: dict[str, str], expected: float) -> None:
    page = amd_node().scrape()
    assert page.value(name, gpu_id="0", hostname="n1", **labels) == expected
    assert page.families[name].type == "gauge"


def test_labels_are_those_of_amds_exporter() -> None:
    node = amd_node()
    node.has(pod("train"))
    node.gave(holds("train", node.card(), resource="amd.com/gpu"))
    ((labels, _),) = node.scrape().series("gpu_power_usage")
    facts = node.topics.gpus.value.gpus[0].facts
    assert labels["card_model"] == facts.product
    assert labels["serial_number"] == facts.serial
    assert labels["gpu_partition_id"] == "0"
    assert (labels["namespace"], labels["pod"], labels["container"]) == ("team-a", "train", "main")


def test_how_many_cards_there_are() -> None:
    assert Node(node_of(MI300, MI300)).scrape().value("gpu_nodes_total", hostname="n1") == 2
    assert Node(node_of("model: H100-80GB")).scrape().absent("gpu_nodes_total")


def test_names_of_the_other_generation_are_absent() -> None:
    page = amd_node().scrape()
    assert page.absent("gpu_edge_temperature")
    assert page.absent("gpu_average_package_power")
    older = Node(node_of("model: MI210"))
    older.reads(0, FULL)
    page = older.scrape()
    assert page.value("gpu_edge_temperature") == 48
    assert page.value("gpu_average_package_power") == 410.0
    assert page.absent("gpu_package_power")


def test_health_of_a_silent_card_is_absent_and_of_a_sick_one_0() -> None:
    silent = Node(changed(node_of(MI300), 0, health=Verdict.UNKNOWN))
    silent.reads(0, FULL)
    assert silent.scrape().absent("gpu_health")
    sick = Node(changed(node_of(MI300), 0, health=Verdict.UNHEALTHY, reason="Xid 1"))
    sick.reads(0, FULL)
    assert sick.scrape().value("gpu_health") == 0


def test_no_card_of_another_maker_is_under_these_names() -> None:
    node = Node(node_of("model: H100-80GB"))
    node.reads(0, FULL)
    page = node.scrape()
    assert page.absent("gpu_power_usage")
    assert not page.absent("DCGM_FI_DEV_POWER_USAGE")
    assert all(not name.startswith("DCGM") for name in amd_node().scrape().families)
