"""The answer about a pod or a gang, put together from where it stands and what the engine says.

The engine is only loaded when it has to be asked: that a pod runs, is gated or malformed is known
without it.
"""

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from gpufleet.cluster.engine_time import EngineTime
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.mig_layouts.managed_cards import cuts_for
from gpufleet.cluster.object_details import ClusterObjectDetails
from gpufleet.cluster.pods.pod_entry import Entry, PodStage
from gpufleet.cluster.scheduler_lease import Leading
from gpufleet.cluster.verdict_words import GANG_MALFORMED
from gpufleet.engine.explanations import causes
from gpufleet.engine.explanations.causes import has_room
from gpufleet.engine.explanations.explanation import Explanation
from gpufleet.engine.explanations.sentences import CLAIMS_GIVE_BACK, asked_for
from gpufleet.engine.instruction import Verdict
from gpufleet.explain import held_causes, placed_pods
from gpufleet.explain.answer import SCHEMA, Answer, Asked, Finding, GangRow, State
from gpufleet.explain.end_words import end_notes, may_have_to_end
from gpufleet.explain.engine_answer import EngineAnswer
from gpufleet.explain.foreign_pods import foreign
from gpufleet.explain.gang_words import (
    does_not_fit,
    gang_row,
    half_bound,
    short_of_members,
    state_of,
)
from gpufleet.explain.node_requests import node_notes
from gpufleet.explain.node_words import find_cause, near_rows, no_nodes, not_together, reason_rows
from gpufleet.explain.ready_words import ready_note, ready_row
from gpufleet.explain.reservation_causes import holds, kept_off
from gpufleet.kube import resources
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.objects.pod import Pod
from gpufleet.model import pod as model
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName, NodeName, PodUid, QueueName
from gpufleet.model.phrases import counted, listed, none_of

if TYPE_CHECKING:
    from gpufleet.explain.engine_run import EngineRun
    from gpufleet.explain.queue_position import QueuePosition

NO_VERDICT = Verdict(0, {}, {}, None)
"""For a pod of which the engine said nothing: no node was looked at."""


