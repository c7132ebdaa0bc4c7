"""Why waiting pods fit nowhere, asked once for all that are alike as long as nothing changes.

``place.refusal.judging`` works a verdict out; here it is remembered by shape, neighbours and queue, and
completed with what reservations have to do with it. ``cycle`` tells it with a refusal, ``scheduler`` when
asked.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.explanations.reservation_report import ReservationReport
from gpufleet.engine.instruction import GangUnschedulable, Unschedulable, Verdict
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.queueing.line import Line, SeenLabels
from gpufleet.engine.reserve.reservations import Reservations
from gpufleet.engine.state.gang_members import Members
from gpufleet.model.identifiers import NodeName
from gpufleet.model.shape import Shape


class Verdicts:
    """Remembers the verdicts on the state as it is."""

    def __init__(
        self, state: EngineState, reservations: Reservations, reservation_report: ReservationReport
    ) -> None:
        self.state = state
        self.reservations = reservations
        self.reservation_report = reservation_report
        self._known: dict[tuple[int, SeenLabels, int, bool, bool, str], tuple[Shape, Verdict]] = {}
        self._as_of = (layout.NOT_SET, layout.NOT_SET, layout.NOT_SET)

    def of(self, row: int, at_us: int) -> Verdict:
        """Why a waiting pod fits nowhere as of now."""
        own = self.reservations.of_row(row)
        if own is None:
            found = self._of_others(row)
        else:
            with self.state.trial() as without:
                # The pod's own reservation is no reason against it.
                without.release_all(list(own.nomination.rows))
                found = self._of_others(row)
        return self.reservation_report.complete(found, row, at_us)

    def of_unreported(self, line: Line, at_us: int) -> list[Unschedulable]:
        """Why the pods of a parked line wait that have not heard it yet."""
        rows, pod_at = self.state.waiting.unreported_rows(line), self.state.pods.pod_at
        if rows and self._are_alike_in_a_line():
            verdict = self.of(rows[0], at_us)
            return [Unschedulable(pod_at(row).uid, verdict) for row in rows]
        return [Unschedulable(pod_at(row).uid, self.of(row, at_us)) for row in rows]

    def _are_alike_in_a_line(self) -> bool:
        """True if nothing tells the pods of a line apart: no reservation or neighbour, no namespace that a
        queue admits or does not, and no queue that was draining when some of them came.
        """
        queues = self.state.queues
        asks_queues = queues.tree.has_admitted_namespaces or queues.drained_at
        return not (asks_queues or self.state.neighbours.is_watchful or self.reservations.held())

    def _of_others(self, row: int) -> Verdict:
        """Why a waiting pod fits nowhere as of now, without a word of reservations."""
        tables, neighbours = self.state.store.tables, self.state.neighbours
        shape_row = int(tables.pods[layout.POD_SHAPE, row])
        at = (int(tables.counters[layout.COUNTER_CHANGES]), neighbours.changes, self.state.queues.changes)
        # Nothing that a verdict rests on changes without one of these three counts.
        if at != self._as_of:
            self._known.clear()
            self._as_of = at
        shape = self.state.shapes.shape_at(shape_row)
        seen_labels: SeenLabels = neighbours.seen_labels(row) if neighbours.is_watchful else ()
        key = (shape_row, seen_labels, *self.state.gate.verdict_key(row))
        known = self._known.get(key)
        # A row may have been given to another shape while no node changed.
        if known is not None and known[0] == shape:
            return known[1]
        verdict = self.state.gangs.judging.verdict(row)
        self._known[key] = (shape, verdict)
        return verdict

    def reasons_by_node(self, row: int) -> dict[NodeName, tuple[str, ...]]:
        """The reasons of every node against a pod, which are too many to be told of each refused pod."""
        own = self.reservations.of_row(row)
        if own is None:
            return self.state.gangs.judging.reasons_by_node(row)
        with self.state.trial() as without:
            without.release_all(list(own.nomination.rows))
            return self.state.gangs.judging.reasons_by_node(row)


def gang_refusal(members: Members, placeable: int, verdict: Verdict | None, role: str) -> GangUnschedulable:
    """Why a gang cannot start: ``placeable`` members would fit, ``verdict`` is on the first other one."""
    gang = members.described
    return GangUnschedulable(gang.name, gang.min_members, members.arrived, placeable, verdict, role)
