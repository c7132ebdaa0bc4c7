"""Gangs: starting a minimum of the members together or none (``gang_members`` says how many that is).

A gang is tried on the journal: members are placed shape by shape, the largest first, those of roles
that are short before all others, and unless enough of them fit everything is taken back. Where they may
go, and how they are divided among domains, is planned in ``gang_places``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.instruction import Verdict
from gpufleet.engine.place.choose.placement import NO_NODES
from gpufleet.engine.place.choose.trial import Trial
from gpufleet.engine.place.gangs.gang_places import DomainPlan, GangPlaces
from gpufleet.engine.place.refusal.judging import Judging
from gpufleet.engine.queueing.gate import Gate
from gpufleet.engine.queueing.line import SeenLabels
from gpufleet.engine.state.gang_members import Members
from gpufleet.engine.state.model_order import ALL_AT_ONCE, Models, groups_of
from gpufleet.model.identifiers import GangName


@dataclass(slots=True)
class Attempt:
    """What came of trying a gang: the rows placed, or why not.

    ``placeable`` counts the members, running ones included, that could be placed at once; ``role``
    names the role that is short of room, "" where there is none.
    """

    placed: list[int]
    placeable: int
    verdict: Verdict | None = None
    role: str = ""


class Refusal(NamedTuple):
    """A member for which no place is left, on these models if any are given."""

    row: int
    models: Models
    verdict: Verdict


@dataclass(slots=True)
class OpenPart:
    """A part of a plan, and how many members it may still take."""

    nodes: Int64Array
    left: int


class Gangs:
    """Every gang, and the trial of one."""

    def __init__(
        self,
        places: GangPlaces,
        gate: Gate,
    ) -> None:
        self.places = places
        self.pods = places.pods
        self.neighbours = places.neighbours
        self.judging = Judging(places.store, places.shapes, places.neighbours, gate)
        self.by_name: dict[GangName, Members] = {}
        self.witness: Callable[[Refusal], None] | None = None
        """Is told of each refusal while the members that fit have their places."""

    def members(self, name: GangName) -> Members:
        """The members of a gang, known or not."""
        return self.by_name.setdefault(name, Members())

    def described(self, name: str) -> Members | None:
        """The members of the described gang of that name; None if there is none."""
        members = self.by_name.get(GangName(name))
        return None if members is None or members.gang is None else members

    def drop_if_empty(self, name: GangName) -> None:
        """Forget a gang that is neither described nor has pods."""
        members = self.by_name.get(name)
        if members and members.gang is None and not (members.arrived or members.ending):
            del self.by_name[name]

    def attempt(
        self, members: Members, trial: Trial, *, asked: bool = False, surplus: bool = True
    ) -> Attempt:
        """Place as many waiting members as fit, if with them the gang has its minimum.

        Without ``surplus`` only missing members are placed. ``asked`` wants to know why not, also of
        a gang that was told before.
        """
        by_shape = self.places.by_shape(list(members.waiting))
        with trial:
            # Members that run already count towards the minimum, so the worst attempt is not 0.
            best = Attempt([], len(members.placed))
            for models in self.places.models_to_try(members):
                trial.only_models = models
                # At least 1: a gang that has its minimum asks for one member more.
                for plan in self.places.to_try(members, by_shape, max(1, members.missing), models):
                    attempt = self._place_all(members, plan, trial, surplus=surplus)
                    if attempt.placed:
                        trial.keep()
                        return attempt
                    # Taken back at once, so that the next domain is tried on the fleet as it is.
                    best = fuller(best, attempt)
                    trial.undo()
            # A reason costs as much as a placement; a gang that was told it waits does not need it each time.
            if asked or not members.reported:
                best = self._with_reason(best, members, by_shape, trial)
        # No domain had room by count, so nothing was tried that could say why: the first member is asked by
        # itself.
        if best.verdict is None:
            best.verdict = self._verdict(next(iter(by_shape.values()))[0], ())
        return best

    def _with_reason(
        self, best: Attempt, members: Members, by_shape: dict[int, list[int]], trial: Trial
    ) -> Attempt:
        """The attempt with a reason to tell, and of a gang that wants one model with what came of each."""
        models_to_try = self.places.models_to_try(members)
        if best.verdict is not None and models_to_try == ALL_AT_ONCE:
            return best
        by_models = {
            models: self._as_many_as_fit(members, by_shape, trial, models) for models in models_to_try
        }
        if best.verdict is None:
            for attempt in by_models.values():
                best = fuller(best, attempt)
        if models_to_try == ALL_AT_ONCE:
            return best
        # One member speaks for all: the models that are tried are the gang's, whichever member is asked.
        row = next(iter(by_shape.values()))[0]
        tried = [
            msgspec.structs.replace(one, placeable=by_models[one.models].placeable)
            for one in self.judging.tried(row, models_to_try)
        ]
        verdict = best.verdict or self._verdict(row, ())
        best.verdict = msgspec.structs.replace(verdict, models_tried=tuple(tried))
        return best

    def place(self, members: Members, trial: Trial, *, surplus: bool) -> list[int]:
        """Place a gang inside a trial that goes on; the rows placed, none if everything was taken back.

        Without ``surplus`` only missing members are placed. No verdict is made if they do not fit.
        """
        by_shape = self.places.by_shape(list(members.waiting))
        for models in self.places.models_to_try(members):
            trial.only_models = models
            for plan in self.places.to_try(members, by_shape, max(1, members.missing), models):
                attempt = self._place_all(members, plan, trial, surplus=surplus, judged=False)
                if attempt.placed:
                    return attempt.placed
                trial.undo()
        return []

    def _as_many_as_fit(
        self, members: Members, by_shape: dict[int, list[int]], trial: Trial, models: Models
    ) -> Attempt:
        """Why a gang cannot start for which no place has room by count: how many would fit, and why not
        one more. Only done to tell its owner, because it places in vain.
        """
        best = Attempt([], len(members.placed))
        trial.only_models = models
        for plan in self.places.to_try(members, by_shape, 1, models):
            best = fuller(best, self._place_all(members, plan, trial))
            trial.undo()
        # What fitted was taken back above; only how many it was is told.
        best.placed = []
        return best

    def _place_all(
        self, members: Members, plan: DomainPlan, trial: Trial, *, surplus: bool = True, judged: bool = True
    ) -> Attempt:
        """Place what must be placed of each role, then as many of the rest as fit."""
        placed: dict[int, None] = {}
        parts = [OpenPart(nodes, most) for nodes, most in plan]
        role_short, verdict = "", None
        # Minimums of roles first: members of another role may not take the room that a role needs.
        for role, count in members.missing_by_role.items():
            rows = [row for row, of_role in members.waiting.items() if of_role == role]
            done, refused = self._place_rows(rows, count, parts, trial, judged=judged)
            placed.update(dict.fromkeys(done))
            if len(done) < count:
                # One role without its minimum is enough for a no, and the owner is told of this one.
                role_short, verdict = role, refused
                break
        if not role_short:
            rest = [row for row in members.waiting if row not in placed]
            # ``missing`` is of the whole gang, and those of roles are among ``placed`` already.
            most = len(rest) if surplus else members.missing - len(placed)
            done, verdict = self._place_rows(rest, most, parts, trial, judged=judged)
            placed.update(dict.fromkeys(done))
        placeable = len(members.placed) + len(placed)
        if role_short or not placed or len(placed) < members.missing:
            return Attempt([], placeable, verdict, role_short)
        # Only the whole choice shows whether each slice is full, so it is judged last.
        if not self.places.keeps_slices(members, placed):
            return Attempt([], len(members.placed), verdict)
        return Attempt(list(placed), placeable, verdict)

    def _place_rows(
        self, rows: list[int], most: int, parts: list[OpenPart], trial: Trial, *, judged: bool
    ) -> tuple[list[int], Verdict | None]:
        """Place up to ``most`` of these members; those that were, and why the first other one was not.

        Members may wait for each other's labels, so those that did not fit are tried again as long as
        that places more.
        """
        placed: list[int] = []
        verdict: Verdict | None = None
        by_shape = self.places.by_shape(rows)
        roomy = self.places.room_for_sharers(by_shape, trial.only_models)
        while True:
            before, verdict, refused = len(placed), None, False
            for shape, waiting in by_shape.items():
                some = waiting[: most - len(placed)]
                fitting = self._place_alike(shape, some, parts, trial, roomy.get(shape, NO_NODES))
                placed.extend(fitting)
                left = [row for row in waiting if row not in fitting]
                # Only the first refusal is told: those behind it may fail only because of it.
                if left and len(placed) < most and not refused:
                    refused = True
                    verdict = self._verdict(left[0], trial.only_models) if judged else None
                by_shape[shape] = left
            # Without rules about neighbours a second pass cannot place more: nothing became free.
            if not refused or len(placed) == before or not self.neighbours.is_active:
                return placed, verdict

    def _place_alike(
        self, shape: int, rows: list[int], parts: list[OpenPart], trial: Trial, roomy: Int64Array
    ) -> dict[int, None]:
        """Place members of one shape, part by part, the first on a node of ``roomy`` if it fits there; those
        that were.
        """
        placed: dict[int, None] = {}
        for part in parts:
            waiting = [row for row in rows if row not in placed][: part.left]
            if waiting:
                fitting = self._place_on(shape, waiting, part.nodes, trial, roomy)
                part.left -= len(fitting)
                placed.update(fitting)
        return placed

    def _place_on(
        self, shape: int, rows: list[int], nodes: Int64Array, trial: Trial, roomy: Int64Array
    ) -> dict[int, None]:
        """Place members of one shape on these nodes; those that were."""
        if not (self.neighbours.is_watchful and any(map(self.neighbours.concerns, rows))):
            # Members that no rule about neighbours concerns are alike, so one kernel call places them all.
            return dict.fromkeys(rows[: trial.place(shape, rows, nodes)])
        placed: dict[int, None] = {}
        refused: dict[SeenLabels, None] = {}
        first = np.intersect1d(nodes, roomy) if len(nodes) else roomy
        if len(first) and trial.place_related(rows[0], first):
            placed[rows[0]] = None
        for row in rows[len(placed) :]:
            seen_labels = self.neighbours.seen_labels(row)
            # Members of one shape differ by their labels alone: one refusal is that of all that look alike.
            if seen_labels not in refused:
                if trial.place_related(row, nodes):
                    placed[row] = None
                else:
                    refused[seen_labels] = None
        return placed

    def _verdict(self, row: int, models: Models) -> Verdict:
        accepted = self._accepted(row, models)
        found = self.judging.verdict(row, accepted)
        if self.witness is not None:
            self.witness(Refusal(row, accepted, found))
        return found

    def _accepted(self, row: int, models: Models) -> Models:
        """The models among these that a member accepts, none where that does not matter for it."""
        groups = groups_of(self.pods.pod_at(row).shape.gpu, models) if models else ()
        return groups[0] if groups else ()


def fuller(one: Attempt, other: Attempt) -> Attempt:
    """The attempt that could place more, the first of equals; one without a verdict tells nothing."""
    return other if other.placeable > one.placeable or one.verdict is None else one
