"""The GPU models of data centres and labs, as their makers' data sheets describe them.

One row a memory size: cards of one name with 40 and 80 GB are two models, because what fits on
one does not fit on the other; form factors with the same memory are one model with several
labels. Boards that carry several GPUs (K80, A16, MI250X) are listed by GPU, as drivers count
them. Memory is the data sheet's GB taken as GiB, which is what cards have; a driver leaves a
little less usable, and a device's own report always wins. Labels are values of
``nvidia.com/gpu.product`` or ``amd.com/gpu.product-name``, and codes of public traces.
``gpu_model`` finds models by all these names.
"""

import enum
import re

import msgspec

from gpufleet.model.identifiers import GpuModelName

# The table below is in GiB, as makers sell cards; all else is in MiB.
MIB_PER_GIB = 1024


class Vendor(enum.Enum):
    """The maker of a GPU."""

    NVIDIA = "NVIDIA"
    AMD = "AMD"
    INTEL = "Intel"
    UNKNOWN = ""


class GpuModel(msgspec.Struct, frozen=True):
    """A model of GPU.

    ``family`` is the name without the memory size. ``memory_mib`` is nominal, None if unknown.
    ``compute_target`` is what compilers call the GPU: NVIDIA's compute capability ("8.0") or
    AMD's target ("gfx942"). ``source`` says where the row comes from.
    """

    name: GpuModelName
    vendor: Vendor
    family: str
    memory_mib: int | None = None
    architecture: str = ""
    compute_target: str = ""
    labels: tuple[str, ...] = ()
    source: str = ""


_MEMORY_SUFFIX = re.compile(r"-[0-9]+GB$")


def _row(
    vendor: Vendor,
    name: str,
    memory_gib: int,
    architecture: str,
    compute_target: str,
    source: str,
    labels: str,
) -> GpuModel:
    return GpuModel(
        name=GpuModelName(name),
        vendor=vendor,
        family=_MEMORY_SUFFIX.sub("", name),
        memory_mib=memory_gib * MIB_PER_GIB,
        architecture=architecture,
        compute_target=compute_target,
        labels=tuple(labels.split()),
        source=source,
    )


