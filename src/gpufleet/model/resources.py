"""Amounts of host resources: what a node offers and what a pod asks for.

CPU is in millicores and everything measured in bytes is exact, because two schedulers on one
cluster must agree to the byte. GPUs are not here: they are devices with an identity
(``device``) and are asked for by ``shape.GpuRequest``.
"""

import msgspec

MEBIBYTE = 1024 * 1024


class Resources(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """CPU in millicores, memory and local storage in bytes, number of pods, and the rest by name.

    ``other`` holds extended resources and huge pages as (name, amount), sorted by name.
    """

    cpu_milli: int = 0
    memory_bytes: int = 0
    pods: int = 0
    ephemeral_storage_bytes: int = 0
    other: tuple[tuple[str, int], ...] = ()
