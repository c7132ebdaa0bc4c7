"""Why work waits, as one value: what conditions, answers and tables tell of it.

Comes on demand: a decision tells a verdict only, from which the cause follows (``causes``). Here the engine
collects all that it knows beside it: every node's reasons, the nodes that come nearest and what each lacks,
which pods hold that, and the ways out.
"""

from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.explanations.causes import (
    ABOUT_TO_RUN,
    BACKOFF,
    BEHIND_OTHERS,
    GANG_UNKNOWN,
    NOMINATED,
    cause_of,
    cause_of_gang,
)
from gpufleet.engine.explanations.explanation import Explanation, Holder, NearNode, ReasonCount, Reasoned
from gpufleet.engine.explanations.verdicts import Verdicts, gang_refusal
from gpufleet.engine.instruction import GangUnschedulable, Verdict
from gpufleet.engine.lifecycle.engine_state import EngineState
from gpufleet.engine.node_reasons.case import Case, Finding, ReasonsByNode
from gpufleet.engine.node_reasons.free_room import FreeRoom, PlacedPod
from gpufleet.engine.node_reasons.object_details import ObjectDetails
from gpufleet.engine.node_reasons.table import TABLE
from gpufleet.engine.place.gangs.gangs import Refusal
from gpufleet.engine.place.workloads.workload import WorkloadName
from gpufleet.engine.state.gang_members import Members
from gpufleet.model.gpu_unit import GpuUnit, gpu_unit
from gpufleet.model.identifiers import GangName, NodeName, PodUid
from gpufleet.model.shape import Shape

NEAREST_MAX = 3
"""So many of the nodes that come nearest are told of one by one."""

HOST = ("cpu_milli", "memory_bytes", "ephemeral_storage_bytes")


class _Refused(msgspec.Struct):
    """A pod that is refused. ``by_node`` works out every node's reasons, as of the refusal.

    ``members`` are those of its gang that had a place by then.
    """

    row: int
    cause: str
    verdict: Verdict | None
    by_node: Callable[[], ReasonsByNode]
    gang: GangUnschedulable | None = None
    members: tuple[PlacedPod, ...] = ()


class _Seen(msgspec.Struct, frozen=True):
    """A refusal in an attempt to place a gang, with every node's reasons and the members placed by then."""

    refusal: Refusal | None
    by_node: ReasonsByNode
    members: tuple[PlacedPod, ...]


WORDS = {one.name: one.words for one in TABLE.reasons}


