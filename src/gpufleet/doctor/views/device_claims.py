"""Devices by claims (DRA): which claims hold which devices, and what the slices of each pool say."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpufleet.doctor.facts import Facts
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field

GROUP = "resource.k8s.io"
"""The API group of claims, slices and classes."""


class DeviceName(NamedTuple):
    """What names a device in a cluster."""

    driver: str
    pool: str
    device: str

    @property
    def title(self) -> str:
        """How people name it."""
        return "/".join(self)


@dataclass(frozen=True)
class Holding:
    """A claim has a device, whole or a share of it. ``users`` are the pods that may use it."""

    claim: Manifest
    device: DeviceName
    is_share: bool
    users: tuple[str, ...]


@dataclass
class DevicePool:
    """The slices of a pool in their newest generation."""

    driver: str
    name: str
    generation: int = -1
    slice_count: int = 0
    slices: list[Manifest] = field(default_factory=list)

    @property
    def title(self) -> str:
        """How people name it."""
        return f"{self.driver}/{self.name}"

    @property
    def is_complete(self) -> bool:
        """Whether all its slices are there."""
        return len(self.slices) == self.slice_count

    def devices(self) -> Iterator[Field]:
        """The pool's devices, in all slices."""
        for one in self.slices:
            yield from one.root.at("spec", "devices").items()

    def counter_sets(self) -> Iterator[Field]:
        """The pool's sets of counters, in all slices."""
        for one in self.slices:
            yield from one.root.at("spec", "sharedCounters").items()


def holdings(facts: Facts) -> tuple[Holding, ...]:
    """What claims hold; access for administration holds nothing."""
    return facts.once(_holdings)


def device_pools(facts: Facts) -> tuple[DevicePool, ...]:
    """All pools, by driver and name."""
    return facts.once(_device_pools)


def named(one: Field) -> str:
    """The name of a device or of a set of counters."""
    return one.text_at("name") or ""


def _holdings(facts: Facts) -> tuple[Holding, ...]:
    return tuple(
        Holding(
            claim,
            DeviceName(
                result.text_at("driver") or "", result.text_at("pool") or "", result.text_at("device") or ""
            ),
            result.at("shareID").exists,
            tuple(user.text_at("name") or "" for user in claim.root.at("status", "reservedFor").items()),
        )
        for claim in facts.of_kind("ResourceClaim", group=GROUP)
        for result in claim.root.at("status", "allocation", "devices", "results").items()
        # A claim with admin access looks at a device that another claim may have, and holds nothing.
        if result.text_at("adminAccess") != "true"
    )


def _device_pools(facts: Facts) -> tuple[DevicePool, ...]:
    found: dict[tuple[str, str], DevicePool] = {}
    for one in facts.of_kind("ResourceSlice", group=GROUP):
        spec = one.root.at("spec")
        key = (spec.text_at("driver") or "", spec.text_at("pool", "name") or "")
        generation = spec.at("pool", "generation").integer or 0
        pool = found.setdefault(key, DevicePool(*key))
        if generation > pool.generation:
            pool.generation, pool.slices = generation, []
            pool.slice_count = spec.at("pool", "resourceSliceCount").integer or 0
        if generation == pool.generation:
            pool.slices.append(one)
    return tuple(found[key] for key in sorted(found))
