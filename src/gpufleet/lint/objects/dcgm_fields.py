"""Which of DCGM's fields an exporter serves without a file of counters, and names that are none.

A file of counters may ask for any other field: DCGM has hundreds, and more with each release, so that a name
which is not listed here may be right.
"""

import re

SERVED = frozenset(
    {
        *(f"DCGM_FI_DEV_{name}" for name in ("SM_CLOCK", "MEM_CLOCK", "MEMORY_TEMP", "GPU_TEMP")),
        *(f"DCGM_FI_DEV_{name}" for name in ("POWER_USAGE", "TOTAL_ENERGY_CONSUMPTION", "XID_ERRORS")),
        *(f"DCGM_FI_DEV_{name}" for name in ("GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL")),
        *(f"DCGM_FI_DEV_{name}" for name in ("FB_FREE", "FB_USED", "FB_RESERVED", "ROW_REMAP_FAILURE")),
        *(f"DCGM_FI_DEV_{name}_REMAPPED_ROWS" for name in ("CORRECTABLE", "UNCORRECTABLE")),
        *(f"DCGM_FI_DEV_{name}" for name in ("PCIE_REPLAY_COUNTER", "NVLINK_BANDWIDTH_TOTAL")),
        *(f"DCGM_FI_PROF_{name}" for name in ("GR_ENGINE_ACTIVE", "PIPE_TENSOR_ACTIVE", "DRAM_ACTIVE")),
        *(f"DCGM_FI_PROF_PCIE_{way}_BYTES" for way in ("TX", "RX")),
        "DCGM_FI_DEV_VGPU_LICENSE_STATUS",
    }
)
"""What dcgm-exporter serves without a file of its own."""

FIELD = re.compile(r"(?<![\w:])DCGM_FI_\w+(?![\w:])")

NO_FIELD = re.compile(
    r"DCGM_FI_DEV_(MEM(ORY)?_(USED|FREE|TOTAL|UTIL|UTILIZATION)|GPU_UTILIZATION|FB_(USED|FREE|TOTAL)_BYTES"
    r"|POWER_DRAW|TEMP|TEMPERATURE|GPU_TEMPERATURE)"
)
"""Names that public files have for fields which are called otherwise. None is in NVIDIA/DCGM's list of fields
(testing/python3/dcgm_fields.py, 28bfbd4c), and no file of counters can bring one."""
