"""One question from its words to its answer, with read-only calls.

Everything that decisions depend on is listed once; controllers and their events only where the question is
about one. A user who may not list all of that still gets what the scheduler last said.
"""

import asyncio
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from gpufleet.cluster.claims.extended_resources import special_claim_of
from gpufleet.cluster.claims.usable_claims import named_claims
from gpufleet.cluster.facts import Facts
from gpufleet.cluster.progress import ENGINE, Say
from gpufleet.cluster.scheduler_lease import Leading, who_leads
from gpufleet.cluster.settings import Settings
from gpufleet.cluster.watching.mirrors import WATCHED
from gpufleet.cluster.watching.picture import INDISPENSABLE, Picture, take_picture
from gpufleet.explain import owners, subject
from gpufleet.explain.answer import SCHEMA, Answer, Asked, Finding, MemberRow, State
from gpufleet.explain.answering import Answering
from gpufleet.explain.claim_answers import CAUSES, with_claims, with_preparation
from gpufleet.explain.gang_words import member_row, state_of
from gpufleet.explain.namespace_limits import namespace_limits
from gpufleet.explain.owners import EventRead, Owned, Owner
from gpufleet.kube import resources
from gpufleet.kube.answer import decode
from gpufleet.kube.client import Client
from gpufleet.kube.codec.field_path import harmless
from gpufleet.kube.listing import Selection
from gpufleet.kube.objects.pod import POD_SCHEDULED, Pod
from gpufleet.kube.status import Forbidden, NotFound
from gpufleet.model.model_errors import InputError, printable
from gpufleet.model.phrases import counted

Value = TypeVar("Value")
MESSAGE_MAX = 1000
"""Words from the cluster may be of any length; a person reads the beginning."""

# In the order of what a person should see first: work that waits before work that runs.
FIRST_TO_TELL = (
    State.WAITS,
    State.HELD,
    State.GATED,
    State.FOREIGN,
    State.LEAVES,
    State.PLACED,
    State.RUNS,
    State.ENDED,
)
NEEDS_PODS = (State.WAITS, State.HELD, State.NO_PODS)
"""In these states, the limits of the pod's namespace may explain what it lacks."""

_POD = msgspec.json.Decoder(Pod)
_OWNER = msgspec.json.Decoder(Owner)
_EVENT = msgspec.json.Decoder(EventRead)


async def ask(client: Client, settings: Settings, text: str, namespace: str, say: Say) -> Answer:
    """Why the pod, gang or controller of this name is as it is. Raises InputError for an unknown name.

    ``say`` is told what is being done.
    """
    # A bad name is told before anything is listed.
    subject.read_name(text)
    say("reading the cluster")
    async with asyncio.TaskGroup() as group:
        listing = group.create_task(take_picture(client, WATCHED))
        lease = group.create_task(who_leads(client, settings))
    return await ask_of_picture(client, settings, text, namespace, (listing.result(), lease.result()), say)


async def ask_of_picture(
    client: Client,
    settings: Settings,
    text: str,
    namespace: str,
    seen: tuple[Picture, Leading],
    say: Say,
) -> Answer:
    """As ``ask``, over a picture and a Lease that were looked at before."""
    wanted = subject.read_name(text)
    picture, leading = seen
    forbidden = [kind for kind in picture.forbidden if kind in INDISPENSABLE]
    if forbidden:
        return await _words_before(client, wanted, namespace, forbidden[0].plural)
    facts = Facts(picture, leading.settings(settings), client.clock)
    inquiry = Inquiry(client, picture, Answering(facts, leading), say)
    answer = _about_claims(inquiry, await inquiry.answer(wanted, namespace))
    answer = _with_gaps(answer, picture)
    if answer.state not in NEEDS_PODS:
        return answer
    limits = await namespace_limits(client, namespace)
    return msgspec.structs.replace(answer, notes=(*answer.notes, *limits))