_NVIDIA_ROWS = (
    ("K80", 12, "Kepler", "3.7", "Tesla K80 board specification, 2015", "Tesla-K80"),
    ("M60", 8, "Maxwell", "5.2", "Tesla M60 product brief, 2016", "Tesla-M60"),
    ("P4", 8, "Pascal", "6.1", "Tesla P4 data sheet, 2016", "Tesla-P4"),
    ("P40", 24, "Pascal", "6.1", "Tesla P40 data sheet, 2016", "Tesla-P40"),
    ("P100-12GB", 12, "Pascal", "6.0", "Tesla P100 PCIe data sheet, 2016", "Tesla-P100-PCIE-12GB"),
    # Traces and price lists mean this one by "P100"; the card with 12 GB is rare.
    ("P100", 16, "Pascal", "6.0", "Tesla P100 data sheet, 2016", "Tesla-P100-PCIE-16GB Tesla-P100-SXM2-16GB"),
    (
        "V100-16GB",
        16,
        "Volta",
        "7.0",
        "Tesla V100 data sheet, 2017",
        "Tesla-V100-SXM2-16GB Tesla-V100-PCIE-16GB Tesla-V100-FHHL-16GB V100M16",
    ),
    (
        "V100-32GB",
        32,
        "Volta",
        "7.0",
        "V100 data sheet, 2018",
        "Tesla-V100-SXM2-32GB Tesla-V100-SXM3-32GB Tesla-V100-PCIE-32GB Tesla-V100S-PCIE-32GB V100M32",
    ),
    ("T4", 16, "Turing", "7.5", "T4 data sheet, 2018", "Tesla-T4 NVIDIA-T4"),
    ("T4G", 16, "Turing", "7.5", "EC2 G5g instance page, 2021", "NVIDIA-T4G"),
    ("Quadro-RTX-6000", 24, "Turing", "7.5", "Quadro RTX 6000 data sheet, 2018", "Quadro-RTX-6000"),
    ("Quadro-RTX-8000", 48, "Turing", "7.5", "Quadro RTX 8000 data sheet, 2018", "Quadro-RTX-8000"),
    ("A2", 16, "Ampere", "8.6", "A2 data sheet, 2021", "NVIDIA-A2"),
    ("A10", 24, "Ampere", "8.6", "A10 data sheet, 2021", "NVIDIA-A10"),
    ("A10G", 24, "Ampere", "8.6", "A10G data sheet, 2021", "NVIDIA-A10G"),
    ("A16", 16, "Ampere", "8.6", "A16 data sheet, 2021", "NVIDIA-A16"),
    ("A30", 24, "Ampere", "8.0", "A30 data sheet, 2021", "NVIDIA-A30"),
    ("A40", 48, "Ampere", "8.6", "A40 data sheet, 2020", "NVIDIA-A40"),
    (
        "A100-40GB",
        40,
        "Ampere",
        "8.0",
        "A100 data sheet, 2020",
        "NVIDIA-A100-SXM4-40GB NVIDIA-A100-PCIE-40GB A100-SXM4-40GB A100-PCIE-40GB",
    ),
    (
        "A100-80GB",
        80,
        "Ampere",
        "8.0",
        "A100 80GB data sheet, 2021",
        "NVIDIA-A100-SXM4-80GB NVIDIA-A100-80GB-PCIe A100-SXM4-80GB A100-SXM-80GB",
    ),
    ("A800-40GB", 40, "Ampere", "8.0", "A800 40GB Active data sheet, 2023", "NVIDIA-A800-40GB-Active"),
    (
        "A800-80GB",
        80,
        "Ampere",
        "8.0",
        "A800 data sheet, 2022",
        "NVIDIA-A800-SXM4-80GB NVIDIA-A800-80GB-PCIe",
    ),
    ("RTX-A4000", 16, "Ampere", "8.6", "RTX A4000 data sheet, 2021", "NVIDIA-RTX-A4000"),
    ("RTX-A5000", 24, "Ampere", "8.6", "RTX A5000 data sheet, 2021", "NVIDIA-RTX-A5000"),
    ("RTX-A6000", 48, "Ampere", "8.6", "RTX A6000 data sheet, 2020", "NVIDIA-RTX-A6000"),
    ("RTX-3090", 24, "Ampere", "8.6", "GeForce RTX 3090 specifications, 2020", "NVIDIA-GeForce-RTX-3090"),
    (
        "RTX-3090-Ti",
        24,
        "Ampere",
        "8.6",
        "GeForce RTX 3090 Ti specifications, 2022",
        "NVIDIA-GeForce-RTX-3090-Ti",
    ),
    ("L2", 24, "Ada Lovelace", "8.9", "L2 product brief, 2023", "NVIDIA-L2"),
    ("L4", 24, "Ada Lovelace", "8.9", "L4 data sheet, 2023", "NVIDIA-L4"),
    ("L20", 48, "Ada Lovelace", "8.9", "L20 product brief, 2023", "NVIDIA-L20"),
    ("L40", 48, "Ada Lovelace", "8.9", "L40 data sheet, 2022", "NVIDIA-L40"),
    ("L40S", 48, "Ada Lovelace", "8.9", "L40S data sheet, 2023", "NVIDIA-L40S"),
    (
        "RTX-6000-Ada",
        48,
        "Ada Lovelace",
        "8.9",
        "RTX 6000 Ada Generation data sheet, 2022",
        "NVIDIA-RTX-6000-Ada-Generation",
    ),
    (
        "RTX-4060",
        8,
        "Ada Lovelace",
        "8.9",
        "GeForce RTX 4060 specifications, 2023",
        "NVIDIA-GeForce-RTX-4060",
    ),
    (
        "RTX-4090",
        24,
        "Ada Lovelace",
        "8.9",
        "GeForce RTX 4090 specifications, 2022",
        "NVIDIA-GeForce-RTX-4090",
    ),
    ("H20", 96, "Hopper", "9.0", "H20 product brief, 2023", "NVIDIA-H20"),
    ("H20-141GB", 141, "Hopper", "9.0", "H20-3e product brief, 2025", "NVIDIA-H20-3e"),
    (
        "H100-80GB",
        80,
        "Hopper",
        "9.0",
        "H100 data sheet, 2022",
        "NVIDIA-H100-80GB-HBM3 NVIDIA-H100-PCIe NVIDIA-H100-SXM5-80GB H100-80GB-HBM3 H100-PCIe",
    ),
    ("H100-94GB", 94, "Hopper", "9.0", "H100 NVL data sheet, 2023", "NVIDIA-H100-NVL H100-NVL"),
    ("H100-96GB", 96, "Hopper", "9.0", "MIG user guide, 2023", "NVIDIA-H100-SXM5-96GB"),
    ("H800", 80, "Hopper", "9.0", "H800 product brief, 2023", "NVIDIA-H800 NVIDIA-H800-PCIe"),
    ("H200", 141, "Hopper", "9.0", "H200 data sheet, 2023", "NVIDIA-H200 NVIDIA-H200-NVL"),
    ("GH200-96GB", 96, "Hopper", "9.0", "GH200 data sheet, 2023", "NVIDIA-GH200-480GB NVIDIA-GH200-96GB"),
    ("GH200-144GB", 144, "Hopper", "9.0", "GH200 data sheet, 2023", "NVIDIA-GH200-144G-HBM3e"),
    ("B200", 180, "Blackwell", "10.0", "HGX B200 data sheet, 2024", "NVIDIA-B200"),
    ("GB200", 186, "Blackwell", "10.0", "GB200 NVL72 data sheet, 2024", "NVIDIA-GB200"),
    ("B300", 270, "Blackwell Ultra", "10.3", "HGX B300 data sheet, 2025", "NVIDIA-B300-SXM6-AC NVIDIA-B300"),
    ("GB300", 279, "Blackwell Ultra", "10.3", "GB300 NVL72 data sheet, 2025", "NVIDIA-GB300"),
    (
        "RTX-PRO-6000",
        96,
        "Blackwell",
        "12.0",
        "RTX PRO 6000 Blackwell data sheet, 2025",
        (
            "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition"
            " NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition RTX-PRO-6000-Blackwell"
        ),
    ),
    ("RTX-5090", 32, "Blackwell", "12.0", "GeForce RTX 5090 specifications, 2025", "NVIDIA-GeForce-RTX-5090"),
)

