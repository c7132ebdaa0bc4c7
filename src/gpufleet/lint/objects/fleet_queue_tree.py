"""What a FleetQueue may have of one resource while no other queue uses anything.

The arithmetic is that of ``engine.queueing`` without usage (designs/0004-queues.md), to which a test holds
it: rules know no engine. With subtree = nominal + what children lend, and guaranteed = what of that is not
lent,

    available(root)  = subtree
    available(queue) = guaranteed + min(available(parent), subtree - guaranteed + borrowing limit)

and never more than the hard limits on the way up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from gpufleet.kube.meanings.gpu_resources import is_whole_gpu
from gpufleet.lint.objects.amounts import amount
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field

GPU = "gpu"
DEPTH_MAX = 64
"""Queues on a path; of deeper ones, and of those that are their own ancestors, nothing is said."""


@dataclass(frozen=True)
class FleetTree:
    """The queues that are known, by name, and the resource that is asked about."""

    queues: Mapping[str, Manifest]
    resource: str

    def limits(self, queue: Manifest) -> bool:
        """Whether the resource is limited in the queue: by a quota of itself or of one above."""
        path = self._path(queue)
        return len(path) < DEPTH_MAX and any(self._quota(one) is not None for one in path)

    def available(self, queue: Manifest) -> Fraction:
        """The most that the queue may have, if these are all queues that there are."""
        path = self._path(queue)
        found = self._subtrees[path[-1].name]
        for one in reversed(path[:-1]):
            subtree = self._subtrees[one.name]
            guaranteed = self._guaranteed(one, subtree)
            borrowing = self._stated(one, "borrowingLimit")
            ceiling = found if borrowing is None else min(found, subtree - guaranteed + borrowing)
            found = guaranteed + ceiling
        return min([found, *self._hard_limits(queue)])

    def at_most(self, queue: Manifest) -> Fraction | None:
        """A bound that holds whichever other queues there are; None without one."""
        bounds = self._hard_limits(queue)
        borrowing = self._stated(queue, "borrowingLimit")
        if borrowing is not None:
            bounds.append((self._stated(queue, "nominal") or Fraction(0)) + borrowing)
        return min(bounds, default=None)

    def _path(self, queue: Manifest) -> list[Manifest]:
        """The queue and those above it, the root last."""
        path = [queue]
        while len(path) < DEPTH_MAX:
            above = self.queues.get(path[-1].root.text_at("spec", "parent") or "")
            if above is None:
                break
            path.append(above)
        return path

    @cached_property
    def _subtrees(self) -> dict[str, Fraction]:
        """For each queue what it owns and what the queues below it lend; queues in a circle are left out."""
        below: dict[str, list[Manifest]] = {}
        order = []
        for one in self.queues.values():
            parent = one.root.text_at("spec", "parent") or ""
            if parent in self.queues:
                below.setdefault(parent, []).append(one)
            else:
                order.append(one)
        # Queues are put behind the one above them while the list is walked.
        for one in order:
            order += below.get(one.name, ())
        found = {one.name: self._stated(one, "nominal") or Fraction(0) for one in order}
        for one in reversed(order):
            parent = one.root.text_at("spec", "parent") or ""
            if parent in found:
                found[parent] += found[one.name] - self._guaranteed(one, found[one.name])
        return found

    def _guaranteed(self, queue: Manifest, subtree: Fraction) -> Fraction:
        lending = self._stated(queue, "lendingLimit")
        return Fraction(0) if lending is None else max(Fraction(0), subtree - lending)

    def _hard_limits(self, queue: Manifest) -> list[Fraction]:
        limits = (self._stated(one, "hardLimit") for one in self._path(queue))
        return [one for one in limits if one is not None]

    def _stated(self, queue: Manifest, part: str) -> Fraction | None:
        quota = self._quota(queue)
        return quantity(quota.at(part)) if quota is not None and quota.at(part).exists else None

    def _quota(self, queue: Manifest) -> Field | None:
        """A queue's quota of the resource; GPUs of any maker are counted as one."""
        names = {self.resource, GPU} if is_whole_gpu(self.resource) else {self.resource}
        quotas = queue.root.at("spec", "quotas").items()
        return next((one for one in quotas if one.text_at("resource") in names), None)


def quantity(field: Field) -> Fraction:
    """The amount that stands there, 0 where none does."""
    found = amount(field.text)
    return Fraction(0) if found is None else Fraction(found.nano, 10**9)
