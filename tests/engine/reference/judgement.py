"""What the reference says of the engine's decisions: each disagreement by its kind.

Kinds:

- ``starts-waits``: work waits though it may start;
- ``owed-waits``, ``own-waits``, ``others-wait``,
  ``both-wait``, ``swap-waits``: work waits though a just set of victims would do; with
  ``for a whole gang`` no set without a whole gang would do;
- ``started-beyond``: work starts without the quota or the room for it;
- ``forbidden``: a victim that may not go for this work, whoever else goes;
- ``unjust``: victims that may not be taken from their queues;
- ``in-vain``: the work could not start without its victims either;
- ``gang-broken``: a gang keeps less than its minimum;
- ``own-before-owed`` and the like: work of one kind (``verdict.Kind``) ends though that of an earlier kind
  would do;
- ``queue_priority``, ``whole_gangs``, ``priority``, ``pods``, ``right``, ``sum_of_priorities``, ``lost``: a
  set of the same kind costs less, and that is the first in which it does (``verdict.Cost``);
- ``turn``: work is served before other work that may start; ``turn-of-leaving``: before other work that
  gets what leaves; ``turn-of-victims``: before other work for which others may go;
- ``same-step``, ``minimum-run-time``: evicted in the step in which it started, or before its time;
- ``started-in-vain``: evicted for work that waited when it started, though nothing happened since, unless
  that work had no way before this start or before a later one, or the queue of the start has the higher
  priority, or alone has a weight, or own work ends with it, or that work waited behind other work of its side
  that would borrow while the side lacks something of its own (docs/queues.md, "Taking back");
- ``circle``: evictions do not end.
"""

from collections.abc import Iterable

import msgspec

from tests.engine.reference.candidates import Unit, is_protected_by_time, may_go
from tests.engine.reference.charges import use_of
from tests.engine.reference.justice import injustice
from tests.engine.reference.picture import Job, Picture
from tests.engine.reference.quota import QuotaTree, Use
from tests.engine.reference.turns import in_turn, right_of
from tests.engine.reference.verdict import Cost, Kind, best, cost_of, sets, shortage, starts, ways

WAITS = {
    Kind.OWED: "owed-waits",
    Kind.OWN: "own-waits",
    Kind.OTHERS: "others-wait",
    Kind.BOTH: "both-wait",
    Kind.SWAP: "swap-waits",
}


class Start(msgspec.Struct, frozen=True):
    """Pods of a job begin to run, each on a node."""

    job: Job
    places: dict[str, str]


class Nomination(msgspec.Struct, frozen=True):
    """Pods of a job are promised places, for which victims are told to end."""

    job: Job
    places: dict[str, str]
    victims: tuple[str, ...]


class Disagreement(msgspec.Struct, frozen=True):
    """What the two do not agree in, at which happening of a story; whether the work is a gang."""

    kind: str
    moment: int
    why: str
    is_gang: bool = False


def whole_units(picture: Picture, victims: Iterable[str]) -> list[Unit]:
    """Victims as units: a gang of which all go is one."""
    by_job: dict[str, list[str]] = {}
    for uid in victims:
        by_job.setdefault(picture.job_by_pod[uid], []).append(uid)
    found: list[Unit] = []
    for name, pods in by_job.items():
        job = picture.jobs[name]
        if job.is_gang and set(pods) == set(picture.running(job)):
            found.append(Unit(job, tuple(pods), is_whole=True))
        else:
            found += [Unit(job, (uid,)) for uid in pods]
    return found


