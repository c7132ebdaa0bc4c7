"""Devices for resource claims (DRA), with the meaning that kube-scheduler gives them.

A claim that has devices ties its pods to the nodes that can use them. One that has none gets some of the node
that its pod is placed on, from Kubernetes' own rules (``dra_allocation``). What is chosen goes with the place
of the pod: as long as it has that place, no other claim gets these devices, and other pods with the claim go
where they can be used. What the API server says of a claim goes before what was chosen.

A claim is given up with the last of its pods. Until the API server says so its devices are held, but a place
may be kept for a pod that gets them then.
"""

from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np

from gpufleet.dra_allocation.allocation_errors import ClaimError
from gpufleet.dra_allocation.claims import ResourceClaim
from gpufleet.dra_allocation.likeness import asks_for_one_device
from gpufleet.dra_allocation.needed_values import needed_values
from gpufleet.dra_allocation.results import Allocation, Refusal
from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.node_reasons.claim_devices import BIT as CLAIM_DEVICES
from gpufleet.engine.node_reasons.claim_elsewhere import BIT as CLAIM_ELSEWHERE
from gpufleet.engine.place.relations.device_catalogue import DeviceCatalogue, NodeDevices
from gpufleet.engine.place.relations.held_by_claims import HeldByClaims
from gpufleet.engine.place.relations.node_answers import REFUSES, SERVES, UNKNOWN, Answers, NodeAnswers
from gpufleet.engine.place.relations.place_choice import ClaimedDevices
from gpufleet.engine.state.eligibility import nodes_of_affinity
from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.labels import NodeAffinity
from gpufleet.model.node import Node

STAND_IN = "~moved"
"""The end of names of claims that are no objects; no object's name has such a character."""


class KnownClaim(NamedTuple):
    """A claim as the API server has it; ``asks`` is what it asks for, equal for claims that are alike.

    ``users`` are the pods that may use it; None where others than pods may.
    """

    claim: ResourceClaim
    allocation: Allocation | None
    asks: bytes
    users: tuple[PodUid, ...] | None = ()


