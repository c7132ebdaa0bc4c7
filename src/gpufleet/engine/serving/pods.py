"""Serves a line of single pods: its first pod starts, or the whole line waits as it does.

Pods of a line are interchangeable, so what keeps the first one out keeps out all of them, unless it is kept
out by what it alone has (its namespace, its labels, when it came): then it is set apart in another line.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.explanations.verdicts import Verdicts
from gpufleet.engine.instruction import Unschedulable
from gpufleet.engine.place.choose.placement import NO_NODES, place_pod_by_handle
from gpufleet.engine.queueing.line import Line
from gpufleet.engine.serving.carrying_out import CarryingOut
from gpufleet.engine.serving.other_ways import OtherWays


class PodLines:
    """Serves lines of single pods."""

    def __init__(self, carrying_out: CarryingOut, other_ways: OtherWays, verdicts: Verdicts) -> None:
        self.state = carrying_out.state
        self.carrying_out = carrying_out
        self.other_ways = other_ways
        self.verdicts = verdicts

    def serve(self, line: Line) -> bool:
        """Place the first pod of a line; otherwise park the line, and False if it holds back others."""
        state, queues = self.state, self.state.queues
        row = line.waiting[0][-1]
        if queues.is_active:
            # Each is asked only where some queue is draining, or admits some namespaces alone.
            if queues.drained_at and not line.key.late and state.gate.is_late(row):
                state.set_apart_late(line)
                return True
            if queues.tree.has_admitted_namespaces and not line.key.refused and state.gate.is_refused(row):
                state.set_apart_refused(line)
                return True
            if state.gate.keeps_out(row):
                if state.gate.bar(row) is None and self._find_other_ways(line, row, lacks_quota=True):
                    return True
                state.keep_out(line, state.workloads.single(row))
                # Work that came late to a draining queue, or may not use the queue, holds back no other.
                return line.key.late or bool(line.key.refused)
        if state.neighbours.is_watchful and state.neighbours.concerns(row):
            return self._serve_related(line, row)
        if row == state.refused_newcomer:
            # Nothing has happened since it was tried.
            state.refused_newcomer = None
            return self._seek_or_park(line, row)
        if self.other_ways.cannot_start(row) or self._place(line, row) == layout.NOT_SET:
            return self._seek_or_park(line, row)
        self.carrying_out.bind(row)
        state.waiting.advance(line)
        return True

    def _place(self, line: Line, row: int) -> int:
        """Book the first pod of a line on its best node; the node or NOT_SET."""
        state, gpu = self.state, self.state.pods.pod_at(row).shape.gpu
        state.pods.make_journal_room(1, gpu.count)
        gate = state.gate
        if not (gate.is_choosy or gpu.model_order):
            return self._place_on(row, state.shapes.slot(line.key.shape_row), NO_NODES)
        if not (gate.fleet.spot_nodes or gpu.model_order):
            # As ``in_order`` has it where there is one place to try, and most pods of queues are such.
            found = gate.narrowed(row, NO_NODES)
            return layout.NOT_SET if found is None else self._place_on(row, found.slot, found.nodes)
        for where in gate.in_order(row, NO_NODES):
            node = self._place_on(row, where.slot, where.nodes)
            if node != layout.NOT_SET:
                return node
        return layout.NOT_SET

    def _place_on(self, row: int, slot: int, nodes: Int64Array) -> int:
        """Book a pod on the best of these nodes, NO_NODES standing for all of them."""
        state = self.state
        return place_pod_by_handle(
            state.store.handle, state.shapes.rankings_handle, state.policy.handle, slot, row, nodes
        )

    def _serve_related(self, line: Line, row: int) -> bool:
        """Place the first pod of a line where its neighbours allow it; otherwise park the line."""
        state = self.state
        if state.related.place(row):
            self.carrying_out.bind(row)
            state.waiting.advance(line)
            return True
        barred = not line.key.apart and state.neighbours.is_barred_somewhere(row)
        if barred and len(state.related.feasible(row, others=False)):
            state.set_apart(line)
            return True
        return self._seek_or_park(line, row)

    def _seek_or_park(self, line: Line, row: int) -> bool:
        """A pod fits nowhere: it is nominated if others' end makes room, otherwise its line is parked."""
        if self._find_other_ways(line, row, lacks_quota=False):
            return True
        self._park(line, row)
        return False

    def _find_other_ways(self, line: Line, row: int, *, lacks_quota: bool) -> bool:
        """A pod fits nowhere as things are: True if it starts all the same, or a place is kept for it."""
        workload, other_ways = self.state.workloads.single(row), self.other_ways
        if not other_ways.cannot_start(row) and other_ways.behind_reservations(workload):
            self.carrying_out.bind(row)
        elif not other_ways.seek(line, workload):
            if not other_ways.reserve(line, workload, lacks_quota=lacks_quota):
                return False
            self._tell(line, row)
        self.state.waiting.advance(line)
        return True

    def _tell(self, line: Line, row: int) -> None:
        """A pod with a reservation stands in no line, so it hears at once why it waits, if it has not yet."""
        if line.take_unreported(self.state.sequence_by_row[row]):
            uid, at_us = self.state.pods.pod_at(row).uid, self.carrying_out.at_us
            self.carrying_out.instructions.append(Unschedulable(uid, self.verdicts.of(row, at_us)))

    def _park(self, line: Line, row: int) -> None:
        """A line found no room; where quota rules devices out, more quota would help it too."""
        if self.state.queues.is_active:
            where = self.state.gate.narrowed(row, NO_NODES)
            if where is None or where.is_narrower:
                self.state.keep_out(line, self.state.workloads.single(row), lacks_room=True)
                return
        self.state.waiting.park(line)
