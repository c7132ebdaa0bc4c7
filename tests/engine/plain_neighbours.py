"""What other pods decide about a place, the slow and obvious way: the rules of kube-scheduler, one pod
and one node at a time, over plain values. The engine's counts and arrays are held against it.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpufleet.engine.node_reasons.others_anti_affinity import BIT as OTHERS_ANTI_AFFINITY
from gpufleet.engine.node_reasons.pod_affinity import BIT as POD_AFFINITY
from gpufleet.engine.node_reasons.pod_anti_affinity import BIT as POD_ANTI_AFFINITY
from gpufleet.engine.node_reasons.ports import BIT as PORTS
from gpufleet.engine.node_reasons.spread import BIT as SPREAD
from gpufleet.engine.node_reasons.volume_in_use import BIT as VOLUME_IN_USE
from gpufleet.engine.node_reasons.volume_limit import BIT as VOLUME_LIMIT
from gpufleet.engine.node_reasons.volume_unbound import BIT as VOLUME_UNBOUND
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.pod_affinity import PodTerm
from gpufleet.model.taint import untolerated
from gpufleet.model.topology_spread import SpreadConstraint
from gpufleet.model.volumes import UnboundClaim

Volumes = tuple[tuple[str, str], ...]


class Placed(NamedTuple):
    """A pod with a place, on a node that may be unknown, and the volumes chosen with it."""

    pod: Pod
    node: NodeName
    volumes: Volumes = ()


class PlainNeighbours:
    """Nodes, pods with a place, and the labels of namespaces.

    ``kept`` are places of pods that are not there yet. As kube-scheduler does with nominated pods, everything
    is asked twice: with them and without them; but for claims, which have the volume that was chosen with a
    kept place.
    """

    def __init__(
        self,
        nodes: Mapping[NodeName, Node],
        placed: Iterable[Placed],
        namespaces: Mapping[str, dict[str, str]],
        kept: Iterable[Placed] = (),
    ) -> None:
        there = list(placed)
        self.nodes = nodes
        self.placed = [*there, *kept]
        self.namespaces = namespaces
        some_are_kept = len(self.placed) > len(there)
        self.without_kept = PlainNeighbours(nodes, there, namespaces) if some_are_kept else None

    def reasons(self, pod: Pod, node: Node) -> int:
        """Everything that speaks against the pod on the node, apart from labels, taints and room."""
        without_kept = 0 if self.without_kept is None else self.without_kept.reasons(pod, node)
        return (without_kept & ~VOLUME_UNBOUND) | self._reasons(pod, node)

    def _reasons(self, pod: Pod, node: Node) -> int:
        checks = {
            PORTS: self.port_is_taken,
            VOLUME_IN_USE: self.claim_is_in_use,
            VOLUME_LIMIT: self.too_many_volumes,
            VOLUME_UNBOUND: self.claims_cannot_be_served,
            SPREAD: self.spread_is_broken,
            POD_AFFINITY: self.is_away_from_its_own,
            POD_ANTI_AFFINITY: self.is_near_whom_it_avoids,
            OTHERS_ANTI_AFFINITY: self.is_near_who_avoids_it,
        }
        found = 0
        for reason, check in checks.items():
            if check(pod, node):
                found |= reason
        return found

    def on(self, name: NodeName) -> list[Pod]:
        """The pods on one node."""
        return [one.pod for one in self.placed if one.node == name]

    def selects(self, term: PodTerm, namespace: str, labels: tuple[tuple[str, str], ...]) -> bool:
        """True if the term selects a pod that looks so."""
        of_namespace = self.namespaces.get(namespace, {})
        in_scope = namespace in term.scope.names or (
            term.scope.selector is not None and term.scope.selector.accepts(of_namespace)
        )
        return in_scope and term.selector is not None and term.selector.accepts(dict(labels))

    def same_domain(self, key: str, one: Node, other: NodeName) -> bool:
        """True if both nodes have the label, with the same value."""
        if other not in self.nodes:
            return False
        value = one.labels.get(key)
        return value is not None and value == self.nodes[other].labels.get(key)

    def port_is_taken(self, pod: Pod, node: Node) -> bool:
        """Another pod of the node holds one of its ports."""
        return any(
            mine.conflicts(theirs)
            for mine in pod.shape.relations.ports
            for other in self.on(node.name)
            for theirs in other.shape.relations.ports
        )

    def is_away_from_its_own(self, pod: Pod, node: Node) -> bool:
        """No pods that all its terms select are in the node's domains, nor is it the first of its group."""
        terms = pod.shape.relations.affinity
        if not terms:
            return False
        if any(term.topology_key not in node.labels for term in terms):
            return True
        keys = {term.topology_key for term in terms}
        wanted = [
            one
            for one in self.placed
            if one.node in self.nodes
            and any(key in self.nodes[one.node].labels for key in keys)
            and all(self.selects(term, one.pod.namespace, one.pod.labels) for term in terms)
        ]
        if not wanted:
            own = pod.shape.relations
            return not all(self.selects(term, own.namespace, own.labels) for term in terms)
        return not all(any(self.same_domain(key, node, one.node) for one in wanted) for key in keys)

    def is_near_whom_it_avoids(self, pod: Pod, node: Node) -> bool:
        """A pod that one of its anti-affinity terms selects is in the node's domain."""
        return any(
            self.selects(term, one.pod.namespace, one.pod.labels)
            and self.same_domain(term.topology_key, node, one.node)
            for term in pod.shape.relations.anti_affinity
            for one in self.placed
        )

    def is_near_who_avoids_it(self, pod: Pod, node: Node) -> bool:
        """A pod whose anti-affinity selects it is in the node's domain."""
        return any(
            self.selects(term, pod.namespace, pod.labels)
            and self.same_domain(term.topology_key, node, one.node)
            for one in self.placed
            for term in one.pod.shape.relations.anti_affinity
        )

    def spread_is_broken(self, pod: Pod, node: Node) -> bool:
        """One of its required constraints would not hold."""
        required = [one for one in pod.shape.relations.spread if one.required]
        keys = [one.topology_key for one in required]
        return any(self._is_skewed(one, keys, pod, node) for one in required)

    def _is_skewed(self, constraint: SpreadConstraint, keys: list[str], pod: Pod, node: Node) -> bool:
        own = pod.shape.relations
        key, selector = constraint.topology_key, constraint.selector
        if key not in node.labels:
            return True
        counts: dict[str, int] = {}
        for other in self.nodes.values():
            if all(one in other.labels for one in keys) and self._counts(constraint, pod, other):
                selected = [
                    one
                    for one in self.on(other.name)
                    if selector is not None
                    and selector.requirements
                    and not one.leaving
                    and one.namespace == own.namespace
                    and selector.accepts(dict(one.labels))
                ]
                counts[other.labels[key]] = counts.get(other.labels[key], 0) + len(selected)
        fewest = min(counts.values()) if counts and len(counts) >= constraint.min_domains else 0
        itself = selector is not None and selector.accepts(dict(own.labels))
        return counts.get(node.labels[key], 0) + itself - fewest > constraint.max_skew

    def _counts(self, constraint: SpreadConstraint, pod: Pod, node: Node) -> bool:
        """True if the node takes part in the count."""
        needs = pod.shape
        selected = all(node.labels.get(key) == value for key, value in needs.node_selector)
        if constraint.honor_affinity and not (selected and needs.affinity.accepts(node.labels, node.name)):
            return False
        return not (constraint.honor_taints and untolerated(node.taints, needs.tolerations))

    def too_many_volumes(self, pod: Pod, node: Node) -> bool:
        """The node cannot attach what would be new to it."""
        attached = {one for other in self.on(node.name) for one in other.shape.relations.volumes.attachments}
        new = set(pod.shape.relations.volumes.attachments) - attached
        for driver, limit in node.volume_limits:
            brings = sum(one.driver == driver for one in new)
            taken = sum(one.driver == driver for one in {*attached, *node.attached})
            if brings and brings + taken > limit:
                return True
        return False

    def claim_is_in_use(self, pod: Pod, node: Node) -> bool:  # noqa: ARG002 - it is in use everywhere
        """Another pod uses a claim that is for one pod at a time."""
        used = {claim for one in self.placed for claim in one.pod.shape.relations.volumes.exclusive}
        return not used.isdisjoint(pod.shape.relations.volumes.exclusive)

    def claims_cannot_be_served(self, pod: Pod, node: Node) -> bool:
        """There is no way to serve all its unbound claims on the node."""
        return not self.assignments(pod, node)

    def assignments(self, pod: Pod, node: Node) -> list[Volumes]:
        """Every way to serve the pod's unbound claims on the node."""
        claims = pod.shape.relations.volumes.unbound
        ways = itertools.product(*(self._volumes_for(claim, node) for claim in claims))
        return [
            tuple((claim.claim, volume) for claim, volume in zip(claims, way, strict=True))
            for way in ways
            if len({volume for volume in way if volume}) == sum(bool(volume) for volume in way)
        ]

    def _volumes_for(self, claim: UnboundClaim, node: Node) -> list[str]:
        """What the claim may get on the node: volumes, or "" for a new one."""
        there = self.placed if self.without_kept is None else self.without_kept.placed
        for one in self.placed:
            for known, volume in one.volumes:
                if known == claim.claim:
                    users = {other for two in there for other, theirs in two.volumes if theirs == volume}
                    if volume and users - {known}:
                        return []  # It is kept for the claim, for when the pod that has it now has ended.
                    return self._same_volume(claim, volume, one.node, node)
        taken = {volume for one in self.placed for _, volume in one.volumes if volume}
        found = [
            one.volume
            for one in claim.candidates
            if one.volume not in taken and one.reach.accepts(node.labels, node.name)
        ]
        if any(reach.accepts(node.labels, node.name) for reach in claim.provision or ()):
            found.append("")
        return found

    def _same_volume(self, claim: UnboundClaim, volume: str, chosen_on: NodeName, node: Node) -> list[str]:
        """The volume that the claim already got with another pod, where it can be used."""
        for one in claim.candidates:
            if volume and one.volume == volume:
                return [volume] if one.reach.accepts(node.labels, node.name) else []
        return [volume] if node.name == chosen_on else []


def came_before(
    uid: PodUid, kept: Mapping[PodUid, NodeName], now: Mapping[PodUid, NodeName]
) -> dict[PodUid, NodeName]:
    """The places kept ``now`` that count for a pod: one that had its own has a right before later ones.

    ``kept`` are the places before this step, in the order in which they were given.
    """
    order = list(kept)
    later = set(order[order.index(uid) :]) if uid in kept else set()
    return {other: name for other, name in now.items() if other not in later}