class Inquiry:
    """A question over one picture."""

    def __init__(self, client: Client, picture: Picture, answering: Answering, say: Say) -> None:
        self.client = client
        self.picture = picture
        self.answering = answering
        self.facts = answering.facts
        self.say = say
        self.pod: Pod | None = None
        """The pod of which the answer speaks, if it speaks of one alone or of the first of its owner's."""

    async def answer(self, wanted: subject.Wanted, namespace: str) -> Answer:
        """The answer, about whatever the name means."""
        if wanted.kind in {subject.ANY, subject.POD}:
            found = self._pod(wanted.name, namespace)
            if found is not None:
                return found
        owned = await self._owned(wanted, namespace)
        gang = subject.find_gang(self.facts, wanted, namespace)
        if gang is not None and (owned is None or wanted.kind in {subject.ANY, subject.GANG}):
            self.say(ENGINE)
            return self.answering.about_gang(gang, Asked("gang", namespace, wanted.name))
        if owned is not None:
            return self._about_owner(owned, namespace)
        groups = subject.group_kinds(self.facts, wanted.name, namespace)
        if groups:
            return _group_without_pods(Asked("podgroup", namespace, wanted.name), groups[0])
        raise subject.unknown(self.facts, wanted, namespace, await self._controllers(namespace))

    def _pod(self, name: str, namespace: str) -> Answer | None:
        asked = Asked("pod", namespace, name)
        pod = self.facts.pod(namespace, name)
        if pod is not None:
            self.say(ENGINE)
            self.pod = pod
            return self.answering.about_pod(pod, asked)
        problem = self.facts.unreadable(namespace, name)
        if not problem:
            return None
        why = f"it is not as a pod should be: {printable(problem, MESSAGE_MAX)}"
        way = ("make it anew with that field as the API reference of Kubernetes has it",)
        return _plain(asked, State.HELD, "waits", Finding("malformed", why, way))

    def _about_owner(self, owned: Owned, namespace: str) -> Answer:
        asked = Asked(owned.kind, namespace, owned.owner.metadata.name)
        pods = [pod for pod in self.picture.all(resources.PODS) if _owned_by(pod, owned.uids)]
        alive = [pod for pod in pods if not pod.terminal]
        short = owners.why_no_pods(owned, len(alive))
        if not alive:
            state = State.ENDED if short.cause == "ended" else State.NO_PODS
            rows = tuple(member_row(self.facts, pod) for pod in pods)
            doing = "is over" if state is State.ENDED else "has no pods"
            return msgspec.structs.replace(_plain(asked, state, doing, short), pods=rows)
        self.say(ENGINE)
        alive.sort(key=lambda pod: (FIRST_TO_TELL.index(state_of(self.facts, pod)), *_turn(pod)))
        self.pod = alive[0]
        answer = self.answering.about_pod(alive[0], Asked("pod", namespace, alive[0].metadata.name))
        rows = tuple(member_row(self.facts, pod) for pod in alive)
        summary = f"{asked} has {counted(len(alive), 'pod')}, {_states_in_words(rows)}"
        missing = owned.owner.wanted - len(alive)
        notes = answer.notes
        if missing > 0 and short.cause not in {"", "no-pods"}:
            notes = (f"{counted(missing, 'more pod')} could not be made: {short.why}", *notes)
        whole = msgspec.structs.replace(answer, subject=asked, summary=summary, pods=rows, notes=notes)
        if answer.state in {State.RUNS, State.PLACED} and len(rows) > 1:
            return msgspec.structs.replace(whole, placement=None)
        return msgspec.structs.replace(whole, about=answer.summary)

    async def _owned(self, wanted: subject.Wanted, namespace: str) -> Owned | None:
        kinds = (
            owners.KINDS
            if wanted.kind in {subject.ANY, subject.GANG}
            else {wanted.kind: owners.KINDS.get(wanted.kind)}
        )
        for name, kind in kinds.items():
            if kind is None:
                continue
            try:
                answer = await self.client.get(kind, wanted.name, namespace=namespace)
            # A kind that may not be read counts as one without this name: the name may be found under
            # another kind.
            except (NotFound, Forbidden):
                continue
            owner = decode(answer, _OWNER)
            # A Deployment owns its pods by way of ReplicaSets only.
            between = await self._replica_sets(owner, namespace) if name == "deployment" else []
            names = {owner.metadata.name, *(one.metadata.name for one in between)}
            uids = frozenset({owner.metadata.uid, *(one.metadata.uid for one in between)})
            return Owned(name, owner, uids, tuple(await self._events(namespace, names)))
        return None

    async def _replica_sets(self, owner: Owner, namespace: str) -> list[Owner]:
        found = await self._list(resources.REPLICA_SETS, namespace, _OWNER)
        return [
            one
            for one in found
            if any(ref.uid == owner.metadata.uid for ref in one.metadata.owner_references)
        ]

    async def _events(self, namespace: str, names: Iterable[str]) -> list[EventRead]:
        wanted = frozenset(names)
        chosen = Selection(fields=f"reason={owners.FAILED_CREATE}")
        found = await self._list(resources.EVENTS, namespace, _EVENT, chosen)
        mine = [one for one in found if one.regarding.name in wanted and one.reason == owners.FAILED_CREATE]
        return sorted(mine, key=lambda one: one.metadata.creation_timestamp or "")

    async def _controllers(self, namespace: str) -> list[str]:
        """The names of controllers, for suggestions."""
        kinds = (resources.JOBS, resources.DEPLOYMENTS, resources.STATEFUL_SETS)
        return [one.metadata.name for kind in kinds for one in await self._list(kind, namespace, _OWNER)]

    async def _list(
        self,
        kind: resources.Kind,
        namespace: str,
        decoder: msgspec.json.Decoder[Value],
        chosen: Selection | None = None,
    ) -> list[Value]:
        found: list[Value] = []
        try:
            async for page in self.client.list_pages(
                kind, namespace=namespace, selection=chosen or Selection()
            ):
                found += [decoder.decode(raw) for raw in page.items or ()]
        # What is listed here only adds to an answer, which holds without it.
        except (Forbidden, NotFound, msgspec.DecodeError):
            return []
        return found


