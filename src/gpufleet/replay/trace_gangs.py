"""Puts the tasks of a list together into gangs.

A gang runs whole or not at all, so one bad member spoils it: if rows may be skipped, the rest of
its rows are skipped too, rather than that a smaller gang runs than the one that was recorded.
``trace_tasks`` uses this while it walks the rows.
"""

import msgspec

from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName, QueueName
from gpufleet.model.model_errors import InputError
from gpufleet.replay.bad_rows import BadRows


class Turn(msgspec.Struct, frozen=True):
    """What decides a task's turn; all members of a gang must have the same."""

    priority: int
    queue: QueueName
    gang: GangName | None
    gang_min_members: int | None


class _Members:
    """The members of one gang so far: the row of each, and its position among the tasks."""

    def __init__(self, turn: Turn, first_row: int, created_at_us: int) -> None:
        self.turn = turn
        self.first_row = first_row
        self.created_at_us = created_at_us
        self.positions_and_rows: list[tuple[int, int]] = []


class TraceGangs:
    """Collects gang members row by row, then makes the gangs."""

    def __init__(self) -> None:
        self._gangs: dict[GangName, _Members] = {}
        self._bad_row: dict[GangName, int] = {}

    def join(self, turn: Turn, row: int, position: int, created_at_us: int) -> None:
        """Adds the task at ``position`` to its gang; raises if it says otherwise than the first."""
        if turn.gang is None:
            return
        members = self._gangs.get(turn.gang)
        if members is None:
            members = self._gangs[turn.gang] = _Members(turn, row, created_at_us)
        elif members.turn != turn:
            raise _difference(members, turn)
        members.positions_and_rows.append((position, row))
        members.created_at_us = min(members.created_at_us, created_at_us)

    def lose(self, gang: str, row: int) -> None:
        """Notes that a row of this gang was bad."""
        self._bad_row.setdefault(GangName(gang), row)

    def finish(self, bad_rows: BadRows) -> tuple[tuple[Gang, ...], set[int]]:
        """The gangs that are whole, and the positions of the tasks of those that are not."""
        gangs = []
        dropped: set[int] = set()
        for name, members in self._gangs.items():
            least, count = members.turn.gang_min_members or 0, len(members.positions_and_rows)
            if least > count and name not in self._bad_row:
                bad_rows.refuse(members.first_row, _too_few(least, count))
                self._bad_row[name] = members.first_row
            if name in self._bad_row:
                dropped.update(position for position, _ in members.positions_and_rows)
                self._refuse_others(name, bad_rows)
            else:
                gangs.append(_gang(name, members))
        return tuple(gangs), dropped

    def _refuse_others(self, name: GangName, bad_rows: BadRows) -> None:
        if not bad_rows.skipping:
            return
        bad_row = self._bad_row[name]
        problem = f"is left out with its gang, of which row {bad_row} is bad"
        for _, row in self._gangs[name].positions_and_rows:
            if row != bad_row:
                bad_rows.refuse(row, InputError(problem, field="gang", value=name))


def _difference(members: _Members, turn: Turn) -> InputError:
    column, first, here = next(
        (column, getattr(members.turn, column), getattr(turn, column))
        for column in turn.__struct_fields__
        if getattr(members.turn, column) != getattr(turn, column)
    )
    return InputError(
        f"differs from row {members.first_row} of the same gang",
        field=column,
        value="" if here is None else str(here),
        expected="an empty cell" if first is None else str(first),
    )


def _too_few(least: int, members: int) -> InputError:
    return InputError(
        f"the gang has only {members} members",
        field="gang_min_members",
        value=str(least),
        expected=f"1 to {members}, or more rows of this gang",
    )


def _gang(name: GangName, members: _Members) -> Gang:
    turn = members.turn
    return Gang(
        name=name,
        min_members=turn.gang_min_members or len(members.positions_and_rows),
        queue=turn.queue,
        priority=turn.priority,
        created_at_us=members.created_at_us,
    )
