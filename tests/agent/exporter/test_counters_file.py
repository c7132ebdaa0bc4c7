"""A file that served dcgm-exporter is taken over; a mistake in it is told by its line."""

import pytest

from gpufleet.agent.exporter.counters import DEFAULT
from gpufleet.agent.exporter.counters_file import ChosenCounters, read_counters
from gpufleet.agent.exporter.exporter_errors import CountersError

AS_SHIPPED = b"""\
# Format
# If line starts with a '#' it is considered a comment
# DCGM FIELD, Prometheus metric type, help message

# Clocks
DCGM_FI_DEV_SM_CLOCK,  gauge, one.
DCGM_FI_DEV_MEM_CLOCK, gauge, two (in MHz).

# Temperature
DCGM_FI_DEV_MEMORY_TEMP, gauge, three.
DCGM_FI_DEV_GPU_TEMP,    gauge, four.

# Power
DCGM_FI_DEV_POWER_USAGE,              gauge, five.
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter, six.

# PCIE
# DCGM_FI_PROF_PCIE_TX_BYTES,  counter, commented out.
DCGM_FI_DEV_PCIE_REPLAY_COUNTER, counter, seven.

# Utilization
DCGM_FI_DEV_GPU_UTIL,      gauge, eight.
DCGM_FI_DEV_MEM_COPY_UTIL, gauge, nine.
DCGM_FI_DEV_ENC_UTIL,      gauge, ten.
DCGM_FI_DEV_DEC_UTIL ,     gauge, eleven.

# Errors and violations
DCGM_FI_DEV_XID_ERRORS,            gauge,   twelve.

# Memory usage
DCGM_FI_DEV_FB_FREE, gauge, 13.
DCGM_FI_DEV_FB_USED, gauge, 14.
DCGM_FI_DEV_FB_RESERVED, gauge, 15.

# NVLink
DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL,            counter, 16.

# VGPU License status
DCGM_FI_DEV_VGPU_LICENSE_STATUS, gauge, 17

# Remapped rows
DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS, counter, 18
DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS,   counter, 19
DCGM_FI_DEV_ROW_REMAP_FAILURE,           gauge,   20

# Static configuration information. These appear as labels on the other metrics
DCGM_FI_DRIVER_VERSION,        label, 21
# DCGM_FI_NVML_VERSION,          label, commented out

# DCP metrics
DCGM_FI_PROF_GR_ENGINE_ACTIVE,   gauge, 22.
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, "23, quoted"
DCGM_FI_PROF_DRAM_ACTIVE,        gauge, 24.
DCGM_FI_PROF_PCIE_TX_BYTES,      gauge, 25 - in bytes per second.
DCGM_FI_PROF_PCIE_RX_BYTES,      gauge, 26.
"""
"""The shape and the names of the file that dcgm-exporter ships with its profiling counters."""


def test_the_file_that_dcgm_exporter_ships_gives_the_default_counters() -> None:
    found = read_counters(AS_SHIPPED)
    assert [one.counter for one in found.counters] == list(DEFAULT)
    assert [one.family.kind for one in found.counters] == [one.kind for one in DEFAULT]
    assert [label.name for label in found.labels] == ["DCGM_FI_DRIVER_VERSION"]
    assert found.counters[1].family.help == "two (in MHz)."
    assert found.counters[21].family.help == "23, quoted"
    assert found.notices == ()


def test_names_of_releases_1_are_served_as_they_are_written() -> None:
    found = read_counters(b"dcgm_gpu_utilization, gauge, x\ndcgm_fb_used,gauge,\n")
    assert [one.family.name for one in found.counters] == ["dcgm_gpu_utilization", "dcgm_fb_used"]
    assert [one.counter.name for one in found.counters] == ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"]
    assert found.counters[1].family.help


