"""The default counters are dcgm-exporter's, by name and type; what a card does not tell is absent."""

import pytest

from gpufleet.agent.exporter.counters import DEFAULT, DEFAULT_LABELS, SERVED, Reading
from gpufleet.devices.health import Verdict
from gpufleet.devices.sample import Activity, Memory, Remaps, Sample
from tests.agent.exporter.builders import CUT_H100, changed, node_of

GAUGES = {
    *("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP"),
    *("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_ENC_UTIL"),
    *("DCGM_FI_DEV_DEC_UTIL", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED"),
    *("DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_VGPU_LICENSE_STATUS", "DCGM_FI_DEV_ROW_REMAP_FAILURE"),
    *("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_DRAM_ACTIVE"),
    *("DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"),
}
COUNTERS = {
    *("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"),
    *("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
}

FULL = Sample(
    1.0,
    gpu_busy_pct=1,
    memory_busy_pct=2,
    encoder_busy_pct=3,
    decoder_busy_pct=4,
    memory=Memory(300, 100, 50),
    power_w=250.5,
    energy_mj=9_000_000,
    gpu_celsius=60,
    memory_celsius=70,
    sm_clock_mhz=1980,
    memory_clock_mhz=2619,
    pcie_replays=5,
    nvlink_bytes=7_500_000,
    remaps=Remaps(1, 2, pending=True, failed=False),
    uncorrected_errors=6,
    vgpu_license=1,
    activity=Activity(0.1, 0.2, 0.3, 4e9, 5e9),
)


def test_there_are_the_25_of_dcgm_exporter_and_one_label() -> None:
    assert {one.name for one in DEFAULT if one.kind == "gauge"} == GAUGES
    assert {one.name for one in DEFAULT if one.kind == "counter"} == COUNTERS
    assert len(DEFAULT) == len(GAUGES | COUNTERS) == 25
    assert [label.name for label in DEFAULT_LABELS] == ["DCGM_FI_DRIVER_VERSION"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("DCGM_FI_DEV_SM_CLOCK", 1980),
        ("DCGM_FI_DEV_MEM_CLOCK", 2619),
        ("DCGM_FI_DEV_MEMORY_TEMP", 70),
        ("DCGM_FI_DEV_GPU_TEMP", 60),
        ("DCGM_FI_DEV_POWER_USAGE", 250.5),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 9_000_000),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 5),
        ("DCGM_FI_DEV_GPU_UTIL", 1),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", 2),
        ("DCGM_FI_DEV_ENC_UTIL", 3),
        ("DCGM_FI_DEV_DEC_UTIL", 4),
        ("DCGM_FI_DEV_XID_ERRORS", 0),
        ("DCGM_FI_DEV_FB_FREE", 100),
        ("DCGM_FI_DEV_FB_USED", 300),
        ("DCGM_FI_DEV_FB_RESERVED", 50),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 7.5),
        ("DCGM_FI_DEV_VGPU_LICENSE_STATUS", 1),
        ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", 1),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 2),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0),
        ("DCGM_FI_DEV_ROW_REMAP_PENDING", 1),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.1),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.2),
        ("DCGM_FI_PROF_DRAM_ACTIVE", 0.3),
        ("DCGM_FI_PROF_PCIE_TX_BYTES", 4e9),
        ("DCGM_FI_PROF_PCIE_RX_BYTES", 5e9),
        ("DCGM_FI_DEV_FB_USED_PERCENT", 0.75),
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 6),
    ],
)
def test_each_shows_its_reading_in_dcgms_unit(name: str, expected: float) -> None:
    gpu = node_of("model: H100-80GB").gpus[0]
    assert SERVED[name].value(Reading(gpu, FULL)) == expected


def test_a_card_that_tells_nothing_has_no_values() -> None:
    gpus = changed(node_of("model: H100-80GB"), 0, health=Verdict.UNKNOWN)
    reading = Reading(gpus.gpus[0], Sample(1.0))
    assert [one.name for one in DEFAULT if one.value(reading) is not None] == []


def test_an_xid_that_was_seen_is_told_even_of_a_card_that_is_silent_now() -> None:
    gpus = changed(node_of("model: H100-80GB"), 0, health=Verdict.UNKNOWN, last_xid=79)
    assert SERVED["DCGM_FI_DEV_XID_ERRORS"].value(Reading(gpus.gpus[0], FULL)) == 79


def test_an_instance_has_its_own_memory() -> None:
    gpu = node_of(CUT_H100).gpus[0]
    small = gpu.facts.mig[0]
    assert SERVED["DCGM_FI_DEV_FB_TOTAL"].value(Reading(gpu, Sample(1.0), small)) == small.memory_mib
