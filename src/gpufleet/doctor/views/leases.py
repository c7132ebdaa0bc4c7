"""Leases as checks read them: which holders are alive, judged by the cluster's own clock.

The machine that asks may have a wrong clock, and so may a node. What was renewed last is taken for now, if
another Lease was renewed in the same minute: a clock that is ahead of all others is alone.
"""

import datetime as dt
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from gpufleet.doctor.facts import Facts
from gpufleet.doctor.objects.status import time_of
from gpufleet.lint.objects.manifest import Manifest

NODE_LEASES = "kube-node-lease"
"""The namespace of the Leases by which kubelets say that they live."""

TOGETHER = dt.timedelta(seconds=60)
"""Within this time of one another two Leases back each other's clocks."""


@dataclass(frozen=True)
class Leases:
    """All Leases of a cluster."""

    all: tuple[Manifest, ...]

    @cached_property
    def _newest(self) -> dt.datetime | None:
        times = sorted((time for one in self.all if (time := _renewed(one)) is not None), reverse=True)
        backed = (late for late, next_one in pairwise(times) if late - next_one <= TOGETHER)
        return next(backed, times[0] if times else None)

    def silent_s(self, lease: Manifest) -> float | None:
        """How long a Lease was not renewed while others were; None where nothing tells."""
        renewed = _renewed(lease)
        if renewed is None or self._newest is None:
            return None
        return max(0.0, (self._newest - renewed).total_seconds())

    def named(self, name: str, namespace: str | None = None) -> tuple[Manifest, ...]:
        """The Leases of this name, in any namespace where none is given."""
        return tuple(one for one in self.all if one.name == name and namespace in {None, one.namespace})


def holder_of(lease: Manifest) -> str:
    """The holder of a Lease; empty if it has none."""
    return lease.root.text_at("spec", "holderIdentity") or ""


def leases_of(facts: Facts) -> Leases:
    """The Leases that were listed."""
    return facts.once(_leases_of)


def _leases_of(facts: Facts) -> Leases:
    return Leases(facts.of_kind("Lease"))


def _renewed(lease: Manifest) -> dt.datetime | None:
    return time_of(lease.root.at("spec", "renewTime"))