class Why:
    """Explains work that waits."""

    def __init__(self, state: EngineState, verdicts: Verdicts) -> None:
        self.state = state
        self.verdicts = verdicts

    def cause(self, uid: PodUid, at_us: int) -> str:
        """The cause alone, which is all that a table needs; "" for a pod that does not wait."""
        found = self._at_once(uid) or self._refused(uid, at_us)
        return "" if found is None else found.cause

    def explanation(self, uid: PodUid, at_us: int, details: ObjectDetails | None) -> Explanation | None:
        """Why a pod waits; None if it is unknown or has its place."""
        at_once = self._at_once(uid)
        if at_once is not None:
            return at_once
        found = self._refused(uid, at_us)
        if found is None:
            return None
        pod = self.state.pods.pod_at(found.row)
        whole = Explanation(found.cause, pod.uid, found.verdict, gang=found.gang)
        if found.verdict is None:
            return whole
        case = self._case(found, details)
        return msgspec.structs.replace(
            whole,
            counts=_counts(case),
            nearest=tuple(_near_node(case, room) for room in case.near_rooms[:NEAREST_MAX]),
            findings=tuple(_reasoned(case, name) for name in case.lacking),
            ahead=self._ahead(found.row),
        )

    def gang(self, name: GangName, at_us: int) -> GangUnschedulable | None:
        """Why a gang cannot start now; None if none of its pods waits, or nothing stands in its way."""
        found = self._of_gang(name, at_us)
        return None if found is None else found.gang

    def _at_once(self, uid: PodUid) -> Explanation | None:
        """Of a pod that has a node in prospect, or none to look for."""
        state = self.state
        row = state.pods.row_by_uid.get(uid)
        if row is None:
            return None
        node_row, stands = state.pods.node_row(row), state.pods.state(row)
        node = None if node_row is None else state.fleet.node_at(node_row).name
        if stands is PodState.ASSUMED:
            return Explanation(ABOUT_TO_RUN, uid, node=node)
        nomination = state.departures.by_row.get(row)
        if stands is PodState.NOMINATED and nomination is not None and not nomination.reserved:
            return Explanation(NOMINATED, uid, node=node, waits_for=tuple(nomination.waits_for))
        if stands is PodState.WAITING and state.workloads.lacks_gang(row):
            return Explanation(GANG_UNKNOWN, uid)
        return None

    def _refused(self, uid: PodUid, at_us: int) -> _Refused | None:
        state = self.state
        row = state.pods.row_by_uid.get(uid)
        if row is None:
            return None
        stands = state.pods.state(row)
        # A pod with a place that is only reserved is booked as nominated, too, and waits all the same.
        if stands not in {PodState.WAITING, PodState.BACKOFF, PodState.NOMINATED}:
            return None
        found = self._of_gang(state.pods.pod_at(row).workload, at_us) or self._of_pod(row, at_us)
        if found.cause == BEHIND_OTHERS and stands is PodState.BACKOFF:
            found.cause = BACKOFF
        return found

    def _of_pod(self, row: int, at_us: int) -> _Refused:
        verdict = self.verdicts.of(row, at_us)
        return _Refused(row, cause_of(verdict), verdict, lambda: self.verdicts.reasons_by_node(row))

    def _of_gang(self, name: WorkloadName, at_us: int) -> _Refused | None:
        """Why a gang cannot start now, None of a single pod; it costs what an attempt to place it costs."""
        state = self.state
        members = state.gangs.described(name)
        if members is None:
            return None
        kept = next(iter(members.nominated), None)
        # The members with reserved places are no longer among those that wait.
        if kept is not None and self.verdicts.reservations.of_row(kept) is not None:
            return self._by_member(members, kept, at_us)
        if not members.waiting:
            return None
        first = next(iter(members.waiting))
        if members.nominated:
            # The minimum has its places in prospect: what waits is growth, for a reason of its own.
            found = self._of_pod(first, at_us)
            fitting = len(members.placed) + len(members.nominated)
            found.gang = gang_refusal(members, fitting, found.verdict, "")
            return found
        if not members.ready:
            said = gang_refusal(members, len(members.placed), None, members.short_role)
            return _Refused(first, cause_of_gang(said), None, dict, said)
        if state.gate.is_active and state.gate.bar(first) is not None:
            return self._by_member(members, first, at_us)
        return self._attempted(members, first, at_us)

    def _by_member(self, members: Members, row: int, at_us: int) -> _Refused:
        """By one member, whatever the others lack."""
        found = self._of_pod(row, at_us)
        found.gang = gang_refusal(members, len(members.placed), found.verdict, "")
        return found

    def _attempted(self, members: Members, first: int, at_us: int) -> _Refused | None:
        """What an attempt says of the next member when as many others as fit have their places."""
        gangs, seen = self.state.gangs, list[_Seen]()

        def note(one: Refusal) -> None:
            by_node = gangs.judging.reasons_by_node(one.row, one.models)
            seen.append(_Seen(one, by_node, self._placed_members(members)))

        trial = self.state.trial()
        # Reasons of nodes are of the moment of a refusal, in the middle of an attempt: they are noted there.
        gangs.witness = note
        try:
            attempt = gangs.attempt(members, trial, asked=True)
        finally:
            # Decisions make attempts as well, and those are not to be noted.
            gangs.witness = None
        # An attempt that was only asked for leaves nothing behind, also where it succeeded.
        trial.undo()
        if attempt.placed:
            return None
        # What was tried with other models is told beside a verdict and does not tell two refusals apart.
        bare = None if attempt.verdict is None else msgspec.structs.replace(attempt.verdict, models_tried=())
        found = _Seen(None, {}, ())
        for one in seen:
            if one.refusal and msgspec.structs.replace(one.refusal.verdict, models_tried=()) == bare:
                found = one
                break
        row = first if found.refusal is None else found.refusal.row
        why = self.verdicts.reservation_report.complete_gang(attempt.verdict, members, at_us)
        said = gang_refusal(members, attempt.placeable, why, attempt.role)
        return _Refused(row, cause_of_gang(said), why, lambda: found.by_node, said, found.members)

    def _case(self, found: _Refused, details: ObjectDetails | None) -> Case:
        state, pod = self.state, self.state.pods.pod_at(found.row)
        nodes = sorted((node for node in state.fleet.nodes if node is not None), key=lambda one: one.name)
        lacking = (
            () if found.verdict is None or found.verdict.lacking is None else found.verdict.lacking.reasons
        )
        namespaces = state.neighbours.equivalence_classes.namespaces
        placed = [*self._placed(found.row), *found.members]
        return Case(pod, found.by_node(), lacking, nodes, placed, namespaces, details, WORDS)

    def _placed(self, row: int) -> list[PlacedPod]:
        """All pods that have a node, without those of a reservation of the pod itself."""
        state = self.state
        own = self.verdicts.reservations.of_row(row)
        left_out = frozenset(() if own is None else own.nomination.rows)
        return [
            self._placed_pod(one, node, runs=state.pods.state(one) is not PodState.NOMINATED)
            for node, rows in state.pods.on_node.items()
            for one in rows
            if one not in left_out
        ]

    def _placed_members(self, members: Members) -> tuple[PlacedPod, ...]:
        """The members that wait and have a place in a trial."""
        nodes = ((one, self.state.pods.node_row(one)) for one in members.waiting)
        return tuple(self._placed_pod(one, node, runs=False) for one, node in nodes if node is not None)

    def _placed_pod(self, row: int, node: int, *, runs: bool) -> PlacedPod:
        state = self.state
        name, ids = state.fleet.node_at(node).name, state.pods.device_ids(row)
        return PlacedPod(state.pods.pod_at(row), name, ids, runs)

    def _ahead(self, row: int) -> tuple[PodUid, ...]:
        """The pods on their way to a node without which this one, or its gang, would have a place."""
        state, pod = self.state, self.state.pods.pod_at(row)
        states = state.store.tables.pods[layout.POD_STATE, : len(state.pods.pods)]
        assumed = [
            one
            for one in np.flatnonzero(states == PodState.ASSUMED).tolist()
            if state.pods.pod_at(one).workload != pod.workload
        ]
        if not assumed or state.pods.state(row) is not PodState.WAITING:
            return ()
        with state.trial() as without:
            # If the pod would fit without those on their way to a node, these are what it is behind.
            without.release_all(assumed)
            fits = self._fits_now(row)
        return tuple(state.pods.pod_at(one).uid for one in assumed) if fits else ()

    def _fits_now(self, row: int) -> bool:
        state, workload = self.state, self.state.workloads.of(row)
        if not workload.is_ready:
            return False
        if workload.is_single and state.gate.is_active and state.gate.keeps_out(row):
            return False
        with state.trial() as trial:
            return bool(workload.place(trial))


