"""What the API server itself allows a namespace: ResourceQuotas and LimitRanges, as notes of an answer.

A pod that they refuse never exists, so no scheduler hears of it; its controller's event tells (``owners``),
and the figures here are those of now. The API server counts extended resources, such as GPUs, by
``requests.NAME`` alone: it takes a quota on ``limits.nvidia.com/gpu`` and never counts anything for it.
"""

import msgspec

from gpufleet.kube import resources
from gpufleet.kube.client import Client
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import Kind
from gpufleet.kube.status import Forbidden, NotFound
from gpufleet.model.phrases import counted
from gpufleet.model.resource_names import is_extended

NOTES_MAX = 8
"""A namespace may have a hundred limits; the rest is counted."""

# How a quota's names begin that bound limits or requests of pods.
LIMITS = "limits."
REQUESTS = "requests."
FEW = (
    "pods",
    "count/pods",
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
)
"""The amounts of a quota that an answer tells, besides all extended resources."""

Amounts = dict[str, str | int]


class QuotaSpec(Structure, frozen=True):
    """What a namespace may have; ``scopes`` say for which of its pods."""

    hard: Amounts = msgspec.field(default_factory=dict)
    scopes: tuple[str, ...] = ()


class QuotaStatus(Structure, frozen=True):
    """What of it is in use."""

    hard: Amounts = msgspec.field(default_factory=dict)
    used: Amounts = msgspec.field(default_factory=dict)


class ResourceQuota(Structure, frozen=True):
    """A ResourceQuota."""

    metadata: Metadata
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


class LimitItem(Structure, frozen=True):
    """What one container, or pod, may ask for, and what is written where it says nothing."""

    type: str = ""
    min: Amounts = msgspec.field(default_factory=dict)
    max: Amounts = msgspec.field(default_factory=dict)
    default: Amounts = msgspec.field(default_factory=dict)


class LimitRangeSpec(Structure, frozen=True):
    """All items of a LimitRange."""

    limits: tuple[LimitItem, ...] = ()


class LimitRange(Structure, frozen=True):
    """A LimitRange."""

    metadata: Metadata
    spec: LimitRangeSpec = LimitRangeSpec()


_QUOTA = msgspec.json.Decoder(ResourceQuota)
_RANGE = msgspec.json.Decoder(LimitRange)


async def namespace_limits(client: Client, namespace: str) -> tuple[str, ...]:
    """Notes on what the namespace may have; none where it may not be read or nothing limits it."""
    quotas = [_QUOTA.decode(raw) for raw in await _all(client, resources.RESOURCE_QUOTAS, namespace)]
    ranges = [_RANGE.decode(raw) for raw in await _all(client, resources.LIMIT_RANGES, namespace)]
    notes = [note for quota in quotas for note in quota_notes(quota)]
    notes += [note for one in ranges for note in range_notes(one)]
    more = (
        [f"and {counted(len(notes) - NOTES_MAX, 'more limit')} of the namespace"]
        if len(notes) > NOTES_MAX
        else []
    )
    return (*notes[:NOTES_MAX], *more)


async def _all(client: Client, kind: Kind, namespace: str) -> list[msgspec.Raw]:
    found: list[msgspec.Raw] = []
    try:
        async for page in client.list_pages(kind, namespace=namespace):
            found += page.items or ()
    except (Forbidden, NotFound):
        return []
    return found


def quota_notes(quota: ResourceQuota) -> list[str]:
    """What it leaves, and what of it is never counted."""
    name = f"ResourceQuota {harmless(quota.metadata.name)}"
    idle = [key for key in quota.spec.hard if _is_never_counted(key)]
    used = [
        f"{harmless(key)} {_text(quota.status.used.get(key, 0))} of {_text(hard)}"
        for key, hard in sorted((quota.status.hard or quota.spec.hard).items())
        if key not in idle and (key in FEW or is_extended(key.removeprefix(REQUESTS)))
    ]
    scopes = (
        f" (for pods that are {', '.join(map(harmless, quota.spec.scopes))})" if quota.spec.scopes else ""
    )
    notes = [f"{name} of the namespace{scopes}: {', '.join(used)} in use"] if used else []
    for key in sorted(idle):
        resource = harmless(key.removeprefix(LIMITS))
        notes.append(
            f"{name} limits nothing by {harmless(key)}: the API server counts extended resources only as "
            f"requests.{resource}; write that instead"
        )
    return notes


def _is_never_counted(key: str) -> bool:
    resource = key.removeprefix(LIMITS)
    return key.startswith(LIMITS) and is_extended(resource)


def range_notes(found: LimitRange) -> list[str]:
    """What one container or pod may ask for."""
    notes = []
    for item in found.spec.limits:
        parts = [
            f"{harmless(key)} {word} {_text(amount)}"
            for word, amounts in (
                ("at least", item.min),
                ("at most", item.max),
                ("unless said", item.default),
            )
            for key, amount in sorted(amounts.items())
        ]
        if parts:
            each = harmless(item.type.lower() or "object")
            notes.append(f"LimitRange {harmless(found.metadata.name)}: each {each} {', '.join(parts)}")
    return notes


def _text(amount: str | int) -> str:
    return harmless(str(amount))
