"""All that pods ask of each other, kept in step with the pods' places.

The truth about a place is the pod table, which trials write and undo. After any change of a place
``follow`` brings the counts in step with it, so that there is nothing to be undone here. Pods that ask
for nothing cost one look at ``is_watchful``, as long as no pod asks anything of another.

A pod that comes may open a place for others (affinity, spread): ``take_shapes_to_retry`` names the shapes
that should be looked at again.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import BoolArray, Int64Array
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.engine_errors import BrokenInvariantError
from gpufleet.engine.node_reasons.volume_in_use import BIT as VOLUME_IN_USE
from gpufleet.engine.place.relations.affinity import affinity_reasons, anti_affinity_reasons, others_reasons
from gpufleet.engine.place.relations.asks import Asks
from gpufleet.engine.place.relations.attachments import Attachments
from gpufleet.engine.place.relations.device_claims import DeviceClaims
from gpufleet.engine.place.relations.equivalence_classes import EquivalenceClass, EquivalenceClasses, Labels
from gpufleet.engine.place.relations.exclusive_volume_claims import ExclusiveClaims
from gpufleet.engine.place.relations.host_ports import HostPorts
from gpufleet.engine.place.relations.place_choice import ClaimedDevices, PlaceChoice, Volumes
from gpufleet.engine.place.relations.preference import avoided_taints, preference
from gpufleet.engine.place.relations.spread import spread_reasons
from gpufleet.engine.place.relations.unbound_volume_claims import UnboundClaims
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.state.pods import PodTable
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.identifiers import NodeName, PodUid

NO_REASONS: Int64Array = np.zeros(0, np.int64)


class Counted(NamedTuple):
    """Under what a pod was counted, so that exactly this can be taken back; ``kept``: it is not there yet."""

    node: int
    kept: bool
    pod_class: EquivalenceClass
    asks: Asks | None


class HeldClaims(NamedTuple):
    """The exclusive claims a pod holds, wherever its place is."""

    uid: PodUid
    claims: tuple[str, ...]


class Neighbours:
    """Counts, choices, and the reasons that follow from them."""

    def __init__(self, store: TableStore, fleet: Fleet, shapes: ShapeTable, pods: PodTable) -> None:
        self.store = store
        self.fleet = fleet
        self.shapes = shapes
        self.pods = pods
        self.equivalence_classes = EquivalenceClasses()
        self.ports = HostPorts()
        self.attachments = Attachments()
        self.attachments_there = Attachments()
        self.exclusive = ExclusiveClaims()
        self.claims = UnboundClaims(fleet)
        self.device_claims = DeviceClaims(fleet)
        self.claims.is_nominated = lambda row: pods.state(row) is PodState.NOMINATED
        self.is_active = False
        self.changes = 0
        self._asks_by_shape: dict[int, Asks] = {}
        self._counted: dict[int, Counted] = {}
        self._held: dict[int, HeldClaims] = {}
        self.shapes_to_retry: dict[int, None] = {}

    @property
    def is_watchful(self) -> bool:
        """True if the place of any pod may depend on more than room and labels."""
        return self.is_active or bool(self.fleet.soft_taint_sets)

    @property
    def are_pending(self) -> bool:
        """True if more than room may decide where a pod goes, or a pod has more than room of its node."""
        return bool(self.is_watchful or self._counted or self._held or self.claims.choice_by_row)

    def add(self, row: int) -> None:
        """A pod is known from now on."""
        shape_row = self.store.tables.pods.item(layout.POD_SHAPE, row)
        if not self.shapes.asks_anything(shape_row):
            return
        asks = self._asks_by_shape.get(shape_row)
        if asks is None:
            asks = Asks(self.shapes.shape_at(shape_row), shape_row, self.equivalence_classes)
            self._asks_by_shape[shape_row] = asks
            self.device_claims.count_shapes(asks.device_claims, 1)
        asks.pods += 1
        if not self.is_active:
            self._begin()

    def forget(self, row: int) -> None:
        """A pod is not known any more, or is about to be described anew."""
        # As of most pods of most fleets, nothing is known of it here.
        if self._counted or self._held:
            self._uncount(row)
            self._let_go(row)
        if self.claims.choice_by_row:
            self._drop_choice(row)
        if self._asks_by_shape:
            self._drop_asks(row)

    def _drop_asks(self, row: int) -> None:
        if not self._asks_by_shape:
            return
        shape_row = self.store.tables.pods.item(layout.POD_SHAPE, row)
        asks = self._asks_by_shape.get(shape_row)
        if asks is None:
            return
        asks.pods -= 1
        if asks.pods == 0:
            asks.release()
            self.device_claims.count_shapes(asks.device_claims, -1)
            del self._asks_by_shape[shape_row]
            if not self._asks_by_shape:
                self._end()

    def redescribe(self, row: int) -> None:
        """A pod is about to be described anew; ``add`` and ``follow`` come next. Its volumes stay its."""
        self._uncount(row)
        self._let_go(row)
        self._drop_asks(row)

    def _begin(self) -> None:
        """The first pod asks something of others: count every pod that has a place."""
        self.is_active = True
        self.pods.notes_moves = True
        for row, pod in enumerate(self.pods.pods):
            if pod is not None:
                self.follow(row)

    def _end(self) -> None:
        """No pod asks anything of others any more."""
        self.is_active = False
        self.pods.notes_moves = False
        self.pods.moved.clear()
        self._counted.clear()
        self.shapes_to_retry.clear()
        self.equivalence_classes.forget_pods()

    def follow_moves(self) -> None:
        """Bring the counts in step with every place that changed."""
        if self.pods.moved:
            # Each pod once, however often it moved.
            moved = dict.fromkeys(self.pods.moved)
            self.pods.moved.clear()
            for row in moved:
                self.follow(row)

    def follow(self, row: int) -> None:
        """Bring the counts in step with a pod's place."""
        pod = self.pods.pods[row]
        if not self.is_active or pod is None:
            return
        node = int(self.store.tables.pods[layout.POD_NODE, row])
        kept = self.pods.state(row) is PodState.NOMINATED
        counted = self._counted.get(row)
        # The rest of what was counted follows from the description, and ``redescribe`` takes that out.
        if (None if counted is None else counted[:2]) != (None if node == layout.NOT_SET else (node, kept)):
            self._uncount(row)
            if node != layout.NOT_SET:
                self._count(row, node, kept=kept)
        place = self.pods.lost_node_of(pod.uid) if node == layout.NOT_SET else self.fleet.node_at(node).name
        asks = self._asks(row)
        holds = place is not None and asks is not None and bool(asks.volumes.exclusive)
        if holds != (row in self._held):
            self._take_hold(row) if holds else self._let_go(row)
        self._check_choice(row, place)

    def _class_of(self, row: int) -> EquivalenceClass:
        pod = self.pods.pod_at(row)
        return self.equivalence_classes.pod_class(pod.namespace, pod.labels, leaving=pod.leaving)

    def _asks(self, row: int) -> Asks | None:
        return self._asks_by_shape.get(int(self.store.tables.pods[layout.POD_SHAPE, row]))

    def _count(self, row: int, node: int, *, kept: bool) -> None:
        counted = Counted(node, kept, self._class_of(row), self._asks(row))
        self._counted[row] = counted
        self._add(counted, 1)

    def _uncount(self, row: int) -> None:
        counted = self._counted.pop(row, None)
        if counted is not None:
            self._add(counted, -1)

    def _add(self, counted: Counted, pods: int) -> None:
        self.changes += 1
        node, kept, pod_class, asks = counted
        self.equivalence_classes.count(pod_class, node, pods, kept=kept)
        if asks is None:
            return
        for selection, key in asks.anti_affinity:
            self.equivalence_classes.raise_barrier(selection, key, node, pods)
        self.device_claims.count_pods(asks.device_claims, pods)
        self.ports.count(asks.ports, node, pods)
        self.attachments.count(asks.volumes.attachments, node, pods)
        if not kept:
            self.attachments_there.count(asks.volumes.attachments, node, pods)

    def _take_hold(self, row: int) -> None:
        self.changes += 1
        asks = self._asks(row)
        held = HeldClaims(self.pods.pod_at(row).uid, () if asks is None else asks.volumes.exclusive)
        self._held[row] = held
        self.exclusive.take(held.claims, held.uid)

    def _let_go(self, row: int) -> None:
        held = self._held.pop(row, None)
        if held is not None:
            self.changes += 1
            self.exclusive.give_back(held.claims, held.uid)

    def _check_choice(self, row: int, place: NodeName | None) -> None:
        """What was chosen with a place goes with that place, also to a node that is not known."""
        choice = self.claims.choice_by_row.get(row)
        if choice is not None and choice.node != place:
            self.changes += 1
            self._drop_choice(row)

    def settled(self, row: int) -> None:
        """A pod has its place for good: the shapes that such a pod may help are to be looked at again."""
        if not self.is_active:
            return
        self.follow(row)
        counted = self._counted.get(row)
        if counted is not None:
            for selection in counted.pod_class.selections:
                self.shapes_to_retry.update(dict.fromkeys(selection.waiting_shapes))

    def take_shapes_to_retry(self) -> list[int]:
        """The shapes for which a place may have opened since this was last asked."""
        shapes_to_retry = list(self.shapes_to_retry)
        self.shapes_to_retry.clear()
        return shapes_to_retry

    def near_keys(self, row: int) -> tuple[str, ...]:
        """The topology keys in whose domains the pod must be near others."""
        asks = self._asks(row)
        return () if asks is None or asks.affinity is None else asks.affinity.topology_keys

    def waits_for_pods(self, row: int) -> bool:
        """True if a pod that comes may open a place for this one."""
        asks = self._asks(row)
        return asks is not None and bool(asks.affinity or asks.spread)

    def depends_on_domains(self, row: int) -> bool:
        """True if labels of other nodes may decide whether the pod's place is one."""
        asks = self._asks(row)
        return asks is not None and bool(asks.affinity or asks.spread or asks.anti_affinity)

    def set_namespace(self, name: str, labels: dict[str, str]) -> None:
        """A namespace has these labels now, none if it is gone."""
        self.equivalence_classes.set_namespace(name, labels)
        self.changes += 1

    def concerns(self, row: int) -> bool:
        """True if the place of this pod depends on more than room and labels."""
        asks = self._asks(row)
        if asks is not None or self.is_barred_somewhere(row):
            return True
        return bool(self.fleet.soft_taint_sets) and self._avoids_any(row)

    def is_barred_somewhere(self, row: int) -> bool:
        """True if the anti-affinity of some placed pod selects this one."""
        return self.equivalence_classes.barrier_count > 0 and self._class_of(row).is_barred_somewhere

    def seen_labels(self, row: int) -> tuple[str, Labels]:
        """What selectors see of a pod."""
        pod = self.pods.pod_at(row)
        return pod.namespace, pod.labels

    def _avoids_any(self, row: int) -> bool:
        tolerations = self.pods.pod_at(row).shape.tolerations
        return any(avoided_taints(taints, tolerations) for taints in self.fleet.soft_taint_sets)

    def reasons(self, row: int, *, others: bool = True, within: BoolArray | None = None) -> Int64Array:
        """For each node row, what other pods, volumes and claims have against the pod (``node_reasons``).

        ``others`` False leaves out the anti-affinity of pods already placed. Whether there are devices for
        claims is asked of the nodes of ``within`` alone, and of those without another reason.
        """
        rows = self.fleet.row_count
        found = np.zeros(rows, np.int64)
        asks = self._asks(row)
        if others and self.is_barred_somewhere(row):
            found |= others_reasons(self._class_of(row), self.fleet)
        if asks is None:
            return found
        if asks.ports:
            found |= self.ports.reasons(asks.ports, rows)
        if asks.affinity is not None:
            itself = asks.affinity_selects_itself()
            found |= affinity_reasons(asks.affinity, self.fleet, selects_itself=itself)
        if asks.anti_affinity:
            found |= anti_affinity_reasons(asks, self.fleet)
        if asks.spread:
            found |= spread_reasons(asks, self.fleet)
        found |= self._volume_reasons(asks)
        if asks.device_claims:
            welcome = None if within is None else within & (found == 0)
            found |= self.device_claims.reasons(asks.device_claims, welcome)
        return found

    def reasons_beyond_room(self, row: int) -> Int64Array:
        """``reasons`` if there may be any, else an array of none."""
        if self.is_watchful and self.concerns(row):
            return self.reasons(row)
        return NO_REASONS

    def _volume_reasons(self, asks: Asks) -> Int64Array:
        volumes = asks.volumes
        found = np.zeros(self.fleet.row_count, np.int64)
        if volumes.attachments:
            found |= self.attachments.reasons(volumes.attachments, self.fleet)
            # A volume that only comes with a pod that may not come is new all the same.
            found |= self.attachments_there.reasons(volumes.attachments, self.fleet)
        if volumes.exclusive and self.exclusive.are_in_use(volumes.exclusive):
            found |= VOLUME_IN_USE
        if volumes.unbound:
            found |= self.claims.reasons(volumes.unbound)
        return found

    def prefers(self, row: int) -> bool:
        """True if some nodes are better than others for the pod, by its own word or a node's."""
        asks = self._asks(row)
        if asks is not None and asks.prefers:
            return True
        return bool(self.fleet.soft_taint_sets)

    def preference(self, row: int, nodes: Int64Array) -> Int64Array:
        """For each of the nodes, how much the pod prefers it."""
        tolerations = self.pods.pod_at(row).shape.tolerations
        return preference(self._asks(row), tolerations, self.fleet, nodes)

    def choose_with(self, row: int, node: int) -> None:
        """Choose volumes and devices for the claims of a pod that was just put on a node."""
        asks = self._asks(row)
        if asks is None or not (asks.volumes.unbound or asks.device_claims):
            return
        volumes = self.claims.choose(asks.volumes.unbound, node)
        devices = self.device_claims.choose(asks.device_claims, node)
        if devices is None:
            name = self.fleet.node_at(node).name
            raise BrokenInvariantError(f"node {name} was to serve claims, and has no devices for them")
        self._keep_choice(row, PlaceChoice(self.fleet.node_at(node).name, volumes, devices))
        self.changes += 1

    def choice_of(self, row: int) -> PlaceChoice | None:
        """What was chosen with the place of a pod, and the node it was chosen for."""
        return self.claims.choice_by_row.get(row)

    def choose_again(self, row: int, choice: PlaceChoice | None) -> None:
        """A pod is back where it was: exactly what was chosen with that place holds again."""
        if choice == self.choice_of(row):
            return
        self.changes += 1
        self._drop_choice(row)
        if choice is not None:
            self._keep_choice(row, choice)

    def _keep_choice(self, row: int, choice: PlaceChoice) -> None:
        self.claims.keep(row, choice)
        self.device_claims.keep(row, choice.devices)

    def _drop_choice(self, row: int) -> None:
        choice = self.choice_of(row)
        if choice is not None:
            self.claims.drop(row)
            self.device_claims.drop(row, choice.devices)

    def volumes_of(self, row: int) -> Volumes:
        """The volumes chosen for a pod."""
        choice = self.claims.choice_by_row.get(row)
        return () if choice is None else choice.volumes

    @property
    def left_claims(self) -> frozenset[str]:
        """The resource claims whose devices are free, since their pods leave."""
        return self.device_claims.left

    @left_claims.setter
    def left_claims(self, paths: frozenset[str]) -> None:
        self.device_claims.left = paths
        self.changes += 1

    def asks_for_devices(self, row: int) -> bool:
        """True for a pod with resource claims."""
        asks = self._asks(row)
        return asks is not None and bool(asks.device_claims)

    def claims_given_up(self, rows: Iterable[int]) -> frozenset[str]:
        """The resource claims that are given up with these pods, which have no places any more."""
        found = map(self._asks, rows) if self.device_claims.are_used else ()
        return self.device_claims.given_up(
            path for asks in found if asks is not None for path in asks.device_claims
        )

    def ended_claims(self) -> frozenset[str]:
        """The resource claims that have devices still and of which no pod is there any more."""
        return self.device_claims.ended(self.pods.row_by_uid)

    def claimed_by(self, row: int) -> ClaimedDevices:
        """The resource claims of a pod, and the devices chosen for them."""
        choice = self.claims.choice_by_row.get(row)
        return () if choice is None else choice.devices