_AMD_ROWS = (
    (
        "MI50-16GB",
        16,
        "GCN 5.1",
        "gfx906",
        "Radeon Instinct MI50 data sheet, 2018",
        "AMD_Radeon_Instinct_MI50_16GB",
    ),
    (
        "MI50-32GB",
        32,
        "GCN 5.1",
        "gfx906",
        "Radeon Instinct MI50 data sheet, 2019",
        "AMD_Radeon_Instinct_MI50_32GB",
    ),
    ("MI100", 32, "CDNA", "gfx908", "Instinct MI100 brochure, 2020", "AMD_Instinct_MI100"),
    ("MI210", 64, "CDNA 2", "gfx90a", "Instinct MI210 brochure, 2022", "AMD_Instinct_MI210"),
    ("MI250", 64, "CDNA 2", "gfx90a", "Instinct MI200 data sheet, 2021", "AMD_Instinct_MI250"),
    ("MI250X", 64, "CDNA 2", "gfx90a", "Instinct MI200 data sheet, 2021", "AMD_Instinct_MI250X"),
    ("MI300A", 128, "CDNA 3", "gfx942", "Instinct MI300A data sheet, 2023", "AMD_Instinct_MI300A"),
    (
        "MI300X",
        192,
        "CDNA 3",
        "gfx942",
        "Instinct MI300X data sheet, 2023",
        "AMD_Instinct_MI300X_OAM AMD_Instinct_MI300X",
    ),
    (
        "MI325X",
        256,
        "CDNA 3",
        "gfx942",
        "Instinct MI325X data sheet, 2024",
        "AMD_Instinct_MI325X_OAM AMD_Instinct_MI325_OAM AMD_Instinct_MI325X",
    ),
    (
        "MI350X",
        288,
        "CDNA 4",
        "gfx950",
        "Instinct MI350X data sheet, 2025",
        "AMD_Instinct_MI350X_OAM AMD_Instinct_MI350X",
    ),
    (
        "MI355X",
        288,
        "CDNA 4",
        "gfx950",
        "Instinct MI355X data sheet, 2025",
        "AMD_Instinct_MI355X_OAM AMD_Instinct_MI355X",
    ),
    (
        "RX-9060-XT-8GB",
        8,
        "RDNA 4",
        "gfx1200",
        "Radeon RX 9060 XT specifications, 2025",
        "AMD_Radeon_RX_9060_XT_8GB",
    ),
    (
        "RX-9060-XT-16GB",
        16,
        "RDNA 4",
        "gfx1200",
        "Radeon RX 9060 XT specifications, 2025",
        "AMD_Radeon_RX_9060_XT_16GB",
    ),
)

_INTEL_ROWS = (
    (
        "Flex-140",
        6,
        "Xe-HPG",
        "",
        "Data Center GPU Flex brief, 2022",
        "Intel-Data-Center-GPU-Flex-140 Flex_140",
    ),
    (
        "Flex-170",
        16,
        "Xe-HPG",
        "",
        "Data Center GPU Flex brief, 2022",
        "Intel-Data-Center-GPU-Flex-170 Flex_170",
    ),
    (
        "Max-1100",
        48,
        "Xe-HPC",
        "",
        "Data Center GPU Max brief, 2023",
        "Intel-Data-Center-GPU-Max-1100 Max_1100",
    ),
    (
        "Max-1550",
        128,
        "Xe-HPC",
        "",
        "Data Center GPU Max brief, 2023",
        "Intel-Data-Center-GPU-Max-1550 Max_1550",
    ),
)

CATALOGUE: tuple[GpuModel, ...] = (
    *(_row(Vendor.NVIDIA, *row) for row in _NVIDIA_ROWS),
    *(_row(Vendor.AMD, *row) for row in _AMD_ROWS),
    *(_row(Vendor.INTEL, *row) for row in _INTEL_ROWS),
)
