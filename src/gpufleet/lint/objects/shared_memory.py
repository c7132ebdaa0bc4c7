"""How much memory a volume in memory may take, so that it neither starves NCCL nor kills the container."""

from collections.abc import Iterable

from gpufleet.lint.objects.containers import Container

# Proposed where the memory limits are at least twice as large.
DEFAULT_GIB = 8
MIB = 2**20
GIB = 2**30


def fitting_size(containers: Iterable[Container]) -> str:
    """A size limit for what these containers write to: 8 GiB, or half of their least memory limit."""
    limits = [limit for one in containers if (limit := one.memory_limit_bytes) is not None]
    if not limits or min(limits) >= 2 * DEFAULT_GIB * GIB:
        return f"{DEFAULT_GIB}Gi"
    half = max(min(limits) // 2, 1)
    if half < MIB:
        return str(half)
    return f"{half // GIB}Gi" if half % GIB == 0 else f"{half // MIB}Mi"
