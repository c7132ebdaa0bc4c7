"""The numbers that we write for NVML's are those that the maker's binding has under its names."""

import pynvml
import pytest

from gpufleet.devices.health import Recovery
from gpufleet.devices.nvidia import activity, events, inventory, links, nvml, readings
from gpufleet.devices.nvidia.refusals import CODES

NO_ANSWER_TO_A_QUESTION = {
    "ALREADY_INITIALIZED",
    "INSUFFICIENT_SIZE",
    "FREQ_NOT_SUPPORTED",
    "RESET_TYPE_NOT_SUPPORTED",
}


def numbers(prefix: str) -> dict[str, int]:
    """The binding's numbers of a family, by the rest of their names."""
    return {
        name.removeprefix(prefix): value for name, value in vars(pynvml).items() if name.startswith(prefix)
    }


def test_every_code_that_a_question_can_end_with_has_its_meaning() -> None:
    codes = numbers("NVML_ERROR_")
    assert {name for name, code in codes.items() if code not in CODES} == NO_ANSWER_TO_A_QUESTION
    assert set(CODES) <= set(codes.values())


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        (readings.MEMORY_CELSIUS.number, "MEMORY_TEMP"),
        (readings.LINK_COUNT.number, "NVLINK_LINK_COUNT"),
        (readings.LINK_SENT_KIB.number, "NVLINK_THROUGHPUT_DATA_TX"),
        (readings.LINK_RECEIVED_KIB.number, "NVLINK_THROUGHPUT_DATA_RX"),
        (readings.LINK_SENT_BYTES, "NVLINK_COUNT_XMIT_BYTES"),
        (readings.LINK_RECEIVED_BYTES, "NVLINK_COUNT_RCV_BYTES"),
        (readings.POWER_AVERAGE_MW.number, "POWER_AVERAGE"),
        (readings.POWER_INSTANT_MW.number, "POWER_INSTANT"),
        (readings.DOUBLE_BIT_ERRORS.number, "ECC_DBE_VOL_TOTAL"),
        (readings.RECOVERY_ACTION.number, "GET_GPU_RECOVERY_ACTION"),
    ],
)
def test_fields(ours: int, name: str) -> None:
    assert ours == numbers("NVML_FI_DEV_")[name]


@pytest.mark.parametrize(
    ("ours", "name"),
    [
        (activity.GRAPHICS, "GRAPHICS_UTIL"),
        (activity.TENSOR, "ANY_TENSOR_UTIL"),
        (activity.DRAM, "DRAM_BW_UTIL"),
        (activity.PCIE_SENT, "PCIE_TX_PER_SEC"),
        (activity.PCIE_RECEIVED, "PCIE_RX_PER_SEC"),
    ],
)
def test_metrics(ours: int, name: str) -> None:
    assert ours == numbers("NVML_GPM_METRIC_")[name]


def test_recovery_actions_and_what_they_mean() -> None:
    assert {
        name: readings.RECOVERIES[code] for name, code in numbers("NVML_GPU_RECOVERY_ACTION_").items()
    } == {
        "NONE": Recovery.NONE,
        "GPU_RESET": Recovery.RESET,
        "NODE_REBOOT": Recovery.REBOOT,
        "DRAIN_P2P": Recovery.DRAIN_P2P,
        "DRAIN_AND_RESET": Recovery.DRAIN_AND_RESET,
        "RECOVER_IMEX_DOMAIN": Recovery.IMEX,
        "BUS_RESET": Recovery.RESET,
        "SYSTEM_REBOOT": Recovery.REBOOT,
    }


def test_all_events_are_asked_for_but_those_of_every_day() -> None:
    every_day = ("SingleBitEccError", "PState", "Clock", "PowerSourceChange")
    kinds = numbers("nvmlEventType")
    assert kinds["XidCriticalError"] == events.XID
    assert kinds["All"] - events.WANTED == sum(kinds[name] for name in every_day)


def test_architectures_brands_and_ways_between_cards() -> None:
    architectures = numbers("NVML_DEVICE_ARCH_")
    assert inventory.ARCHITECTURES[architectures["ADA"]] == "Ada Lovelace"
    for name in ("VOLTA", "TURING", "AMPERE", "HOPPER", "BLACKWELL", "RUBIN"):
        assert inventory.ARCHITECTURES[architectures[name]].upper() == name
    brands = numbers("NVML_BRAND_")
    for name in ("TESLA", "GEFORCE", "QUADRO_RTX", "NVIDIA_RTX", "NVIDIA"):
        assert inventory.BRANDS[brands[name]].upper().replace(" ", "_") == name
    assert set(links.ANCESTORS) == set(numbers("NVML_TOPOLOGY_").values())
    assert numbers("NVML_GPU_FABRIC_STATE_")["COMPLETED"] == inventory.FABRIC_JOINED
    assert links.LINKS_MOST == pynvml.NVML_NVLINK_MAX_LINKS
    assert nvml.NO_INSTANCE == nvml.ALL_LINKS == 0xFFFFFFFF
