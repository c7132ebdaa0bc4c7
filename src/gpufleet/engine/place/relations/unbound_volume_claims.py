"""Claims that are bound together with the pod's place (WaitForFirstConsumer; VolumeBinding).

A node will do if every claim can have a volume of its own there, or one can be provisioned. What was
chosen for a pod is out of reach for others as long as that pod has its place; another pod with the
same claim must go where its volume can be used.

A place that is only kept may wait for the end of a pod that has the volume now. Another pod with the claim
then waits for that too.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.node_reasons.volume_unbound import BIT as VOLUME_UNBOUND
from gpufleet.engine.place.relations.matching import assign
from gpufleet.engine.place.relations.place_choice import PlaceChoice, Volumes
from gpufleet.engine.state.eligibility import nodes_of_affinity
from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.identifiers import NodeName
from gpufleet.model.labels import NodeAffinity
from gpufleet.model.volumes import UnboundClaim


class UnboundClaims:
    """The choices made for pods that have a place."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.choice_by_row: dict[int, PlaceChoice] = {}
        self.is_nominated: Callable[[int], bool] = lambda _row: False
        self._rows_by_volume: dict[str, dict[int, None]] = {}
        self._rows_by_claim: dict[str, dict[int, None]] = {}
        self._reach: dict[NodeAffinity, BoolArray] = {}
        self._reach_at = -1

    def keep(self, row: int, choice: PlaceChoice) -> None:
        """Volumes were chosen for a pod."""
        self.choice_by_row[row] = choice
        for claim, volume in choice.volumes:
            self._rows_by_claim.setdefault(claim, {})[row] = None
            if volume:
                self._rows_by_volume.setdefault(volume, {})[row] = None

    def drop(self, row: int) -> None:
        """The pod lost the place for which it was chosen."""
        choice = self.choice_by_row.pop(row, None)
        if choice is None:
            return
        for claim, volume in choice.volumes:
            remove(self._rows_by_claim, claim, row)
            if volume:
                remove(self._rows_by_volume, volume, row)

    def _reach_of(self, affinity: NodeAffinity) -> BoolArray:
        """The nodes where a volume can be used, or made."""
        if self._reach_at != self.fleet.description_changes:
            self._reach.clear()
            self._reach_at = self.fleet.description_changes
        reach = self._reach.get(affinity)
        if reach is None:
            reach = self._reach[affinity] = nodes_of_affinity(affinity, self.fleet)
        return reach

    def _chosen(self, claim: str) -> tuple[str, NodeName] | None:
        """The volume and the node chosen for this claim with another pod.

        What was chosen for a pod that runs holds; a nominated one may have to be given another volume.
        """
        rows = self._rows_by_claim.get(claim)
        if not rows:
            return None
        choice = self.choice_by_row[next(self._running(rows), next(iter(rows)))]
        return dict(choice.volumes)[claim], choice.node

    def _running(self, rows: Iterable[int]) -> Iterator[int]:
        """The pods among these for which a place is not only kept."""
        return (row for row in rows if not self.is_nominated(row))

    def _is_in_use(self, volume: str, claim: str) -> bool:
        """True if a pod that runs has the volume by another claim."""
        users = self._running(self._rows_by_volume.get(volume, ()))
        return any(dict(self.choice_by_row[row].volumes).get(claim) != volume for row in users)

    def _options(self, claim: UnboundClaim) -> tuple[list[tuple[str, BoolArray]], BoolArray]:
        """The volumes that the claim may have, with their reach, and where one can be provisioned."""
        rows = self.fleet.row_count
        nowhere = np.zeros(rows, np.bool_)
        chosen = self._chosen(claim.claim)
        if chosen is not None:
            volume, name = chosen
            if volume and self._is_in_use(volume, claim.claim):
                return [], nowhere
            listed = [one for one in claim.candidates if volume and one.volume == volume]
            if listed:
                return [(volume, self._reach_of(listed[0].reach))], nowhere
            # Its volume is no candidate any more: only the node for which it was chosen is known to reach it.
            there = nowhere.copy()
            node = self.fleet.row_by_name.get(name)
            if node is not None:
                there[node] = True
            return ([(volume, there)], nowhere) if volume else ([], there)
        free = [one for one in claim.candidates if one.volume not in self._rows_by_volume]
        provision = nowhere.copy()
        for affinity in claim.provision or ():
            provision |= self._reach_of(affinity)
        return [(one.volume, self._reach_of(one.reach)) for one in free], provision

    def reasons(self, claims: tuple[UnboundClaim, ...]) -> Int64Array:
        """Nodes on which the claims cannot all be served."""
        options = [self._options(claim) for claim in claims]
        served = np.ones(self.fleet.row_count, np.bool_)
        certain = np.ones(self.fleet.row_count, np.bool_)
        for volumes, provision in options:
            some = provision.copy()
            for _, reach in volumes:
                some |= reach
            served &= some
            certain &= provision
        # Each claim alone has a choice there, but two may depend on one volume: only a matching tells.
        if len(claims) > 1:
            for node in np.flatnonzero(served & ~certain).tolist():
                served[node] = assign_on(node, options) is not None
        return np.where(served, 0, VOLUME_UNBOUND)

    def choose(self, claims: tuple[UnboundClaim, ...], node: int) -> Volumes:
        """A volume for each claim on a node where ``reasons`` found nothing."""
        given = assign_on(node, [self._options(claim) for claim in claims])
        if given is None:
            return ()
        return tuple((claim.claim, volume) for claim, volume in zip(claims, given, strict=True))


def assign_on(node: int, options: list[tuple[list[tuple[str, BoolArray]], BoolArray]]) -> list[str] | None:
    """The volumes for claims with these options on one node."""
    usable = [[volume for volume, reach in volumes if reach[node]] for volumes, _ in options]
    return assign(usable, [bool(provision[node]) for _, provision in options])


def remove(rows_by_name: dict[str, dict[int, None]], name: str, row: int) -> None:
    """Take a row out of its group, and the group away with its last row."""
    rows = rows_by_name[name]
    rows.pop(row, None)
    if not rows:
        del rows_by_name[name]