class DeviceClaims:
    """The claims, their devices, and what was chosen for pods that have a place."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._answers = NodeAnswers(fleet)
        self.catalogue = DeviceCatalogue(self._answers)
        self.held = HeldByClaims()
        self.known: dict[str, KnownClaim] = {}
        self._chosen: dict[str, dict[int, Allocation]] = {}
        self._left: frozenset[str] = frozenset()
        self._placed: dict[str, int] = {}
        self._shapes: dict[str, int] = {}

    @property
    def left(self) -> frozenset[str]:
        """Claims whose pods leave: what the API server says that they have is free.

        A controller makes such pods anew with claims that ask for the same; until then what is chosen for
        these claims stands for what those are to get.
        """
        return self._left

    @left.setter
    def left(self, paths: frozenset[str]) -> None:
        before = {path: self.allocation_of(path) for path in sorted(self._left ^ paths)}
        self._left = paths
        for path, had in before.items():
            self._replace(path, had, self.allocation_of(path))

    def set_claim(
        self, claim: ResourceClaim, allocation: Allocation | None, users: tuple[PodUid, ...] | None = ()
    ) -> bool:
        """A claim is there or changed; False where that helps no pod that waits."""
        path, before = claim.path, self.known.get(claim.path)
        if before is not None and (before.claim, before.allocation) == (claim, allocation):
            self.known[path] = before._replace(users=users)
            return False
        had = self.allocation_of(path)
        asks = msgspec.json.encode(replace(claim, namespace="", name=""))
        self.known[path] = KnownClaim(claim, allocation, asks, users)
        has = self.allocation_of(path)
        self._replace(path, had, has)
        # A pod waits for claims that are known. That one has by now what was chosen for it helps none.
        return before is not None and (before.claim != claim or had != has)

    def stand_in(self, path: str) -> str:
        """A claim that asks for the same, for a pod that is to come with a claim of its own; its path."""
        known = self.known[path]
        claim = replace(known.claim, name=f"{known.claim.name}{STAND_IN}")
        self.known.setdefault(claim.path, KnownClaim(claim, None, known.asks))
        return claim.path

    def drop_stand_in(self, path: str) -> None:
        """The pod has come, or no place is kept for it any more."""
        if path.endswith(STAND_IN):
            self.remove_claim(path)

    def remove_claim(self, path: str) -> bool:
        """A claim is gone; False where it had no devices."""
        had = self.allocation_of(path)
        if self.known.pop(path, None) is None:
            return False
        self._replace(path, had, self.allocation_of(path))
        return had is not None

    def _replace(self, path: str, had: Allocation | None, has: Allocation | None) -> None:
        self.catalogue.held_anew(self.held.replace(path, had, has))

    def allocation_of(self, path: str) -> Allocation | None:
        """What a claim has, or is to get with a pod that has a place."""
        known = self.known.get(path)
        if known is not None and known.allocation is not None and path not in self._left:
            return known.allocation
        return next(iter(self._chosen.get(path, {}).values()), None)

    def keep(self, row: int, devices: ClaimedDevices) -> None:
        """Devices were chosen for the claims of a pod."""
        for path, allocation in devices:
            had = self.allocation_of(path)
            self._chosen.setdefault(path, {})[row] = allocation
            self._replace(path, had, self.allocation_of(path))

    def drop(self, row: int, devices: ClaimedDevices) -> None:
        """The pod lost the place for which they were chosen."""
        for path, _ in devices:
            had, rows = self.allocation_of(path), self._chosen[path]
            del rows[row]
            if not rows:
                del self._chosen[path]
            self._replace(path, had, self.allocation_of(path))

    @property
    def are_used(self) -> bool:
        """True if any pod has claims."""
        return bool(self._shapes)

    def count_pods(self, paths: tuple[str, ...], pods: int) -> None:
        """So many more pods with these claims have places."""
        for path in paths:
            self._placed[path] += pods

    def count_shapes(self, paths: tuple[str, ...], shapes: int) -> None:
        """So many more shapes of pods are known that have these claims."""
        for path in paths:
            # Counts of pods are there before any trial, so that a trial adds none.
            self._placed.setdefault(path, 0)
            self._shapes[path] = self._shapes.get(path, 0) + shapes
            if not self._shapes[path]:
                del self._shapes[path], self._placed[path]

    def given_up(self, paths: Iterable[str]) -> frozenset[str]:
        """Those of these claims that have devices, and of which no pod has a place any more."""
        return frozenset(path for path in paths if not self._placed.get(path) and self._has_pods_alone(path))

    def ended(self, pods: Container[PodUid]) -> frozenset[str]:
        """The claims of which no pod is there any more: the API server is about to take their devices back.

        ``pods`` are those that are there. A claim that names no pod is not meant: nothing ends for it.
        """
        return frozenset(
            path
            for path, known in self.known.items()
            if known.users and known.allocation is not None and not any(uid in pods for uid in known.users)
        )

    def _has_pods_alone(self, path: str) -> bool:
        known = self.known.get(path)
        return known is not None and known.allocation is not None and known.users is not None

    def reasons(self, paths: tuple[str, ...], within: BoolArray | None = None) -> Int64Array:
        """What nodes have against a pod with these claims; only those of ``within`` are asked for devices."""
        found = np.zeros(self.fleet.row_count, np.int64)
        claims = [self.known.get(path) for path in paths]
        waiting: list[KnownClaim] = []
        for path, known in zip(paths, claims, strict=True):
            allocation = self.allocation_of(path)
            if known is None or (allocation is not None and self._is_disputed(path, allocation)):
                return found | CLAIM_DEVICES
            if allocation is None:
                waiting.append(known)
            elif allocation.nodes is not None:
                reached = nodes_of_affinity(NodeAffinity((allocation.nodes,)), self.fleet)
                found |= np.where(reached, 0, CLAIM_ELSEWHERE)
        if waiting:
            found |= np.where(self._serving(waiting, within), 0, CLAIM_DEVICES)
        return found

    def choose(self, paths: tuple[str, ...], node_row: int) -> ClaimedDevices | None:
        """Devices for each claim that has none yet; None where the node has none for them together."""
        open_claims = [known for known in map(self.known.get, paths) if known and self._is_open(known)]
        chosen = {known.claim.path: self.allocation_of(known.claim.path) for known in open_claims}
        waiting = [known for known in open_claims if chosen[known.claim.path] is None]
        if waiting:
            self._follow_nodes()
            found = self._allocate(self.catalogue.of(self.fleet.node_at(node_row)), waiting)
            if found is None:
                return None
            chosen.update((known.claim.path, one) for known, one in zip(waiting, found, strict=True))
        return tuple((path, allocation) for path, allocation in chosen.items() if allocation is not None)

    def _is_disputed(self, path: str, allocation: Allocation) -> bool:
        """True if another claim has one of these devices as well, with at least as good a right to it."""
        is_written = self._is_written(path)
        others = self.held.others_with(path, allocation)
        # What is only to be given some day is no ground against a claim that has the device.
        return any(self._is_written(other) or not is_written for other in others)

    def _is_written(self, path: str) -> bool:
        """True if the API server says what the claim has."""
        known = self.known.get(path)
        return known is not None and not self._is_open(known)

    def _is_open(self, known: KnownClaim) -> bool:
        return known.allocation is None or known.claim.path in self._left

    def _serving(self, waiting: Sequence[KnownClaim], within: BoolArray | None) -> BoolArray:
        """The nodes that serve these claims together; of nodes outside of ``within`` it is not said."""
        self._follow_nodes()
        answers = self._answers.of(tuple(known.asks for known in waiting))
        unknown = answers == UNKNOWN
        if within is not None:
            unknown &= within
        # Of nodes with alike devices one is asked: of thousands of nodes there are a few kinds.
        by_likeness: dict[Hashable, int] = {}
        asks_for_one = asks_for_one_device((known.claim for known in waiting), self.catalogue.classes)
        if asks_for_one:
            self._leave_out(waiting, answers, unknown)
        for row in np.flatnonzero(unknown).tolist():
            node = self.fleet.nodes[row]
            if node is None:
                continue
            likeness = None if asks_for_one else self._likeness(node)
            answer = by_likeness.get(likeness)
            if answer is None:
                serves = self._allocate(self.catalogue.of(node), waiting) is not None
                answer = SERVES if serves else REFUSES
                if likeness is not None:
                    by_likeness[likeness] = answer
            answers[row] = answer
        return answers == SERVES

    def _leave_out(self, waiting: Sequence[KnownClaim], answers: Answers, unknown: BoolArray) -> None:
        """Nodes without a device of the name that these claims give refuse them without being asked."""
        needed = needed_values((known.claim for known in waiting), self.catalogue.classes)
        names = self.catalogue.valued_nodes.with_all(needed)
        if names is None:
            return
        rows_by_name = self.fleet.row_by_name
        rows = [row for name in sorted(names) if (row := rows_by_name.get(NodeName(name))) is not None]
        others = unknown.copy()
        others[rows] = False
        answers[others] = REFUSES
        unknown[others] = False

    def _likeness(self, node: Node) -> Hashable | None:
        """What alike nodes have in common now; None where a node is to be asked itself."""
        found = self.catalogue.alike_nodes.of(node)
        return None if found is None else (found.common, self.held.likeness(found.pools))

    def _follow_nodes(self) -> None:
        """A node that is described anew may reach other slices than before."""
        self.catalogue.forget(self._answers.take_described())

    def _allocate(self, devices: NodeDevices, waiting: Sequence[KnownClaim]) -> tuple[Allocation, ...] | None:
        """Devices of a node for these claims together."""
        claims = [known.claim for known in waiting]
        try:
            found = devices.allocator.allocate(claims, self.held.held_of(devices.pools))
        except ClaimError:
            return None
        return None if isinstance(found, Refusal) else found
