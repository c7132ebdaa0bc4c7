"""The pods of one gang, and what it still lacks.

A gang starts when its minimum, and that of every role, can be placed at once. Once it has started,
its minimum binds only as far as there are members: members that are left over when others have ended
need not wait for a minimum that can no longer come together, and members that come again after a
failure join those that run. A member that was told to end counts no more, though it is not gone yet: a gang
of which no other runs begins anew, and its members wait until they can start together. ``gangs`` tries to
place them.
"""

from dataclasses import dataclass, field

from gpufleet.engine.engine_errors import BrokenInvariantError
from gpufleet.model.gang import Gang


@dataclass(slots=True)
class Members:
    """The members by row, in the order in which they came; each with its role.

    ``gang`` is None while pods name a gang that is not described. ``nominated`` members have places
    that others still leave; until these are bound no other member is tried, so that the gang starts
    with its minimum or not at all. ``placed`` members stay where they are, those in ``ending`` were told to
    end and hold their places until they are gone.
    """

    gang: Gang | None = None
    waiting: dict[int, str] = field(default_factory=dict)
    placed: dict[int, str] = field(default_factory=dict)
    ending: dict[int, str] = field(default_factory=dict)
    nominated: dict[int, str] = field(default_factory=dict)
    sequence: int = 0
    started: bool = False
    reported: bool = False
    reported_short: bool = False
    reported_unknown: bool = False

    def describe(self, gang: Gang | None) -> None:
        """The gang is this from now on; None: it is not described any more."""
        self.gang = gang
        self.reported_unknown = False
        self._note_start(started=self.is_whole)

    @property
    def described(self) -> Gang:
        """The gang, where it must be described: what stands in a line, or was given places, always is."""
        if self.gang is None:
            raise BrokenInvariantError("a gang that is not described has its turn")
        return self.gang

    def wait(self, row: int, role: str) -> None:
        """A member waits."""
        self.waiting[row] = role

    def place(self, row: int, role: str, *, ends: bool) -> None:
        """A member has its place; with ``ends`` it was told to end."""
        self.waiting.pop(row, None)
        self.nominated.pop(row, None)
        (self.ending if ends else self.placed)[row] = role
        (self.placed if ends else self.ending).pop(row, None)
        self._note_start(started=self.started or self.is_whole)

    def update_end(self, row: int, *, ends: bool) -> bool:
        """A member was told to end, or does not end after all; False where that was known."""
        role = (self.placed if ends else self.ending).get(row)
        if role is None:
            return False
        self.place(row, role, ends=ends)
        return True

    def _note_start(self, *, started: bool) -> None:
        """A gang that has started was whole, and a member of it stays; one that begins anew is told anew."""
        started = started and bool(self.placed)
        if self.started and not started:
            self.reported = self.reported_short = False
        self.started = started

    def recall_start(self) -> None:
        """The gang was whole before a restart, and those of its members that stay go on."""
        self._note_start(started=True)

    def nominate(self, row: int) -> None:
        """A waiting member has a place that others still leave."""
        self.nominated[row] = self.waiting.pop(row)

    def displace(self, row: int) -> None:
        """A member has no place any more, if it had one."""
        self.placed.pop(row, None)
        self.ending.pop(row, None)
        self._note_start(started=self.started)

    @property
    def with_places(self) -> dict[int, str]:
        """The members that hold a place, those among them that end too."""
        return self.placed | self.ending

    def lacking_by_role(self) -> dict[str, int]:
        """How many members of each role are short of its minimum; roles that have it are left out."""
        if not self.described.role_minimums:
            return {}
        running = list(self.placed.values())
        lacking = {role: minimum - running.count(role) for role, minimum in self.described.role_minimums}
        return {role: count for role, count in lacking.items() if count > 0}

    @property
    def lacking(self) -> int:
        """How many members are short of the minimum of the gang and of all its roles together."""
        if self.gang is None:
            return 0
        by_role = sum(self.lacking_by_role().values())
        # The larger of both: a member counts for its role and for the gang.
        return max(0, self.gang.min_members - len(self.placed), by_role)

    @property
    def is_whole(self) -> bool:
        """True if the gang has its minimum."""
        return self.gang is not None and self.lacking == 0

    @property
    def missing_by_role(self) -> dict[str, int]:
        """How many members of each role must be placed together with the next one."""
        lacking = self.lacking_by_role()
        if not self.started:
            return lacking
        waiting = list(self.waiting.values())
        return {role: min(count, waiting.count(role)) for role, count in lacking.items()}

    @property
    def missing(self) -> int:
        """How many members must be placed together."""
        # The last pods of a job would wait for ever for others that are done.
        return min(self.lacking, len(self.waiting)) if self.started else self.lacking

    @property
    def may_grow_later(self) -> bool:
        """False where later members must fit in with how earlier ones were divided among domains."""
        return not (self.described.slices or self.described.balanced)

    @property
    def short_role(self) -> str:
        """A role of which too few members have come, "" if there is none."""
        waiting = list(self.waiting.values())
        for role, count in self.missing_by_role.items():
            if waiting.count(role) < count:
                return role
        return ""

    @property
    def arrived(self) -> int:
        """How many members there are, without those that end."""
        return len(self.waiting) + len(self.nominated) + len(self.placed)

    @property
    def ready(self) -> bool:
        """True if enough members have arrived to try."""
        # While members are nominated the others wait, or the gang could start below its minimum.
        if self.gang is None or self.nominated or len(self.waiting) < max(1, self.missing):
            return False
        return not self.gang.role_minimums or not self.short_role
