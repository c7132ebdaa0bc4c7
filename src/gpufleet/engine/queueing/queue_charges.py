"""Which queue each pod is charged to, kept in step with what is said of queues, pods and devices.

While no queue is described nothing is kept and nothing is charged. What is said of queues is
settled at the beginning of a cycle: the tree anew, then all usage from the bookings, because usage
is never carried over from sums of another tree. ``gate`` decides by it.
"""

from collections.abc import Callable

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.charge import charge, recount, writes_for_charge
from gpufleet.engine.arrays.tables import TableStore
from gpufleet.engine.queueing.namespace_access import NamespaceAccess
from gpufleet.engine.queueing.resources import QuotaResources
from gpufleet.engine.queueing.tree import QueueTree
from gpufleet.engine.state.fleet import Fleet
from gpufleet.engine.state.pods import PodTable
from gpufleet.engine.state.shapes import ShapeTable
from gpufleet.model.identifiers import DEFAULT_QUEUE, PodUid, QueueName
from gpufleet.model.queue import Queue, QueueState


class QueueCharges:
    """The tree of queues, and the pods that are charged along it."""

    def __init__(self, store: TableStore, fleet: Fleet, shapes: ShapeTable, pods: PodTable) -> None:
        self.store = store
        self.shapes = shapes
        self.pods = pods
        self.resources = QuotaResources(store, fleet, shapes)
        self.tree = QueueTree(store, self.resources)
        self.namespace_access = NamespaceAccess(self.tree)
        self.is_active = False
        self.changes = 0
        self.drained_at: dict[QueueName, int] = {}
        self._had_admitted_namespaces = False
        self._charged_elsewhere: dict[int, None] = {}

    def set(self, queue: Queue, last_sequence: int) -> None:
        """Take over what is stated of a queue. Arrivals after ``last_sequence`` came after that.

        Raises EventError, before anything is changed, for what makes no sense.
        """
        self.tree.set(queue)
        if queue.state is not QueueState.DRAINING:
            self.drained_at.pop(queue.name, None)
        else:
            self.drained_at.setdefault(queue.name, last_sequence)

    def remove(self, name: QueueName) -> None:
        """The queue is not described any more."""
        self.tree.remove(name)
        self.drained_at.pop(name, None)

    def queue_row(self, row: int) -> int:
        """The row of the queue that a pod is charged to, NOT_SET while no queue is described."""
        # ``item``, because this is asked several times for each pod: it takes a third as long as an index.
        return self.store.tables.pods.item(layout.POD_QUEUE, row)

    def assign(self, row: int, name: QueueName) -> None:
        """A pod belongs to this queue; one that has a place is charged there from now on.

        One that has a place stays where it is charged if it could not have started in the other queue: what
        runs is charged somewhere, whatever its owner writes into it.
        """
        if not self.is_active:
            return
        if self.pods.pod_at(row).foreign:
            name = self._admitting(row, name)
        cells = self.store.tables.pods
        before = cells.item(layout.POD_QUEUE, row)
        if before != layout.NOT_SET and self.tree.name_at(before) == name:
            # Most pods that get their place: it was their queue while they waited.
            return
        is_placed = cells.item(layout.POD_NODE, row) != layout.NOT_SET
        if before == layout.NOT_SET and not is_placed:
            # Most pods that come: nothing of theirs is charged anywhere.
            queue_row = self.tree.hold(name)
            # Read anew: the tables may have grown for a queue that was not known.
            self.store.tables.pods[layout.POD_QUEUE, row] = queue_row
            return
        if before != layout.NOT_SET and is_placed and not self._may_move(row, name):
            self._charged_elsewhere[row] = None
            return
        # A charge is taken off along the path of the queue that the pod names at that moment.
        self._charge_if_placed(row, -1)
        self.store.tables.pods[layout.POD_QUEUE, row] = self.tree.hold(name)
        self._charge_if_placed(row, 1)
        if before != layout.NOT_SET:
            self.tree.drop(before)

    def _may_move(self, row: int, name: QueueName) -> bool:
        """True if a placed pod may be charged to this queue from now on."""
        if self.pods.pod_at(row).foreign:
            return True
        after = self.tree.row_by_name.get(name)
        if after is None or not self.tree.is_described(after):
            return False
        return self.namespace_access.refusal(after, self.pods.pod_at(row).namespace) is None

    def _admitting(self, row: int, name: QueueName) -> QueueName:
        """The queue that a pod names; the default one for what another scheduler placed in a queue that does
        not admit its namespace: that queue was not asked.
        """
        pod = self.pods.pod_at(row)
        named = self.tree.row_by_name.get(name) if pod.foreign else None
        if named is None or self.namespace_access.refusal(named, pod.namespace) is None:
            return name
        return DEFAULT_QUEUE

    def _charge_if_placed(self, row: int, sign: int) -> None:
        if self.pods.node_row(row) is not None and self.queue_row(row) != layout.NOT_SET:
            self.store.make_journal_room(self.store.writes_a_charge)
            charge(self.store.tables, row, sign)
            self.changes += 1

    def remove_pod(self, row: int, uid: PodUid) -> None:
        """A pod is gone, from its row and from the queue that it was charged to."""
        queue_row = self.queue_row(row) if self.is_active else layout.NOT_SET
        self.pods.remove(uid)
        if queue_row != layout.NOT_SET:
            self.tree.drop(queue_row)

    def settle(self, name_of: Callable[[int], QueueName]) -> bool:
        """Take over what was said since the last cycle; False if that changes nothing.

        ``name_of`` tells the queue of the pod in a row.
        """
        if not self.tree.is_stale and not (self.is_active and self.resources.kinds_changed()):
            return self._charge_claims_anew()
        # Where the tree was stale this was not asked above, and the kinds have to be taken over all the same.
        self.resources.kinds_changed()
        self.tree.settle()
        had_admitted_namespaces = self._had_admitted_namespaces
        self._had_admitted_namespaces = self.tree.has_admitted_namespaces
        if not self._switch(name_of) and (had_admitted_namespaces or self.tree.has_admitted_namespaces):
            self._ask_admission_of_foreign(name_of)
        self._move_charges(name_of)
        self.resources.write_all()
        columns = 1 + max(self.resources.column_by_name.values(), default=-1)
        self.store.writes_a_charge = writes_for_charge(columns, self.tree.path_max) if self.is_active else 0
        self._recount()
        self.changes += 1
        return True

    def _switch(self, name_of: Callable[[int], QueueName]) -> bool:
        """The first queue was described, or the last one is gone; False if neither."""
        active = bool(self.tree.described)
        if active == self.is_active:
            return False
        self.is_active = active
        self._follow_shapes(active=active)
        for row, pod in enumerate(self.pods.pods):
            if pod is None:
                continue
            if active:
                named = self._admitting(row, name_of(row))
                self.store.tables.pods[layout.POD_QUEUE, row] = self.tree.hold(named)
            else:
                self.tree.drop(self.queue_row(row))
                self.store.tables.pods[layout.POD_QUEUE, row] = layout.NOT_SET
        return True

    def _follow_shapes(self, *, active: bool) -> None:
        """Shapes that come are charged from now on, or not any more."""
        claims = self.resources.claims
        self.shapes.when_new = self.resources.begin if active else None
        self.shapes.when_gone = claims.forget if active else None
        for row, shape in enumerate(self.shapes.shapes):
            if shape is not None:
                (claims.note if active else claims.forget)(row, shape)

    def _charge_claims_anew(self) -> bool:
        """Pods are charged what their claims have, or ask for, by now; False if that is what it was."""
        resources, tables = self.resources, self.store.tables
        is_changed = False
        for row, shape in resources.claims.take_changed().items():
            after = resources.claims.of(shape, resources.column_by_name)
            if np.array_equal(after, tables.shape_claims[row]):
                continue
            is_changed = True
            pods = tables.pods
            of_shape = (pods[layout.POD_SHAPE] == row) & (pods[layout.POD_STATE] != 0)
            placed = np.flatnonzero(of_shape & (pods[layout.POD_NODE] != layout.NOT_SET)).tolist()
            for pod in placed:
                self._charge_if_placed(pod, -1)
            resources.write(row, shape)
            for pod in placed:
                self._charge_if_placed(pod, 1)
        self.changes += is_changed
        return is_changed

    def _move_charges(self, name_of: Callable[[int], QueueName]) -> None:
        """What stayed where it was charged goes to the queue that it names, where that admits it by now.

        A scheduler that starts anew charges it there at once.
        """
        rows, self._charged_elsewhere = self._charged_elsewhere, {}
        for row in rows:
            before = self.queue_row(row)
            if before == layout.NOT_SET or self.pods.node_row(row) is None:
                continue
            named = self._admitting(row, name_of(row))
            if self.tree.name_at(before) == named:
                continue
            if not self._may_move(row, named):
                self._charged_elsewhere[row] = None
                continue
            # Nothing is charged here: ``settle`` counts all of it anew afterwards.
            self.store.tables.pods[layout.POD_QUEUE, row] = self.tree.hold(named)
            self.tree.drop(before)

    def _ask_admission_of_foreign(self, name_of: Callable[[int], QueueName]) -> None:
        """What other schedulers placed is charged where a queue admits its namespace now."""
        for row, pod in enumerate(self.pods.pods):
            if pod is None or not pod.foreign or not self.is_active:
                continue
            before, named = self.queue_row(row), self._admitting(row, name_of(row))
            if before == layout.NOT_SET or self.tree.name_at(before) == named:
                continue
            self.store.tables.pods[layout.POD_QUEUE, row] = self.tree.hold(named)
            self.tree.drop(before)

    def _recount(self) -> None:
        tables = self.store.tables
        tables.queue_counted[:] = 0
        tables.queue_total[:] = 0
        tables.queue_protected[:] = 0
        if self.is_active:
            self.store.make_journal_room(self.store.writes_a_charge)
            recount(self.store.tables)
