"""A workload of the members of a gang: those that it lacks start together."""

from collections.abc import Iterable
from typing import NamedTuple

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.place.choose.placement import NO_NODES
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.place.gangs.gangs import Gangs
from gpufleet.engine.place.workloads.workload import WorkloadName
from gpufleet.engine.queueing.gate import Gate
from gpufleet.engine.state.gang_members import Members
from gpufleet.model.gang import Gang, gang_title


class GangWorkload(NamedTuple):
    """A gang that is described; see ``Workload`` for what it answers. Made anew whenever it is asked for."""

    gangs: Gangs
    members: Members

    @property
    def name(self) -> WorkloadName:
        """The name of the gang."""
        return self.ranked.name

    @property
    def title(self) -> str:
        """By the name of the gang, without its kind."""
        return gang_title(self.ranked.name)

    @property
    def ranked(self) -> Gang:
        """The gang, whose rank holds for its members."""
        return self.members.described

    @property
    def row(self) -> int:
        """The row of the member that waits first."""
        return next(iter(self.members.waiting), layout.NOT_SET)

    @property
    def rows(self) -> list[int]:
        """The rows of the members that wait."""
        return list(self.members.waiting)

    @property
    def least(self) -> int:
        """As many as the gang lacks."""
        return max(1, self.members.missing)

    @property
    def is_ready(self) -> bool:
        """True if enough members have come."""
        return self.members.ready

    @property
    def must_start(self) -> bool:
        """True while it lacks members."""
        return bool(self.members.waiting) and self.members.missing > 0

    @property
    def joins_others(self) -> bool:
        """True for a gang that has lost members."""
        return bool(self.members.placed) and self.members.missing > 0

    @property
    def is_single(self) -> bool:
        """Never, also with one member."""
        return False

    def asked(self, gate: Gate) -> Int64Array:
        """What as many of the members that wait as it lacks are charged at least together."""
        return gate.asked_together(self.rows, self.least)

    def asked_and_protected(self, gate: Gate) -> tuple[Int64Array, Int64Array]:
        """The amounts asked for and those under protection, for as many members as the gang lacks."""
        rows, least = self.rows, self.least
        return gate.asked_together(rows, least), gate.protected_together(rows, least)

    def let_wait(self, rows: Iterable[int], trial: Trial) -> None:
        """Members count as waiting again that have places in prospect."""
        members, kept = self.members, dict.fromkeys(rows)
        # They first, so that others of the gang do not take their turn.
        waiting = {row: members.nominated[row] for row in kept} | members.waiting
        trial.put(members, "waiting", waiting)
        nominated = {row: role for row, role in members.nominated.items() if row not in kept}
        trial.put(members, "nominated", nominated)

    def place(self, trial: Trial, nodes: Int64Array = NO_NODES, *, surplus: bool = False) -> list[int]:  # noqa: ARG002
        """Place its members by its own rules, which say on which nodes."""
        return self.gangs.place(self.members, trial, surplus=surplus)
