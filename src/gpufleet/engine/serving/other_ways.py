"""What is left for a workload that has no place as things are, the same for a single pod and for a gang.

It may run where others start later (``behind_reservations``), or once others have ended (``seek``), or it
holds the place where it will start first (``reserve``). ``pods`` and ``gangs`` ask in this order.
"""

from gpufleet.engine.lifecycle.nominations import Nominations
from gpufleet.engine.place.workloads.workload import Workload
from gpufleet.engine.preempt.search_retries import SearchRetries
from gpufleet.engine.preempt.victims import EvictionPlan, NoEvictionPlan, UnplacedWorkload, VictimSearch
from gpufleet.engine.queueing.line import Line
from gpufleet.engine.reserve.backfill import Backfill
from gpufleet.engine.reserve.beside_drains import BesideDrains
from gpufleet.engine.reserve.reservations import Reservations
from gpufleet.engine.serving.carrying_out import CarryingOut
from gpufleet.engine.serving.left_over import LeftOver


class OtherWays:
    """Looks for other ways for the first workload of a line."""

    def __init__(
        self,
        carrying_out: CarryingOut,
        nominations: Nominations,
        victims: VictimSearch,
        reservations: Reservations,
        search_retries: SearchRetries,
    ) -> None:
        self.state = carrying_out.state
        self.carrying_out = carrying_out
        self.nominations = nominations
        self.victims = victims
        self.reservations = reservations
        self.backfill = Backfill(self.state, reservations)
        self.beside_drains = BesideDrains(self.state, reservations.ends)
        self.search_retries = search_retries
        self.left_over = LeftOver(self.state)
        self._again_at_us: int | None = None

    def cannot_start(self, row: int) -> bool:
        """True if it is certain that a pod has no place in this step, unless others end for it."""
        return self.reservations.cannot_start(row)

    def behind_reservations(self, workload: Workload) -> list[int]:
        """Book it where others start later, or on a node before it is empty; the rows booked, none if not."""
        unplaced = self._unplaced(workload)
        return self.backfill.place(unplaced) or self.beside_drains.place(unplaced)

    def seek(self, line: Line, workload: Workload) -> bool:
        """Look for pods whose end makes room, or frees quota; False if there are none."""
        self._again_at_us = None
        if not workload.must_start:
            return False
        unplaced = self._unplaced(workload)
        plan = None if self.cannot_start(workload.row) else self.reservations.guests.plan(unplaced)
        found = plan or self.victims.find(unplaced, self.state)
        if not isinstance(found, EvictionPlan):
            if isinstance(found, NoEvictionPlan):
                self._again_at_us = found.again_at_us
                self.search_retries.note(line, found)
            return False
        self._nominate(found, workload)
        return True

    def _nominate(self, found: EvictionPlan, workload: Workload) -> None:
        """The victims are told to end, and the places are kept until they have left."""
        carrying_out = self.carrying_out
        carrying_out.take(found, workload.name, self.state.queue_of(workload.row))
        nomination = self.nominations.nominate(found.placements, found.waits_for)
        # A single pod that has a place already needs no victim by right.
        waits = workload.is_single and bool(found.victims) and found.why is None
        if not waits and self.nominations.is_ready(nomination):
            carrying_out.bind_nominated(self.nominations.take(nomination))
        else:
            carrying_out.instructions += self.nominations.instructions_of(nomination)
        if found.victims:
            self.left_over.offer(found)

    def reserve(self, line: Line, workload: Workload, *, lacks_quota: bool) -> bool:
        """Hold the place where it will start first; False if it holds none."""
        if not workload.must_start:
            return False
        unplaced, again_at_us = self._unplaced(workload), self._again_at_us
        held = self.reservations.hold(line, unplaced, again_at_us, own_queue_only=lacks_quota)
        return held is not None

    def _unplaced(self, workload: Workload) -> UnplacedWorkload:
        return UnplacedWorkload(workload, self.carrying_out.at_us)