class Judge:
    """Judges one decision after the other. ``moment`` is the number of what happened last in the story."""

    def __init__(self, picture: Picture) -> None:
        self.tree = QuotaTree(picture.queues.values())
        self.found: list[Disagreement] = []
        self.moment = 0
        self._refused: set[str] = set()
        self._started_at: dict[str, tuple[int, int]] = {}
        self._decided_by: dict[str, Picture] = {}

    def note(self, kind: str, why: str, job: Job | None = None) -> None:
        """They do not agree."""
        self.found.append(Disagreement(kind, self.moment, why, is_gang=job is not None and job.is_gang))

    def begin_step(self) -> None:
        """Work that was refused before is asked anew."""
        self._refused.clear()

    def decided(self, picture: Picture, decision: Start | Nomination) -> None:
        """One decision of the engine, by the picture before it."""
        if not decision.places.keys() & picture.promised.keys():
            self._turn(picture, decision)
        self._decided_by |= {uid: picture for uid in decision.places if uid not in picture.promised}
        if isinstance(decision, Start):
            self._start(picture, decision)
        elif decision.victims:
            self._victims(picture, decision)

    def _turn(self, picture: Picture, decision: Start | Nomination) -> None:
        waiting = picture.waiting_jobs()
        growing = decision.job.name not in {job.name for job in waiting}
        for job in in_turn(picture, self.tree, waiting):
            if job.name == decision.job.name:
                return
            if job.name in self._refused:
                # Work that was refused before others were told to end is asked again for what they leave.
                if shortage(picture, self.tree, job, picture.leaving) is None and not growing:
                    why = f"{decision.job.name} is served before {job.name}, which gets what leaves"
                    self.note("turn-of-leaving", why, job)
                continue
            if growing and (job.queue != decision.job.queue or job.priority < decision.job.priority):
                continue
            self._refused.add(job.name)
            if starts(picture, self.tree, job):
                self.note("turn", f"{decision.job.name} is served before {job.name}, which may start", job)
            elif shortage(picture, self.tree, job, picture.leaving) is None:
                why = f"{decision.job.name} is served before {job.name}, which gets what leaves"
                self.note("turn-of-leaving", why, job)
            elif (way := next(sets(picture, self.tree, job), None)) is not None:
                named = names(way)
                why = f"{decision.job.name} is served before {job.name}, for which {named} may go"
                self.note("turn-of-victims", why, job)

    def _start(self, picture: Picture, decision: Start) -> None:
        job = decision.job
        new = [uid for uid in decision.places if uid not in picture.promised]
        for uid in decision.places:
            self._started_at[uid] = (self.moment, picture.now_us)
        if not new:
            return
        if picture.is_clean and picture.missing(job):
            lacks = shortage(picture, self.tree, job, frozenset())
            if lacks is not None:
                self.note("started-beyond", f"{job.name} starts, and lacks {lacks}", job)

    def _victims(self, picture: Picture, decision: Nomination) -> None:
        job, victims = decision.job, decision.victims
        units = whole_units(picture, victims)
        growth = {uid for unit in units if unit.job.is_gang and not unit.is_whole for uid in unit.pods}
        for uid in victims:
            self._too_soon(picture, job, uid, victims)
            if is_protected_by_time(picture, job, uid, as_growth=uid in growth):
                self.note("minimum-run-time", f"{uid} has not run for its time, and goes for {job.name}", job)
            elif uid not in picture.placed_now and not may_go(
                picture, job, uid, as_growth=uid in growth, is_swap=len(victims) == 1
            ):
                self.note("forbidden", f"{uid} may not go for {job.name}", job)
        for unit in units:
            left = len(picture.running(unit.job)) - sum(
                picture.job_by_pod[uid] == unit.job.name for uid in victims
            )
            if unit.job.is_gang and not unit.is_whole and left < unit.job.minimum:
                self.note("gang-broken", f"{unit.job.name} keeps {left} of {unit.job.minimum}", job)
                return
        why = injustice(picture, self.tree, job, units)
        if why is not None:
            self.note("unjust", f"{names(units)} for {job.name}: {why}", job)
            return
        if shortage(picture, self.tree, job, picture.leaving | set(victims)) is not None:
            if picture.is_clean:
                self.note("in-vain", f"{names(units)} for {job.name}", job)
            return
        if picture.is_clean:
            self._compare(picture, job, units)

    def _too_soon(self, picture: Picture, job: Job, uid: str, victims: Iterable[str]) -> None:
        if uid in picture.placed_now:
            self.note("same-step", f"{uid} started in this step, and goes for {job.name}", job)
        moment, at_us = self._started_at.get(uid, (-1, -1))
        if moment != self.moment or job.created_us > at_us or uid in picture.placed_now:
            return
        before = self._decided_by[uid]
        # A gang that ran then and was evicted since keeps its age.
        waited = any(one.name == job.name for one in before.waiting_jobs())
        with_own = any(picture.job_of(one).queue == job.queue for one in victims)
        if not waited or with_own or self._gives_a_way(before, job, picture.job_of(uid)):
            return
        if not self._later_start_gives_a_way(before, job):
            self.note("started-in-vain", f"{uid} started while {job.name} waited, and goes for it", job)

    def _later_start_gives_a_way(self, before: Picture, job: Job) -> bool:
        """True if work that waited had no way after a start either, but after one that came later."""
        for uid, seen in self._decided_by.items():
            if self._started_at.get(uid, (-1, -1))[0] != self.moment or seen is before:
                continue
            # What was placed in that step may go in the next one.
            later = msgspec.structs.replace(seen, placed_now=frozenset())
            if seen.now_us >= before.now_us and self._has_no_way(later, job):
                return True
        return False

    def _has_no_way(self, picture: Picture, job: Job) -> bool:
        """True if a job neither fits nor may have others evicted."""
        if shortage(picture, self.tree, job, picture.leaving) is None:
            return False
        return next(sets(picture, self.tree, job), None) is None

    def _gives_a_way(self, before: Picture, job: Job, started: Job) -> bool:
        """True if work that waited had no way before a start, or its queue borrows after the other, or it
        waited behind work that would borrow.
        """
        if self._has_no_way(before, job):
            return True
        sides = self.tree.sides(job.queue, started.queue) or (job.queue, started.queue)
        queues = (self.tree.queues[one] for one in sides)
        mine, theirs = ((one.weight_milli > 0, one.priority) for one in queues)
        return theirs > mine or self._waits_behind_a_borrower(before, sides[0], job)

    def _waits_behind_a_borrower(self, picture: Picture, side: str, job: Job) -> bool:
        """True if the next work on a side is other than this, and would borrow."""
        waiting = picture.waiting_jobs()
        in_order = in_turn(picture, self.tree, waiting)
        on_side = (one for one in in_order if side in self.tree.paths[one.queue])
        first = next(on_side, job)
        use = use_of(picture, picture.leaving)
        is_beyond = right_of(picture, self.tree, use, side, first).is_beyond_nominal
        return first.name != job.name and is_beyond and self._lacks_its_own(use, side)

    def _lacks_its_own(self, use: Use, side: str) -> bool:
        """True if a side has less than its nominal amounts."""
        return self.tree.counted(side, use) < self.tree.subtree[side]

    def _compare(self, picture: Picture, job: Job, units: list[Unit]) -> None:
        found = ways(picture, self.tree, job)
        mine = cost_of(picture, self.tree, job, units)
        for cost, one in found:
            if cost.kind < mine.kind:
                why = f"{names(units)} for {job.name}, where {names(one)} would do"
                self.note(f"{mine.kind.name.lower()}-before-{cost.kind.name.lower()}", why, job)
                return
        alike = [(cost, one) for cost, one in found if cost.kind is mine.kind]
        if alike and alike[0][0] < mine:
            cost, one = alike[0]
            field = next(field for field in Cost._fields if getattr(cost, field) != getattr(mine, field))
            self.note(field, f"{names(units)} for {job.name}, where {names(one)} would do", job)

    def rest(self, picture: Picture) -> None:
        """Nothing happens any more: all work that waits must be refused."""
        for job in in_turn(picture, self.tree, picture.waiting_jobs()):
            if starts(picture, self.tree, job):
                self.note("starts-waits", f"{job.name} waits, and may start", job)
                continue
            found = best(picture, self.tree, job)
            if found is not None:
                cost, units = found
                kind = WAITS[cost.kind] + (" for a whole gang" if cost.whole_gangs else "")
                self.note(kind, f"{job.name} waits, and {names(units)} may go for it", job)


def names(units: Iterable[Unit]) -> str:
    """The pods of a set."""
    return " ".join(sorted(uid for unit in units for uid in unit.pods))