def _counts(case: Case) -> tuple[ReasonCount, ...]:
    """All reasons with their nodes, those of the nodes that come nearest before the others."""
    firsts = Counter(reasons[0] for reasons in case.by_node.values() if reasons)
    nodes: dict[str, list[NodeName]] = {}
    for name, reasons in sorted(case.by_node.items()):
        for reason in reasons:
            nodes.setdefault(reason, []).append(name)

    by_name = {node.name: node for node in case.nodes}

    def unit_of(reason: str) -> GpuUnit:
        counts_gpus = TABLE.by_name[reason].counts_gpus
        return gpu_unit(by_name[name] for name in nodes[reason]) if counts_gpus else GpuUnit.GPU

    def rank(reason: str) -> tuple[bool, int, int]:
        place = case.lacking.index(reason) if reason in case.lacking else 0
        return (reason not in case.lacking, place, -firsts[reason])

    return tuple(
        ReasonCount(
            name,
            TABLE.by_name[name].words_of(unit_of(name)),
            firsts[name],
            len(nodes[name]),
            tuple(nodes[name]),
            "" if (detail := TABLE.by_name[name].detail) is None else detail(case),
        )
        for name in sorted(nodes, key=rank)
    )


def _near_node(case: Case, room: FreeRoom) -> NearNode:
    holders = tuple(Holder(one.pod.uid, one.name, one.gpus) for one in room.gpu_holders())
    return NearNode(room.node.name, case.lacking, lacks(case.shape, room), holders)


def lacks(shape: Shape, room: FreeRoom) -> dict[str, int]:
    """What a node lacks of each resource, by the names of ``Nearest.short``."""
    asked = {name: int(getattr(shape.resources, name)) for name in HOST} | dict(shape.resources.other)
    # On a node that is over-committed no more is short than all that is asked for.
    short = {name: amount - max(0, room.amount(name)) for name, amount in asked.items()}
    if shape.gpu.whole:
        short["gpus"] = shape.gpu.count - room.free_gpus
    return {name: amount for name, amount in short.items() if amount > 0}


def _reasoned(case: Case, name: str) -> Reasoned:
    found: Finding = TABLE.by_name[name].finding(case)
    return Reasoned(name, found.why, found.way_out)
