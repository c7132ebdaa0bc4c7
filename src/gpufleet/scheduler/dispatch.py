"""Carrying the engine's instructions out: each kind goes to the part that knows how.

Binds go to ``binder``, evictions and places that are kept to ``eviction_planner``, words to people to
``reporting``, and what a new leader has to know to ``condition_writer``. Nothing here waits; what comes of a
bind comes back through ``cluster.engine_events`` as an event.
"""

import functools
import logging
from collections.abc import Callable

from gpufleet.cluster.engine_events import EngineEvents
from gpufleet.cluster.pods.effective_terms import ignored_note, terms_of
from gpufleet.cluster.pods.pod_entry import Entry, Intent
from gpufleet.cluster.verdict_words import GANG_MALFORMED, words_for_gang, words_for_pod
from gpufleet.cluster.waiting_reasons import waiting_reason
from gpufleet.engine.explanations.causes import GANG_UNKNOWN, cause_of, cause_of_gang, never_fits
from gpufleet.engine.instruction import (
    AnyInstruction,
    Bind,
    BindPaused,
    Evict,
    GangUnknown,
    GangUnschedulable,
    MovedFrom,
    NodeDistrusted,
    NodeTrusted,
    Nominated,
    NominationWithdrawn,
    Rejected,
    ReplacementsKept,
    ReservationEnded,
    Reserved,
    Unschedulable,
    ViolationReport,
    VolumeNodesLeftOut,
)
from gpufleet.kube import keys
from gpufleet.kube.codec.lasting_conditions import BindPause, Distrust, RefusedVolume
from gpufleet.kube.codec.moved import Moved, write_moved
from gpufleet.model.gang import gang_title
from gpufleet.model.identifiers import GangName, NodeName
from gpufleet.model.model_errors import InternalError
from gpufleet.model.pod_name import PodName
from gpufleet.scheduler.binder import Binder, BindTask
from gpufleet.scheduler.claim_tasks import claim_tasks, claims_to_release
from gpufleet.scheduler.condition_writer import ConditionWriter
from gpufleet.scheduler.eviction_planner import EvictionPlanner
from gpufleet.scheduler.gang_protection import protection_of
from gpufleet.scheduler.grant_annotations import Delivery
from gpufleet.scheduler.reporting import Reporter
from gpufleet.scheduler.shown_reasons import Shown
from gpufleet.scheduler.violation_words import event_of
from gpufleet.scheduler.volume_binder import VolumeTask

LOG = logging.getLogger(__name__)


