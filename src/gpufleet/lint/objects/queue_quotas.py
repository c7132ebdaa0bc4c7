"""The most that work of one queue can ever have: of Kueue's ClusterQueues and of our FleetQueues.

Each bound is one that no state of the cluster lifts: what others leave idle is counted as if all of it were
idle. So what is above it never runs, and what is below it may still have to wait.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from gpufleet.kube import keys
from gpufleet.lint.objects.fleet_queue_tree import FleetTree, quantity
from gpufleet.lint.objects.manifest import Manifest
from gpufleet.lint.source.fields import Field

_FLEET = ("gpufleet.io", "FleetQueue")
QUEUE_KINDS = ("FleetQueue", "ClusterQueue", "LocalQueue", "Cohort")


@dataclass(frozen=True)
class Lacking:
    """Kinds of objects that would have to be known."""

    plurals: tuple[str, ...]


@dataclass(frozen=True)
class Bound:
    """``most`` of a resource at once, for pods of one template and for all of a workload."""

    queue: str
    most: Fraction
    most_together: Fraction


@dataclass(frozen=True)
class Queues:
    """The queues that are known, and whether the kinds are known as a whole."""

    objects: tuple[Manifest, ...]
    known_kinds: frozenset[str]

    def bound(self, key: str, name: str, namespace: str, resource: str) -> Bound | Lacking | None:
        """The bound; what would have to be known for it; None where nothing bounds the resource."""
        fleet_queue = self._fleet_queue(name, namespace)
        if fleet_queue is not None:
            return self._of_fleet(fleet_queue, resource)
        if key == keys.KUEUE_QUEUE:
            return self._of_kueue(name, namespace, resource)
        # Queues of KAI and Volcano are not read.
        return (
            Lacking(("fleetqueues",)) if key == keys.QUEUE and "FleetQueue" not in self.known_kinds else None
        )

    @cached_property
    def _trees(self) -> dict[str, FleetTree]:
        return {}

    @cached_property
    def _by_kind(self) -> dict[tuple[str, str], list[Manifest]]:
        found: dict[tuple[str, str], list[Manifest]] = {}
        for one in self.objects:
            found.setdefault((one.group, one.kind), []).append(one)
        return found

    def _of_kind(self, group: str, kind: str) -> list[Manifest]:
        return self._by_kind.get((group, kind), [])

    def _of_kueue(self, name: str, namespace: str, resource: str) -> Bound | Lacking | None:
        queues = {one.name: one for one in self._of_kind("kueue.x-k8s.io", "ClusterQueue")}
        local = next(
            (
                one
                for one in self._of_kind("kueue.x-k8s.io", "LocalQueue")
                if one.name == name and (not namespace or not one.namespace or one.namespace == namespace)
            ),
            None,
        )
        queue = queues.get((local.root.text_at("spec", "clusterQueue") or "") if local is not None else "")
        if queue is None:
            return Lacking(("localqueues", "clusterqueues"))
        flavors = list(_flavors(queue, resource))
        if not flavors:
            return None
        cohort = _cohort(queue)
        # Without a borrowing limit a queue may have its cohort's quota; Cohorts may add to it.
        if cohort and any(not one.at("borrowingLimit").exists for _, one in flavors):
            if "Cohort" not in self.known_kinds or any(
                True for _ in self._of_kind("kueue.x-k8s.io", "Cohort")
            ):
                return Lacking(("clusterqueues", "cohorts"))
            others = [one for one in queues.values() if _cohort(one) == cohort]
        else:
            others = [queue]
        bounds = [_most(flavor, quota, others, resource, in_cohort=bool(cohort)) for flavor, quota in flavors]
        return Bound(f"ClusterQueue {queue.name}", max(bounds), sum(bounds, Fraction(0)))

    def _fleet_queue(self, name: str, namespace: str) -> Manifest | None:
        for one in self._of_kind(*_FLEET):
            locals_ = [
                (each.text_at("namespace"), each.text_at("name"))
                for each in one.root.at("spec", "localQueues").items()
            ]
            if (namespace, name) in locals_:
                return one
        return next((one for one in self._of_kind(*_FLEET) if one.name == name), None)

    def _of_fleet(self, queue: Manifest, resource: str) -> Bound | Lacking | None:
        if resource not in self._trees:
            self._trees[resource] = FleetTree({one.name: one for one in self._of_kind(*_FLEET)}, resource)
        tree = self._trees[resource]
        if not tree.limits(queue):
            return None
        is_whole = "FleetQueue" in self.known_kinds
        most = tree.available(queue) if is_whole else tree.at_most(queue)
        if most is None:
            return Lacking(("fleetqueues",))
        return Bound(f"FleetQueue {queue.name}", most, most)


def _flavors(queue: Manifest, resource: str) -> Iterator[tuple[str, Field]]:
    for group in queue.root.at("spec", "resourceGroups").items():
        for flavor in group.at("flavors").items():
            for one in flavor.at("resources").items():
                if one.text_at("name") == resource:
                    yield flavor.text_at("name") or "", one


def _cohort(queue: Manifest) -> str:
    """The cohort; Kueue's v1beta1 calls the field otherwise than v1beta2."""
    spec = queue.root.at("spec")
    return spec.text_at("cohortName") or spec.text_at("cohort") or ""


def _most(
    flavor: str, quota: Field, others: Iterable[Manifest], resource: str, *, in_cohort: bool
) -> Fraction:
    own = quantity(quota.at("nominalQuota"))
    if not in_cohort:
        return own
    if quota.at("borrowingLimit").exists:
        return own + quantity(quota.at("borrowingLimit"))
    return sum(
        (
            quantity(one.at("nominalQuota"))
            for queue in others
            for name, one in _flavors(queue, resource)
            if name == flavor
        ),
        Fraction(0),
    )
