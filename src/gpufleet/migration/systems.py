"""The systems by the names that people type, which kinds each is read from, and what they become."""

from collections.abc import Callable, Iterable

import msgspec

from gpufleet.migration import (
    amd_gpu_operator,
    elastic_quota,
    gpu_operator,
    intel_device_plugins,
    kai,
    kueue,
    volcano,
)
from gpufleet.migration.field_notes import FieldNotes
from gpufleet.migration.fleet_policies import PolicyDraft
from gpufleet.migration.queues import Draft
from gpufleet.migration.sources import Source


class System(msgspec.Struct, frozen=True):
    """One system. ``needs_nodes``: what the fleet has is a part of its quota. ``needs_namespaces``: they say
    which work may use a queue.
    """

    title: str
    groups: tuple[str, ...]
    kinds: tuple[str, ...]
    convert: Callable[[Iterable[Source], FieldNotes], tuple[Draft, ...] | tuple[PolicyDraft, ...]]
    needs_nodes: bool = False
    needs_namespaces: bool = False


SYSTEMS = {
    "kueue": System("Kueue", (kueue.GROUP,), kueue.KINDS, kueue.convert, needs_namespaces=True),
    "kai": System("KAI", (kai.GROUP,), kai.KINDS, kai.convert, needs_nodes=True, needs_namespaces=True),
    "volcano": System(
        "Volcano", (volcano.GROUP,), volcano.KINDS, volcano.convert, needs_nodes=True, needs_namespaces=True
    ),
    "elasticquota": System(
        "scheduler-plugins",
        (elastic_quota.GROUP, elastic_quota.OLD_GROUP),
        elastic_quota.KINDS,
        elastic_quota.convert,
    ),
    "nvidia": System(
        "NVIDIA's GPU operator", (gpu_operator.GROUP,), gpu_operator.KINDS, gpu_operator.convert
    ),
    "amd": System(
        "AMD's GPU operator", (amd_gpu_operator.GROUP,), amd_gpu_operator.KINDS, amd_gpu_operator.convert
    ),
    "intel": System(
        "Intel's device plugins",
        (intel_device_plugins.GROUP,),
        intel_device_plugins.KINDS,
        intel_device_plugins.convert,
    ),
}