class Dispatch:
    """Hands instructions on."""

    def __init__(
        self,
        engine_events: EngineEvents,
        delivery: Delivery,
        binder: Binder,
        reporter: Reporter,
        conditions: ConditionWriter,
        eviction_planner: EvictionPlanner,
        epoch: int,
        shown: Shown,
        consumed: Callable[[Entry], dict[str, str]],
    ) -> None:
        self.engine_events = engine_events
        self.delivery = delivery
        self.binder = binder
        self.reporter = reporter
        self.conditions = conditions
        self.eviction_planner = eviction_planner
        self.epoch = epoch
        self.shown = shown
        self.consumed = consumed
        self.after_binds: Callable[[], None] = lambda: None
        """Called after a round in which work started."""
        self._has_bound = False

    def carry_out(self, instruction: AnyInstruction) -> None:
        """Hand one instruction to the part that knows how."""
        match instruction:
            case Bind():
                self._bind(instruction)
            case Unschedulable(uid, verdict):
                entry = self.engine_events.pods.waiting(uid)
                if entry is not None and entry.meaning is not None:
                    message = words_for_pod(verdict, entry.meaning.shape)
                    cause, never = cause_of(verdict), never_fits(verdict)
                    reason, note = self.shown(waiting_reason(cause, never_fits=never), entry)
                    self.reporter.waits(entry.name, reason, message + note, cause, never_fits=never)
                    self._release_claims(entry)
            case GangUnschedulable():
                cause, of_member = cause_of_gang(instruction), instruction.verdict
                never = of_member is not None and never_fits(of_member)
                words = functools.partial(_gang_words, instruction)
                self._tell_gang(instruction.gang, cause, words, never=never)
            case GangUnknown(gang):
                unknown = f"{gang_title(gang)} is not described: nothing says how many members it needs"
                problem = self.engine_events.gangs.problem(gang)
                cause = GANG_MALFORMED if problem else GANG_UNKNOWN
                self._tell_gang(gang, cause, lambda _: problem or unknown)
            case Rejected(subject, problem):
                LOG.warning("the engine refused an event", extra={"subject": subject, "problem": problem})
            case Evict():
                self.eviction_planner.evict(instruction)
            case Nominated():
                self.eviction_planner.nominate(instruction)
            case NominationWithdrawn(uid):
                self.eviction_planner.withdraw(uid)
            case ViolationReport(uid, violation, consequence):
                found = self.engine_events.pods.entries.get(uid)
                if found is not None:
                    self.reporter.warns(found.name, *event_of(violation, consequence))
            case NodeDistrusted(node, until_us, next_pause_us):
                LOG.warning("a node rejects pods and is left alone", extra={"node": str(node)})
                self.conditions.node(node, Distrust(until_us, next_pause_us))
            case NodeTrusted(node, next_pause_us):
                LOG.info("a node that rejected pods is trusted again", extra={"node": str(node)})
                self.conditions.node(node, Distrust(0, next_pause_us))
            case VolumeNodesLeftOut(uid, refused):
                found = self.engine_events.pods.entries.get(uid)
                if found is not None:
                    self.conditions.pod(found.name, tuple(RefusedVolume(*one) for one in refused))
            case BindPaused(uid, until_us, refusals):
                found = self.engine_events.pods.entries.get(uid)
                if found is not None:
                    self.conditions.bind(found.name, BindPause(refusals, until_us))
            case ReplacementsKept():
                self.eviction_planner.moved_places.kept(instruction)
            case Reserved() | ReservationEnded():
                # The status of the queue tells of it, and the conditions of the pods that it concerns.
                pass
            case _:
                raise InternalError(f"an instruction that no part carries out: {type(instruction).__name__}")

    def after_step(self) -> None:
        """Everything that one step of the engine said was handed on."""
        self.eviction_planner.after_step()

    def after_round(self) -> None:
        """Look after what depends on the state as a whole, and tell the pods that the engine never saw."""
        for entry in self.engine_events.pods.take_newly_held():
            if entry.held is not None:
                self.reporter.waits(entry.name, entry.held.reason, entry.held.message, entry.held.reason)
        for entry in self.engine_events.pods.take_newly_ignored():
            self.reporter.warns(entry.name, "EditIgnored", ignored_note(entry.ignored))
        self.eviction_planner.after_round()
        if self._has_bound:
            self._has_bound = False
            self.after_binds()

    def next_due_s(self) -> float | None:
        """When a round is wanted even if nothing happens."""
        return self.eviction_planner.next_due_s()

    def _bind(self, bind: Bind) -> None:
        entry = self.engine_events.pods.waiting(bind.uid)
        if entry is None or entry.meaning is None:
            # The engine decides on what it was told, so such a pod is a fault of ours: to go on could bind it
            # twice.
            raise InternalError(f"the engine bound pod {bind.uid}, which does not wait")
        devices = self.engine_events.nodes.devices(bind.node, bind.devices)
        gang = self.engine_events.gangs.bound_with(bind.uid, entry)
        terms = terms_of(entry.object, entry.meaning, gang, bind, self.eviction_planner.time.now_us())
        request = entry.meaning.shape.gpu
        annotations = self.delivery.annotations(entry.object, request, devices, self.epoch, terms)
        if gang is not None:
            annotations |= protection_of(entry.object) | self.consumed(entry)
        if bind.instead_of is not None:
            annotations[keys.MOVED] = write_moved(_moved(bind.instead_of))
        # Noted before the Binding is sent: what the watch tells meanwhile is compared with it.
        entry.intent = Intent(bind.node, bind.devices, annotations, terms)
        volumes = tuple(VolumeTask(claim, volume) for claim, volume in bind.volumes)
        asked = entry.meaning.shape.relations.device_claims
        claims = claim_tasks(asked, bind.claims, self.engine_events.claims, self.binder.claims.share_id)
        # What is not written yet about its waiting would come after the Binding.
        self.reporter.withdraw(bind.uid)
        self._has_bound = True
        self.binder.submit(BindTask(entry.name, bind.node, bind.devices, annotations, volumes, claims))

    def _release_claims(self, entry: Entry) -> None:
        """A pod cannot start: devices that tie it to some nodes are given back where it alone has them."""
        asked = () if entry.meaning is None else entry.meaning.shape.relations.device_claims
        if asked and entry.intent is None:
            tasks = claims_to_release(
                asked, entry.name.uid, self.engine_events.claims, self.binder.claims.share_id
            )
            self.binder.claims.release(entry.name, tasks)

    def _tell_gang(
        self, gang: GangName, cause: str, words: Callable[[Entry], str], *, never: bool = False
    ) -> None:
        reason = waiting_reason(cause, never_fits=never)
        for entry in self.engine_events.waiting_members(gang):
            shown, note = self.shown(reason, entry)
            self.reporter.waits(entry.name, shown, words(entry) + note, cause, never_fits=never)
            self._release_claims(entry)


def scheduled_note(pod: PodName, node: NodeName) -> str:
    """What the Event of a bind says."""
    return f"Successfully assigned {pod} to {node}"


def _moved(origin: MovedFrom) -> Moved:
    return Moved(origin.pod, origin.node, origin.at_us, origin.lost / 1000, origin.beneficiary or "")


def _gang_words(said: GangUnschedulable, entry: Entry) -> str:
    return words_for_gang(said, None if entry.meaning is None else entry.meaning.shape)