class Answering:
    """Answers about pods of one picture."""

    def __init__(self, facts: Facts, leading: Leading) -> None:
        self.facts = facts
        self.leading = leading

    @cached_property
    def engine_run(self) -> "EngineRun":
        """The engine, which takes a second to load."""
        from gpufleet.explain.engine_run import EngineRun

        now_us = EngineTime(self.facts.clock).now_us()
        return EngineRun(self.facts.waves, self.facts.settings, now_us)

    def about_pod(self, pod: Pod, asked: Asked) -> Answer:
        """Everything about one pod."""
        state = state_of(self.facts, pod)
        gang = self.facts.gang_of(pod)
        row = None if gang is None else gang_row(self.facts, gang)
        match state:
            case State.RUNS | State.PLACED:
                return self._placed(pod, asked, state, row)
            case State.ENDED:
                return self._plain(asked, state, "has ended", placed_pods.ended(pod), row)
            case State.FOREIGN:
                return self._plain(asked, state, "waits", foreign(self.facts, pod), row)
            case State.LEAVES:
                found = Finding("leaves", "it is being deleted and has no node")
                return self._plain(asked, state, "is being deleted", found, row)
            case State.GATED:
                return self._plain(asked, state, "waits", held_causes.gates(pod), row)
        return self._waiting(pod, asked, state, row)

    def about_gang(self, name: GangName, asked: Asked) -> Answer:
        """Everything about a gang, by the member that matters most."""
        members = self.facts.members(name)
        row = gang_row(self.facts, name)
        waits = [pod for pod in members if state_of(self.facts, pod) is State.WAITS]
        # Members that the engine has come before these: it can say what they lack.
        if not waits:
            waits = [
                pod
                for pod in members
                if state_of(self.facts, pod) in {State.HELD, State.GATED, State.FOREIGN}
            ]
        if waits:
            return self.about_pod(waits[0], asked)
        placed = [one for one in row.members if one.state in {State.RUNS, State.PLACED}]
        nodes = listed(sorted({one.node for one in placed}))
        if placed:
            runs = State.RUNS if all(one.state is State.RUNS for one in placed) else State.PLACED
            summary = f"{asked} runs: {counted(len(placed), 'member')} on {nodes}"
            return self._answer(asked, runs, summary, Finding("", ""), row)
        summary = f"{asked} has ended: {none_of(len(members), 'member')} is left"
        return self._answer(asked, State.ENDED, summary, Finding("ended", ""), row)

    def _placed(self, pod: Pod, asked: Asked, state: State, row: GangRow | None) -> Answer:
        summary = f"{asked} {placed_pods.placed_words(self.facts, pod)}"
        notes = placed_pods.placed_notes(self.facts, pod)
        found = Answer(
            SCHEMA,
            asked,
            state,
            summary,
            placement=placed_pods.placement(self.facts, pod),
            gang=row,
            notes=(*notes, *self._of_its_end(pod), *_of_gang(row)),
        )
        entry = self.facts.entry(pod)
        if state is State.RUNS or entry is None or entry.meaning is None:
            return found
        return self._with_ready(found, entry.meaning, NodeName(pod.spec.node_name))

    def _with_ready(self, found: Answer, meaning: model.Pod, node: NodeName | None) -> Answer:
        """The answer, and how long the pod takes until it is ready on its node, if it names data."""
        row = None if node is None else ready_row(self.facts, meaning, node)
        if row is None:
            return found
        return msgspec.structs.replace(found, ready=row, notes=(*found.notes, ready_note(row)))

    def _of_its_end(self, pod: Pod) -> list[str]:
        """When a pod is evicted at the latest, and for what; the engine is asked where that may be."""
        entry = self.facts.entry(pod)
        if entry is None or entry.meaning is None or not may_have_to_end(self.facts, entry.meaning):
            return []
        engine = self.engine_run.engine
        outlook = engine.outlook(entry.meaning.uid)
        return [] if outlook is None else end_notes(outlook, engine.at_us)

    def _plain(self, asked: Asked, state: State, doing: str, found: Finding, row: GangRow | None) -> Answer:
        return self._answer(asked, state, f"{asked} {doing}", found, row)

    def _waiting(self, pod: Pod, asked: Asked, state: State, row: GangRow | None) -> Answer:
        entry = self.facts.entry(pod)
        if entry is None or entry.held is not None or entry.meaning is None:
            held = None if entry is None else entry.held
            found = Finding("unseen", "") if held is None else held_causes.held(self.facts, pod, held)
            return self._answer(asked, state, f"{asked} waits", found, row)
        needs = f"{asked} waits: it needs {asked_for(entry.meaning.shape)}"
        problem = "" if entry.meaning.gang is None else self.facts.gangs.problem(entry.meaning.gang)
        if problem:
            way = ("make the words of all members the same",)
            return self._answer(asked, state, needs, Finding(GANG_MALFORMED, problem, way), row)
        return self._judged(entry, entry.meaning, asked, needs, row)

    def _judged(
        self, entry: Entry, meaning: model.Pod, asked: Asked, needs: str, row: GangRow | None
    ) -> Answer:
        gang = self._engine_gang(meaning)
        answer = self.engine_run.judge(meaning, gang, ClusterObjectDetails(self.facts))
        if answer is None:
            return self._answer(asked, State.WAITS, needs, Finding("unseen", ""), row)
        said = answer.explanation
        match said.cause:
            case causes.ABOUT_TO_RUN:
                whole = self._answer(asked, State.WAITS, needs, self._room(said), row)
                return self._with_ready(whole, meaning, said.node)
            case causes.NOMINATED:
                whole = self._answer(asked, State.WAITS, needs, self._kept(answer), row)
                return self._with_ready(whole, meaning, said.node)
            case causes.GANG_SHORT if row is not None and said.gang is not None:
                found = short_of_members(row, said.gang.arrived, self._other_gangs(said.gang.gang))
                return self._answer(asked, State.WAITS, needs, found, row)
        verdict = said.verdict or NO_VERDICT
        queues = self._queues(meaning)
        found = self._found(said, queues, gang)
        found = holds(verdict, found, self._named(answer.waits_for)) or found
        found = self._behind(said, meaning, found)
        if row is not None and said.gang is not None:
            found = does_not_fit(row, said.gang.placeable, said.gang.role, found)
        by_nodes = said.cause != causes.RESERVATION
        notes = self._ahead(entry, meaning) if verdict.nearest is not None and not queues else []
        # Where the queue itself lets nothing start, its turn does not matter.
        notes += queues.notes() if queues and verdict.bar is None else []
        notes += self._kept_by_budgets(answer) or self._no_eviction(said, meaning, gang)
        notes += cuts_for(entry.object.metadata.path, self.facts.picture.all(resources.NODES))
        notes += node_notes(entry.object)
        notes += self._left_out() if verdict.nodes else []
        whole = self._answer(asked, State.WAITS, needs, found, row, notes)
        return msgspec.structs.replace(
            whole,
            nodes=verdict.nodes,
            reasons=reason_rows(said) if by_nodes else (),
            nearest=near_rows(said) if by_nodes else (),
        )

    def _queues(self, meaning: model.Pod) -> "QueuePosition | None":
        """How it stands among the queues; None where no queue is described."""
        from gpufleet.explain.queue_position import QueuePosition

        described = self.engine_run.engine.state.queues.is_active
        return QueuePosition(self.engine_run.engine, meaning) if described else None

    def _found(self, said: Explanation, queues: "QueuePosition | None", gang: Gang | None) -> Finding:
        """The engine's cause in words, and besides what a queue says what all nodes have against the pod."""
        from gpufleet.explain.queue_causes import by_queue

        verdict = said.verdict or NO_VERDICT
        if said.cause == causes.GANG_FIT:
            return not_together(gang)
        if said.cause == causes.NO_NODES:
            return no_nodes(self.facts, said)
        if said.cause == causes.GANG_UNKNOWN:
            way = "create what describes the gang, or correct the name that its pods give"
            return Finding(said.cause, "nothing describes the gang that it names", (way,))
        if said.cause == causes.BACKOFF:
            why = "the last Binding was refused, and the scheduler waits a while before the next"
            return Finding(said.cause, why, ("see the pod's Events for the reason",))
        off = kept_off(verdict)
        if off is not None:
            return off
        book = self.facts.pods.reader.queues
        found = None if queues is None else by_queue(verdict, queues, _by_text(book.problems))
        if found is None or has_room(verdict) or not said.findings:
            return found or find_cause(said)
        nodes = find_cause(said)
        return Finding(
            found.cause, f"{found.why}; besides, {nodes.why}", (*found.way_out, *nodes.way_out[:1])
        )

    def _left_out(self) -> list[str]:
        """Nodes that could not be looked at, or have GPUs of which nothing is known."""
        notes = []
        problems = self.facts.unreadable_nodes()
        if problems:
            # The first by name, so that equal clusters get equal answers.
            first = problems[min(problems)]
            notes.append(f"{counted(len(problems), 'node')} cannot be read and had to be left out: {first}")
        reports = self.facts.unread_reports()
        if reports:
            words = f"the reports of GPUs of {counted(len(reports), 'node')} cannot be read"
            notes.append(f"{words}: {reports[min(reports)]}")
        return notes

    def _other_gangs(self, name: GangName) -> list[str]:
        """The gangs of the namespace that wait for members too, by the names that their pods give."""
        namespace = name.rpartition("/")[0]
        short = (
            one for one in self.facts.gangs.records if one != name and one.rpartition("/")[0] == namespace
        )
        return sorted(one.rpartition("/")[2] for one in short if _is_short(gang_row(self.facts, one)))

    def _engine_gang(self, meaning: model.Pod) -> Gang | None:
        record = None if meaning.gang is None else self.facts.gangs.records.get(meaning.gang)
        return None if record is None else record.engine_gang

    def _room(self, said: Explanation) -> Finding:
        node = harmless(str(said.node))
        if self.leading.problem:
            why = f"there is room for it, on {node}, but {self.leading.problem}"
            return Finding("no-leader", why, (self.leading.way_out,))
        why = f"there is room for it, on {node}"
        way = (
            "the scheduler places it within moments; if it stays so, see the scheduler's log for its Binding"
        )
        return Finding("about-to-run", why, (way,))

    def _kept(self, said: EngineAnswer) -> Finding:
        """A place is kept for it until others have ended."""
        node = harmless(str(said.explanation.node))
        others = self._named(said.waits_for)
        has = "has" if len(said.waits_for) == 1 else "have"
        if self.leading.problem:
            why = f"node {node} would be kept for it until {others} {has} ended, but {self.leading.problem}"
            return Finding("no-leader", why, (self.leading.way_out,))
        if not said.waits_for:
            way = (
                "kube-controller-manager takes devices back from claims of pods that ended: see that it runs"
            )
            return Finding("nominated", f"node {node} is kept for it until {CLAIMS_GIVE_BACK}", (way,))
        why = f"node {node} is kept for it until {others} {has} ended"
        if said.victims:
            why += f"; {counted(len(said.victims), 'pod')} of them end for its sake"
        way = "it starts as soon as they have ended, or when room comes elsewhere"
        return Finding("nominated", why, (way,))

    def _kept_by_budgets(self, said: EngineAnswer) -> list[str]:
        """Pods that would make room for it if no disruption budget kept them."""
        if not said.protected:
            return []
        return [f"disruption budgets keep {self._named(said.protected)}, or it would end for its sake"]

    def _no_eviction(self, said: Explanation, meaning: model.Pod, gang: Gang | None) -> list[str]:
        """Which rule has no pod evicted for its sake, if it waits for room."""
        from gpufleet.explain.no_eviction import why_no_eviction

        verdict = said.verdict
        if verdict is None or verdict.nearest is None or has_room(verdict) or verdict.bar or verdict.quota:
            return []
        return why_no_eviction(self.engine_run.engine, meaning, gang, self.facts.settings)

    def _named(self, uids: tuple[PodUid, ...]) -> str:
        return _names([self.facts.pods.entries[uid] for uid in uids])

    def _behind(self, said: Explanation, meaning: model.Pod, found: Finding) -> Finding:
        """The cause, and before it that the room was just given to others, because it is their turn."""
        ahead = [self.facts.pods.entries[uid] for uid in said.ahead]
        if not ahead:
            return found
        higher = [one for one in ahead if one.meaning is not None and one.meaning.priority > meaning.priority]
        come = "comes" if len(ahead) == 1 else "come"
        why = (
            f"the room that there is goes to {counted(len(ahead), 'pod')} that {come} first: {_names(ahead)}"
        )
        if higher:
            why += f"; {len(higher)} of them have a higher priority than its {meaning.priority}"
        ways = ["it runs when enough of them have ended", "give it a PriorityClass of a higher value"]
        if self.leading.problem:
            why += f"; and {self.leading.problem}"
            ways.insert(0, self.leading.way_out)
        return Finding(found.cause, f"{why}; {found.why}", (*ways, *found.way_out))

    def _ahead(self, entry: Entry, meaning: model.Pod) -> list[str]:
        """Pods that would be served before this one if room came free: they, too, wait for room only."""
        earlier = [other for other in self._waiting_entries() if _turn(other) < _turn(entry)]
        ahead = [
            other
            for other in sorted(earlier, key=_turn)
            if not _same_gang(other, meaning) and self._waits_for_room(other)
        ]
        if not ahead:
            return []
        return [f"{counted(len(ahead), 'waiting pod')} would be looked at first: {_names(ahead)}"]

    def _waits_for_room(self, entry: Entry) -> bool:
        verdict = None if entry.meaning is None else self.engine_run.engine.explain(entry.meaning.uid)
        if verdict is None or verdict.nearest is None:
            return False
        # A node that would take it: then it waits for its gang, not for room.
        return sum(verdict.first_reasons.values()) == verdict.nodes

    def _waiting_entries(self) -> list[Entry]:
        return [entry for entry in self.facts.pods.entries.values() if entry.place is PodStage.WAITING]

    def _answer(
        self,
        asked: Asked,
        state: State,
        summary: str,
        found: Finding,
        row: GangRow | None,
        notes: list[str] | None = None,
    ) -> Answer:
        waits = state in {State.WAITS, State.GATED, State.HELD}
        # Not a second time where the cause names it already.
        is_told = self.leading.problem and self.leading.problem in found.why
        leader = [self.leading.problem] if waits and not is_told else []
        every = [*_of_gang(row), *(notes or []), *leader, self.leading.note if waits else ""]
        return Answer(
            SCHEMA,
            asked,
            state,
            summary,
            cause=found.cause,
            why=found.why,
            way_out=found.way_out,
            gang=row,
            notes=tuple(note for note in every if note),
        )


def _by_text(problems: dict[QueueName, str]) -> dict[str, str]:
    return {str(name): problem for name, problem in problems.items()}


def _of_gang(row: GangRow | None) -> list[str]:
    return [half_bound(row)] if row is not None and row.deadline else []


def _names(entries: list[Entry]) -> str:
    return listed(str(entry.name) for entry in entries)


def _is_short(row: GangRow) -> bool:
    return row.arrived < row.min_members


def _turn(entry: Entry) -> tuple[int, int, str]:
    meaning = entry.meaning
    return (
        (0, 0, "")
        if meaning is None
        else (-meaning.priority, meaning.created_at_us, str(PodUid(meaning.uid)))
    )


def _same_gang(other: Entry, meaning: model.Pod) -> bool:
    return other.meaning is not None and meaning.gang is not None and other.meaning.gang == meaning.gang
