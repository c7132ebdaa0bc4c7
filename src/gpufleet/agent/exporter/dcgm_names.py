"""Fields that DCGM has and the driver's library does not tell, as far as files of counters ask for them.

DCGM has many hundreds of fields, and more with each release. Here are those of the files that
dcgm-exporter ships, also where they stand in a comment, and their kin; so that none of them is taken for a
slip of the pen.
"""

# The most NVLinks that one GPU has.
_LINKS = tuple(f"L{number}" for number in range(18))

_DEVICE = (
    *("PCIE_TX_THROUGHPUT", "PCIE_RX_THROUGHPUT", "PCIE_LINK_GEN", "PCIE_LINK_WIDTH", "PCIE_MAX_LINK_GEN"),
    *("PCIE_MAX_LINK_WIDTH", "POWER_VIOLATION", "THERMAL_VIOLATION", "SYNC_BOOST_VIOLATION"),
    *("BOARD_LIMIT_VIOLATION", "LOW_UTIL_VIOLATION", "RELIABILITY_VIOLATION", "TOTAL_APP_CLOCKS_VIOLATION"),
    *("TOTAL_BASE_CLOCKS_VIOLATION", "ECC_SBE_VOL_TOTAL", "ECC_SBE_AGG_TOTAL", "ECC_DBE_AGG_TOTAL"),
    *(
        "ECC_SBE_VOL_DEV",
        "ECC_DBE_VOL_DEV",
        "ECC_SBE_AGG_DEV",
        "ECC_DBE_AGG_DEV",
        "ECC_CURRENT",
        "ECC_PENDING",
    ),
    *("RETIRED_SBE", "RETIRED_DBE", "RETIRED_PENDING", "BANKS_REMAP_ROWS_AVAIL_MAX"),
    *("BANKS_REMAP_ROWS_AVAIL_HIGH", "BANKS_REMAP_ROWS_AVAIL_PARTIAL", "BANKS_REMAP_ROWS_AVAIL_LOW"),
    *(
        "BANKS_REMAP_ROWS_AVAIL_NONE",
        "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
        "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    ),
    *("NVLINK_REPLAY_ERROR_COUNT_TOTAL", "NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "GPU_NVLINK_ERRORS"),
    *(f"NVLINK_BANDWIDTH_{link}" for link in _LINKS),
    *("APP_SM_CLOCK", "APP_MEM_CLOCK", "MAX_SM_CLOCK"),
    *("MAX_MEM_CLOCK", "MAX_VIDEO_CLOCK", "VIDEO_CLOCK", "POWER_MGMT_LIMIT", "POWER_MGMT_LIMIT_MIN"),
    *("POWER_MGMT_LIMIT_MAX", "POWER_MGMT_LIMIT_DEF", "ENFORCED_POWER_LIMIT", "POWER_USAGE_INSTANT"),
    *("SLOWDOWN_TEMP", "SHUTDOWN_TEMP", "MEM_MAX_OP_TEMP", "GPU_MAX_OP_TEMP", "GPU_TEMP_LIMIT", "FAN_SPEED"),
    *("PSTATE", "BAR1_TOTAL", "BAR1_USED", "BAR1_FREE", "COMPUTE_MODE", "PERSISTENCE_MODE", "MIG_MODE"),
    *("MINOR_NUMBER", "UUID", "PCI_BUSID", "VBIOS_VERSION", "OEM_INFOROM_VER", "ECC_INFOROM_VER"),
    *("POWER_INFOROM_VER", "INFOROM_IMAGE_VER", "CUDA_COMPUTE_CAPABILITY", "NVML_INDEX", "COUNT"),
    *("FABRIC_MANAGER_STATUS", "FABRIC_MANAGER_ERROR_CODE", "CC_MODE", "CPU_UTIL_TOTAL", "CPU_TEMP_CURRENT"),
    *("CPU_POWER_UTIL_CURRENT", "VGPU_UTILIZATIONS", "VGPU_MEMORY_USAGE", "VGPU_INSTANCE_IDS"),
)
_PROFILING = (
    *("SM_ACTIVE", "SM_OCCUPANCY", "PIPE_FP64_ACTIVE", "PIPE_FP32_ACTIVE", "PIPE_FP16_ACTIVE"),
    *("PIPE_INT_ACTIVE", "PIPE_TENSOR_IMMA_ACTIVE", "PIPE_TENSOR_HMMA_ACTIVE", "PIPE_TENSOR_DFMA_ACTIVE"),
    *("NVLINK_TX_BYTES", "NVLINK_RX_BYTES", "C2C_TX_ALL_BYTES", "C2C_RX_ALL_BYTES", "C2C_TX_DATA_BYTES"),
    *("C2C_RX_DATA_BYTES", "HOSTMEM_CACHE_HIT", "HOSTMEM_CACHE_MISS", "PEERMEM_CACHE_HIT"),
    *("PEERMEM_CACHE_MISS", *(f"NVDEC{number}_ACTIVE" for number in range(8))),
    *(f"NVJPG{number}_ACTIVE" for number in range(8)),
    *(f"NVLINK_{link}_{way}_BYTES" for link in _LINKS for way in ("TX", "RX")),
)
_RELEASES_1 = (
    *("dcgm_pcie_tx_throughput", "dcgm_pcie_rx_throughput", "dcgm_power_violation", "dcgm_thermal_violation"),
    *("dcgm_sync_boost_violation", "dcgm_board_limit_violation", "dcgm_low_util_violation"),
    *("dcgm_reliability_violation", "dcgm_ecc_sbe_volatile_total", "dcgm_ecc_sbe_aggregate_total"),
    *("dcgm_ecc_dbe_aggregate_total", "dcgm_retired_pages_sbe", "dcgm_retired_pages_dbe"),
    *("dcgm_retired_pages_pending", "dcgm_nvlink_flit_crc_error_count_total"),
    *("dcgm_nvlink_data_crc_error_count_total", "dcgm_nvlink_replay_error_count_total"),
    *("dcgm_nvlink_recovery_error_count_total", "dcgm_fi_prof_sm_active", "dcgm_fi_prof_sm_occupancy"),
)

UNTOLD = frozenset(
    {
        *(f"DCGM_FI_DEV_{name}" for name in _DEVICE),
        *(f"DCGM_FI_PROF_{name}" for name in _PROFILING),
        *("DCGM_FI_PROCESS_NAME", "DCGM_FI_CUDA_DRIVER_VERSION"),
        *_RELEASES_1,
    }
)

UNSERVED = {
    "DCGM_EXP_P2P_STATUS": (
        "whether two cards reach one another over NVLink is looked up when cards are found, and not sampled"
    ),
}
"""Counters of dcgm-exporter's own that are not served, and why."""
