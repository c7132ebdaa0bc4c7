"""Amounts of what pods need, in words."""

from collections.abc import Callable

from gpufleet.model.gpu_unit import GpuUnit
from gpufleet.model.phrases import counted
from gpufleet.model.resource_names import is_huge_pages
from gpufleet.model.resources import MEBIBYTE
from gpufleet.model.shape import Within

NEAR = {
    Within.NODE: "",
    Within.NUMA_NODE: " on one NUMA node",
    Within.LINK_GROUP: " on one fast link",
}
"""How near to each other the GPUs must be."""


def cores(milli: int) -> str:
    """Millicores as cores."""
    return f"{_rounded(milli / 1000)} core{'' if milli == 1000 else 's'} of CPU"


def gibibytes(amount: int) -> str:
    """Bytes as GiB, or as MiB below one."""
    mebibytes = amount / MEBIBYTE
    return f"{_rounded(mebibytes / 1024)} GiB" if mebibytes >= 1024 else f"{_rounded(mebibytes)} MiB"


def _rounded(amount: float) -> str:
    """Four digits, or all before the point: never a power of ten, which people do not read as an amount."""
    return f"{amount:.0f}" if amount >= 1000 else f"{amount:.4g}"


def amount_of(name: str, amount: int) -> str:
    """So much of a resource that has no words of its own."""
    return f"{gibibytes(amount) if is_huge_pages(name) else amount} of {name}"


def free_gpus(count: int, unit: GpuUnit) -> str:
    """So many free GPUs, which are called ``unit``."""
    return counted(count, f"free {unit}")


MISSING: dict[str, Callable[[int], str]] = {
    "gpu_shares": lambda count: "a GPU with enough left" if count == 1 else f"{count} GPUs with enough left",
    "cpu_milli": cores,
    "memory_bytes": lambda amount: f"{gibibytes(amount)} of memory",
    "pods": lambda count: f"room for {counted(count, 'pod')}",
    "ephemeral_storage_bytes": lambda amount: f"{gibibytes(amount)} of local storage",
}
"""What is missing on a node, by the names of ``Nearest.short``."""
