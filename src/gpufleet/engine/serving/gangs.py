"""Serves the line of a gang: as many members start as can, if with them it has its minimum.

What is left of a gang that has started waits behind all work that has not.
"""

from gpufleet.engine.arrays import layout
from gpufleet.engine.explanations.verdicts import Verdicts
from gpufleet.engine.place.workloads.gang_workload import GangWorkload
from gpufleet.engine.queueing.line import Line, LineKey
from gpufleet.engine.serving.carrying_out import CarryingOut
from gpufleet.engine.serving.other_ways import OtherWays
from gpufleet.engine.state.gang_members import Members
from gpufleet.model.identifiers import GangName


class GangLines:
    """Serves the lines of gangs.

    ``by_waiting_shape`` has by the row of a shape the lines of parked gangs that a pod which comes may wake.
    """

    def __init__(self, carrying_out: CarryingOut, other_ways: OtherWays, verdicts: Verdicts) -> None:
        self.state = carrying_out.state
        self.carrying_out = carrying_out
        self.other_ways = other_ways
        self.verdicts = verdicts
        self.by_waiting_shape: dict[int, dict[LineKey, None]] = {}

    def serve(self, line: Line, name: GangName) -> bool:
        """Start a gang, or park it; surplus members that did not fit stay parked."""
        state = self.state
        members = state.gangs.members(name)
        workload = state.workloads.of_members(members)
        if state.gate.is_active and self._is_kept_out(line, workload):
            return self._seek_quota(line, workload)
        only_minimum = members.missing > 0 and members.may_grow_later and state.waiting.others_wait(line)
        attempt = state.gangs.attempt(members, state.trial(), surplus=not only_minimum)
        placed = attempt.placed or self.other_ways.behind_reservations(workload)
        for row in placed:
            self.carrying_out.bind(row)
        if members.waiting and placed:
            state.give_turn(members, line)
            if only_minimum:  # The others' turn comes first; what is left after them is for growth.
                return True
        if not placed and self._seek(line, workload):
            return True
        # What is left of a gang that starts is told as well.
        if members.waiting and not members.reported and (not placed or (attempt.placed and attempt.verdict)):
            self.carrying_out.tell_gang(members, attempt.placeable, attempt.verdict, attempt.role)
        if not placed and self.other_ways.reserve(line, workload, lacks_quota=False):
            return True
        self._park(line, workload)
        return members.missing == 0

    def _is_kept_out(self, line: Line, workload: GangWorkload) -> bool:
        """Park a gang whose queue lets it not start, if its owner knows or must only be told which queue."""
        state, members, row = self.state, workload.members, workload.row
        barred = state.gate.bar(row) is not None
        if not barred and not (members.reported and state.lacks_quota(workload)):
            return False
        if not members.reported:
            verdict = self.verdicts.of(row, self.carrying_out.at_us)
            self.carrying_out.tell_gang(members, len(members.placed), verdict, "")
        state.keep_out(line, workload, holds_back=self._holds_back(workload))
        return True

    def _seek_quota(self, line: Line, workload: GangWorkload) -> bool:
        """A gang that its queue keeps out waits parked, unless others' end gives it quota."""
        if self._seek(line, workload):
            return True
        if self.other_ways.reserve(line, workload, lacks_quota=True):
            return True
        return self.state.gate.holds_back_nothing(workload.row)

    def _seek(self, line: Line, workload: GangWorkload) -> bool:
        """Look for pods whose end lets a gang start that may start at all."""
        gate = self.state.gate
        if workload.must_start and gate.is_active and gate.bar(workload.row) is not None:
            return False
        return self.other_ways.seek(line, workload)

    def _park(self, line: Line, workload: GangWorkload) -> None:
        """What is left of a gang waits; of one that has all it wants nothing is left."""
        state, members = self.state, workload.members
        if not members.waiting:
            state.withdraw_gang(workload.ranked)
            return
        self._note_shapes_that_wait(line.key, members)
        if state.gate.is_active:
            state.keep_out(line, workload, holds_back=self._holds_back(workload), lacks_room=True)
        else:
            state.waiting.park(line, holds_back=members.missing > 0)

    def _holds_back(self, workload: GangWorkload) -> bool:
        """True if work behind a gang in a strict queue waits for it."""
        return workload.members.missing > 0 and not self.state.gate.holds_back_nothing(workload.row)

    def _note_shapes_that_wait(self, key: LineKey, members: Members) -> None:
        """A gang is parked: remember by which shapes a pod that comes may wake it."""
        if self.state.neighbours.is_active:
            for row in members.waiting:
                if self.state.neighbours.waits_for_pods(row):
                    shape_row = int(self.state.store.tables.pods[layout.POD_SHAPE, row])
                    self.by_waiting_shape.setdefault(shape_row, {})[key] = None

    def wake_for(self, shape_row: int) -> bool:
        """Wake parked gangs that wait for pods of this shape to have a place; False if there are none."""
        waiting, woken = self.state.waiting, False
        for key in self.by_waiting_shape.pop(shape_row, ()):
            if key in waiting.parked_gangs:
                waiting.wake(key)
                woken = True
        return woken