def _about_claims(inquiry: Inquiry, answer: Answer) -> Answer:
    """The answer with what is said of the claims, where it is about a pod that waits for devices of some."""
    pod = inquiry.pod
    if answer.cause == "about-to-run" and pod is not None and named_claims(pod):
        return with_preparation(answer, inquiry.facts, pod)
    waits_for_devices = answer.state is State.FOREIGN or answer.cause in CAUSES
    if not waits_for_devices or pod is None:
        return answer
    if not (pod.spec.resource_claims or special_claim_of(pod, inquiry.facts.picture)):
        return answer
    return with_claims(answer, inquiry.facts, pod)


def _turn(pod: Pod) -> tuple[str, str]:
    """The order in which pods of one owner have their turn: by their age, then by name."""
    return pod.metadata.creation_timestamp or "", pod.metadata.name


def _owned_by(pod: Pod, uids: frozenset[str]) -> bool:
    return any(owner.uid in uids for owner in pod.metadata.owner_references)


def _states_in_words(rows: Iterable[MemberRow]) -> str:
    states = [row.state for row in rows]
    words = {State.RUNS: "running", State.WAITS: "waiting", State.FOREIGN: "of another scheduler"}
    counts = [(states.count(state), words.get(state, state.value)) for state in FIRST_TO_TELL]
    return " and ".join(f"{count} {word}" for count, word in counts if count)


def _plain(asked: Asked, state: State, doing: str, found: Finding) -> Answer:
    return Answer(
        SCHEMA,
        asked,
        state,
        f"{asked} {doing}",
        cause=found.cause,
        why=found.why,
        way_out=found.way_out,
    )


def _group_without_pods(asked: Asked, api_version: str) -> Answer:
    why = f"the PodGroup of {harmless(api_version)} is there, but no pod names it"
    way = ("name it in the pods (spec.schedulingGroup.podGroupName for Kubernetes' own kind)",)
    return _plain(asked, State.NO_PODS, "has no pods", Finding("no-pods", why, way))


async def _words_before(client: Client, wanted: subject.Wanted, namespace: str, plural: str) -> Answer:
    """What the scheduler last wrote on the pod, for users who may not read more."""
    problem = f"you may not list {plural} of the whole cluster, which this answer needs"
    expected = "the rights of the ClusterRole gpufleet-explain, bound to you by an administrator"
    if wanted.kind not in {subject.ANY, subject.POD}:
        raise InputError(problem, expected=expected)
    try:
        pod = decode(await client.get(resources.PODS, wanted.name, namespace=namespace), _POD)
    except (NotFound, Forbidden) as error:
        raise InputError(problem, expected=expected) from error
    asked = Asked("pod", namespace, wanted.name)
    note = f"{problem}; ask for {expected}"
    if pod.spec.node_name:
        answer = _plain(asked, State.PLACED, f"is on {harmless(pod.spec.node_name)}", Finding("", ""))
    else:
        said = pod.condition(POD_SCHEDULED)
        why = printable(said.message, MESSAGE_MAX) if said is not None and said.message else "nothing yet"
        answer = _plain(asked, State.WAITS, "waits; its scheduler last said", Finding("told", why))
    return msgspec.structs.replace(answer, notes=(note,))


def _with_gaps(answer: Answer, picture: Picture) -> Answer:
    """Say what could not be read, where that may have changed the answer."""
    if not picture.forbidden:
        return answer
    kinds = ", ".join(sorted({kind.plural for kind in picture.forbidden}))
    note = f"you may not list {kinds}: what they would have added is missing here"
    return msgspec.structs.replace(answer, notes=(*answer.notes, note))
