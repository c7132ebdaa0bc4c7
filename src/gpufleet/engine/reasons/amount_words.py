"""Amounts of what pods need, in words."""

from collections.abc import Callable

from gpufleet.model.phrases import counted
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
    return f"{milli / 1000:g} core{'' if milli == 1000 else 's'} of CPU"


def gibibytes(amount: int) -> str:
    """Bytes as GiB, or as MiB below one."""
    mebibytes = amount / MEBIBYTE
    return f"{mebibytes / 1024:.4g} GiB" if mebibytes >= 1024 else f"{mebibytes:.4g} MiB"


MISSING: dict[str, Callable[[int], str]] = {
    "gpus": lambda count: counted(count, "free GPU"),
    "gpu_shares": lambda count: "a GPU with enough left" if count == 1 else f"{count} GPUs with enough left",
    "cpu_milli": cores,
    "memory_bytes": lambda amount: f"{gibibytes(amount)} of memory",
    "pods": lambda count: f"room for {counted(count, 'pod')}",
    "ephemeral_storage_bytes": lambda amount: f"{gibibytes(amount)} of local storage",
}
"""What is missing on a node, by the names of ``Nearest.short``."""
