"""What the pods of one shape ask of others, made ready once: selectors held in the equivalence_classes.

``neighbours`` keeps one of these for each shape in use that asks for anything.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays.array_types import BoolArray
from gpufleet.engine.place.relations.equivalence_classes import Criterion, EquivalenceClasses, Selection
from gpufleet.engine.state.eligibility import selected_nodes
from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.pod_affinity import NamespaceScope, PodTerm
from gpufleet.model.shape import Shape
from gpufleet.model.taint import untolerated
from gpufleet.model.topology_spread import SpreadConstraint


class AffinityAsk(NamedTuple):
    """Required affinity: the pods that all terms select, and the topology keys of the terms."""

    selection: Selection
    topology_keys: tuple[str, ...]


class SpreadAsk(NamedTuple):
    """One constraint; ``selection`` is None where it counts no pod.

    An empty selector counts none, although the pod itself is selected: so kube-scheduler has it.
    """

    constraint: SpreadConstraint
    selection: Selection | None
    selects_itself: bool


class PreferenceAsk(NamedTuple):
    """Pods whose domains are better by ``weight`` for each of them, or worse where it is negative."""

    weight: int
    selection: Selection
    topology_key: str


class Asks:
    """Everything that a shape asks of other pods, with the pods (by count) that ask it."""

    def __init__(self, shape: Shape, shape_row: int, equivalence_classes: EquivalenceClasses) -> None:
        relations = shape.relations
        self.shape = shape
        self.shape_row = shape_row
        self.equivalence_classes = equivalence_classes
        self.pods = 0
        self.ports = relations.ports
        self.volumes = relations.volumes
        self.device_claims = relations.device_claims
        self._held: list[Selection] = []
        self.affinity: AffinityAsk | None = None
        if relations.affinity:
            criteria = tuple(criterion(term) for term in relations.affinity)
            keys = tuple(dict.fromkeys(term.topology_key for term in relations.affinity))
            # A criterion said twice must be the selection of the same one said once.
            self.affinity = AffinityAsk(self._hold(tuple(dict.fromkeys(criteria))), keys)
        self.anti_affinity = tuple(
            (self._hold((criterion(term),)), term.topology_key) for term in relations.anti_affinity
        )
        self.preferred = tuple(
            PreferenceAsk(one.weight, self._hold((criterion(one.term),)), one.term.topology_key)
            for one in relations.preferred
        )
        self.spread = self._constraints(required=True)
        self.preferred_spread = self._constraints(required=False)
        self._count_waiting_shape(1)
        self._selected: tuple[int, BoolArray] | None = None
        self._tolerated: tuple[int, BoolArray] | None = None

    @property
    def prefers(self) -> bool:
        """True if some nodes are better than others for the pod, by its own word."""
        return bool(self.preferred or self.preferred_spread or self.shape.affinity.preferred)

    def _hold(self, criteria: tuple[Criterion, ...], *, staying: bool = False) -> Selection:
        selection = self.equivalence_classes.hold(criteria, staying=staying)
        self._held.append(selection)
        return selection

    def _constraints(self, *, required: bool) -> tuple[SpreadAsk, ...]:
        relations = self.shape.relations
        own_labels = dict(relations.labels)
        asked = []
        for constraint in relations.spread:
            if constraint.required == required:
                selector = constraint.selector
                selection = None
                if selector is not None and selector.requirements:
                    # As in kube-scheduler: only pods of its own namespace, and none that is ending.
                    scope = NamespaceScope((relations.namespace,))
                    selection = self._hold(((scope, selector),), staying=True)
                itself = selector is not None and selector.accepts(own_labels)
                asked.append(SpreadAsk(constraint, selection, itself))
        return tuple(asked)

    def _count_waiting_shape(self, shapes: int) -> None:
        """Say (or no longer say) to the selections that a further pod of theirs may open a place.

        A pod that comes can only do so for affinity, and for spread, where it fills the emptiest
        domain. Whatever else opens a place is a departure or a change of the fleet.
        """
        selections = [ask.selection for ask in self.spread if ask.selection is not None]
        if self.affinity is not None:
            selections.append(self.affinity.selection)
        for selection in selections:
            waiting_shapes = selection.waiting_shapes
            waiting_shapes[self.shape_row] = waiting_shapes.get(self.shape_row, 0) + shapes
            if not waiting_shapes[self.shape_row]:
                del waiting_shapes[self.shape_row]

    def release(self) -> None:
        """No pod asks this any more."""
        self._count_waiting_shape(-1)
        for selection in self._held:
            self.equivalence_classes.drop(selection)

    def affinity_selects_itself(self) -> bool:
        """True if the pod meets its own affinity terms."""
        relations = self.shape.relations
        if self.affinity is None:
            return False
        labels = self.equivalence_classes.namespaces.get(relations.namespace, {})
        return self.affinity.selection.selects(relations.namespace, labels, dict(relations.labels))

    def selected_nodes(self, fleet: Fleet) -> BoolArray:
        """The nodes that the pod's node selector and affinity accept."""
        # Descriptions of nodes change seldom, and every decision asks for this.
        if self._selected is None or self._selected[0] != fleet.description_changes:
            self._selected = (fleet.description_changes, selected_nodes(self.shape, fleet))
        return self._selected[1]

    def tolerated_nodes(self, fleet: Fleet) -> BoolArray:
        """The nodes whose taints the pod tolerates."""
        if self._tolerated is None or self._tolerated[0] != fleet.description_changes:
            tolerated = np.ones(fleet.row_count, np.bool_)
            for row, node in enumerate(fleet.nodes):
                if node is not None and node.taints:
                    tolerated[row] = untolerated(node.taints, self.shape.tolerations) is None
            self._tolerated = (fleet.description_changes, tolerated)
        return self._tolerated[1]


def criterion(term: PodTerm) -> Criterion:
    """What a term selects, apart from where."""
    return (term.scope, term.selector)