@pytest.mark.parametrize(
    "name",
    ["DCGM_FI_DEV_PCIE_TX_THROUGHPUT", "DCGM_FI_DEV_POWER_VIOLATION", "DCGM_FI_PROF_SM_OCCUPANCY"],
)
def test_what_dcgm_has_and_we_cannot_tell_is_listed(name: str) -> None:
    found = read_counters(f"DCGM_FI_DEV_GPU_TEMP, gauge, x\n{name}, counter, y\n".encode())
    assert [one.counter.name for one in found.counters] == ["DCGM_FI_DEV_GPU_TEMP"]
    assert found.notices == (f"line 2: {name} is not served: the vendor's library does not tell it",)


def test_a_field_of_a_newer_dcgm_is_listed_too() -> None:
    found = read_counters(b"DCGM_FI_DEV_QUANTUM_FLUX, gauge, x\n")
    assert found.notices == ("line 1: DCGM_FI_DEV_QUANTUM_FLUX is not served: it is not known here",)


def test_a_counter_of_dcgm_exporter_itself_that_cannot_be_told_is_listed_with_the_reason() -> None:
    found = read_counters(b"DCGM_EXP_P2P_STATUS, gauge, x\n")
    assert found == ChosenCounters((), (), found.notices)
    (notice,) = found.notices
    assert notice.startswith("line 1: DCGM_EXP_P2P_STATUS is not served: whether two cards reach one another")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            b"DCGM_FI_DEV_GPU_TMEP, gauge, x",
            "line 1, name: no such counter, .*did you mean DCGM_FI_DEV_GPU_TEMP",
        ),
        (b"\n\nNONSENSE, gauge, x", "line 3, name: no such counter"),
        (b"DCGM_FI_DEV_GPU_TEMP, gauge", "line 1: 2 fields"),
        (b"DCGM_FI_DEV_GPU_TEMP", "line 1: one field"),
        (b"DCGM_FI_DEV_GPU_TEMP, gauge, hot, very", "line 1: 4 fields.*quotation marks"),
        (b'DCGM_FI_DEV_GPU_TEMP, gauge, "never ends', "line 1: not a line of CSV"),
        (b"DCGM_FI_DEV_GPU_TEMP, histogram, x", "line 1, type: .*'histogram'; expected gauge or counter"),
        (b"DCGM_FI_DEV_GPU_TEMP, label, x", "expected gauge or counter"),
        (b"DCGM_FI_DRIVER_VERSION, gauge, x", "expected label"),
        (
            b"DCGM_FI_DEV_GPU_TEMP, gauge, x\nDCGM_FI_DEV_GPU_TEMP, gauge, y",
            "line 2: asked for twice.*line 1 alone",
        ),
        (b"DCGM_EXP_XID_ERROR_COUNT, gauge, x", "did you mean DCGM_EXP_XID_ERRORS_COUNT"),
        (b"# nothing\n\n", "no counters"),
        (b"DCGM_FI_DEV_GPU_TEMP, gauge, \xff", "not text in UTF-8"),
        (b"x" * (2 << 20), "too long"),
    ],
)
def test_a_mistake_is_refused_with_its_line(text: bytes, told: str) -> None:
    with pytest.raises(CountersError, match=told):
        read_counters(text)


def test_the_file_is_named() -> None:
    with pytest.raises(CountersError, match=r"^counters\.csv, line 1: one field"):
        read_counters(b"x", "counters.csv")


def test_a_byte_order_mark_and_windows_lines_do_no_harm() -> None:
    found = read_counters(b"\xef\xbb\xbfDCGM_FI_DEV_GPU_TEMP,gauge,x\r\nDCGM_FI_DEV_FB_USED,gauge,y\r\n")
    assert [one.family.help for one in found.counters] == ["x", "y"]


def test_hostile_help_stays_on_its_line() -> None:
    found = read_counters(b'DCGM_FI_DEV_GPU_TEMP,gauge,"a\\n# TYPE x"\n')
    assert found.counters[0].family.header.count("\n") == 2
