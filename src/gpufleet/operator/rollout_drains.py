"""Which work keeps a node from being changed, and what is to be done about it, as a rollout asks for it.

``Drains`` is the seam. ``PlainDrains`` reads the pods that hold GPUs and waits for nothing but checkpoints.
``PlannedDrains`` knows gangs and places too, by a plan of the drain (``rollout_planning``).
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from gpufleet.drain.checkpoints import question_on, saves_on_request
from gpufleet.drain.plan import NO_CONTROLLER, Way, WorkPlan, short_words
from gpufleet.eviction.plan import EvictionRefusal, Victim
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.model.gpu_drivers import is_gpu_driver
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.model_errors import printable
from gpufleet.operator.rollout.actions import PodPlace
from gpufleet.operator.rollout.observed import Drain
from gpufleet.operator.rollout.stamp import DRAINING, Stamp
from gpufleet.operator.rollout.windows import US_PER_S
from gpufleet.operator.rollout_objects import CHECK_LABEL, CHECK_NODE, HeldPod
from gpufleet.operator.rollout_planning import KnownRollouts

WORDS_MAX = 400
"""Characters of what a scheduler says of a refused eviction."""

NAMED_MAX = 3
"""Work that is named where it is left alone; a status has room for some sentences."""


class Drains(Protocol):
    """What is known of the work on nodes."""

    def order(self, policy: str, nodes: Sequence[NodeName]) -> tuple[NodeName, ...] | None:
        """The order in which these nodes of a policy are best drained; None while it is being planned."""
        ...

    def drain_of(self, node: NodeName, stamp: Stamp | None) -> Drain:
        """What keeps a node from being changed."""
        ...

    @property
    def problem(self) -> str:
        """Why drains cannot be planned, or ""."""
        ...


class RefusedEvictions:
    """Evictions that did not happen, until they are asked for again.

    Kept in memory alone: a new process asks once more for each pod, and hears the same.
    """

    def __init__(self) -> None:
        self._refused: dict[PodUid, tuple[str, float]] = {}

    def words(self, uid: PodUid) -> str:
        """Why a pod was not evicted, or ""."""
        return self._refused.get(uid, ("", 0.0))[0]

    def due_s(self, uid: PodUid) -> float:
        """From when on a pod may be asked again, by the clock that does not leap; 0 where it was never."""
        return self._refused.get(uid, ("", 0.0))[1]

    def note(self, refusal: EvictionRefusal, now_s: float) -> None:
        """An eviction did not happen."""
        pod = refusal.victim.pod
        words = f"{pod.namespace}/{pod.name}: {refusal.words}"
        self._refused[pod.uid] = (words, now_s + refusal.for_s)

    def forget(self, victim: Victim) -> None:
        """A pod was told to end."""
        self._refused.pop(victim.pod.uid, None)

    def keep(self, uids: Iterable[PodUid]) -> None:
        """Forget all pods but these, which are there."""
        there = set(uids)
        self._refused = {uid: one for uid, one in self._refused.items() if uid in there}


class PlainDrains:
    """Pods that hold GPUs, node by node; what saves itself is asked, and all are told to end."""

    problem = ""

    def __init__(
        self, pods: Mapping[NodeName, Sequence[HeldPod]], refused: RefusedEvictions, now_us: int
    ) -> None:
        self._pods = pods
        self._refused = refused
        self.now_us = now_us

    def order(self, _: str, nodes: Sequence[NodeName]) -> tuple[NodeName, ...]:
        """Nodes with the fewest pods that hold GPUs first: an empty one loses nothing."""
        return tuple(sorted(nodes, key=lambda name: (len(self.held_on(name)), name)))

    def drain_of(self, node: NodeName, stamp: Stamp | None) -> Drain:
        """What keeps a node from being changed."""
        found = self.held_on(node)
        holders = [one for one in found if not one.is_ending]
        unasked, saving = self.to_save([one for one in holders if saves_on_request(_said(one))], stamp)
        words = [told for one in holders if (told := self._refused_words(one))]
        return Drain(
            holders=uids_of(holders),
            ending=uids_of(one for one in found if one.is_ending),
            unasked=uids_of(unasked),
            saving_until_us=max(saving.values(), default=None),
            due=tuple(uid for uid in uids_of(holders) if uid not in {*uids_of(unasked), *saving}),
            stuck="; ".join(words),
        )

    def held_on(self, node: NodeName) -> list[HeldPod]:
        """The work that holds GPUs of a node."""
        return [one for one in self._pods.get(node, ()) if is_holder(one)]

    def to_save(
        self, pods: Sequence[HeldPod], stamp: Stamp | None
    ) -> tuple[list[HeldPod], dict[PodUid, int]]:
        """Of pods that save their work on request: those to be asked, and those that are waited for."""
        unasked: list[HeldPod] = []
        saving: dict[PodUid, int] = {}
        for one in pods:
            question = question_on(_said(one), 0 if stamp is None else stamp.began_us, self.now_us)
            if question is None:
                unasked.append(one)
            elif question.is_open(_said(one), self.now_us):
                saving[PodUid(one.metadata.uid)] = question.until_us
        return unasked, saving

    def _refused_words(self, pod: HeldPod) -> str:
        told = pod.refused_words
        by_scheduler = f"{pod.metadata.path}: {printable(told, WORDS_MAX)}" if told else ""
        return self._refused.words(PodUid(pod.metadata.uid)) or by_scheduler


class PlannedDrains:
    """Pods that hold GPUs, each as the plan of the drain says: waited for, moved with its gang, or ended.

    A pod is left alone until a plan says something of it. ``rollout_planning`` has the plan.
    """

    def __init__(
        self, plain: PlainDrains, known: KnownRollouts | None, pods: Mapping[PodUid, HeldPod], problem: str
    ) -> None:
        self._plain = plain
        self._known = known
        self._pods = pods
        self.problem = problem

    def order(self, policy: str, nodes: Sequence[NodeName]) -> tuple[NodeName, ...] | None:
        """As planned; None while it is not."""
        found = None if self._known is None else self._known.order(policy)
        # An order with nodes that the policy selects no more was planned for another question.
        return None if found is None or not set(found) <= set(nodes) else found

    def drain_of(self, node: NodeName, stamp: Stamp | None) -> Drain:
        """What keeps a node from being changed."""
        plain = self._plain.drain_of(node, stamp)
        if stamp is None or stamp.phase not in DRAINING or not plain.holders:
            return plain
        known = self._known
        if known is None or node not in known.closed:
            kept = plain.holders
            return Drain(kept, plain.ending, kept, self.problem, stuck=plain.stuck, waits_for_ends=None)
        return _Planned(self._plain, known, self._pods, stamp, plain).drain()


class _Planned:
    """The work of one node, one gang or pod after the other."""

    def __init__(
        self,
        plain: PlainDrains,
        known: KnownRollouts,
        pods: Mapping[PodUid, HeldPod],
        stamp: Stamp,
        drain: Drain,
    ) -> None:
        self._plain, self._known, self._pods, self._stamp = plain, known, pods, stamp
        self._of_node = drain
        self._kept: dict[PodUid, str] = {}
        self._waits_us: list[int] = []
        self._unasked: dict[PodUid, None] = {}
        self._savings_us: list[int] = []
        self._moves: list[PodPlace] = []
        self._due: list[PodUid] = []
        self._waits_for_ends: bool | None = False

    def drain(self) -> Drain:
        """What is to be done about all of it."""
        works = {}
        for uid in self._of_node.holders:
            work = self._known.work.get(uid)
            if work is not None:
                # Pods of one gang have one plan, which is carried out once.
                works[work.name] = work
            elif uid in self._known.seen:
                self._see_to_unplanned(uid)
            else:
                # It came after the plan was made, and the next plan says what becomes of it.
                self._kept[uid] = ""
                self._waits_for_ends = None
        for work in works.values():
            self._see_to(work)
        return Drain(
            holders=self._of_node.holders,
            ending=self._of_node.ending,
            kept=tuple(self._kept),
            kept_words="; ".join(list(dict.fromkeys(one for one in self._kept.values() if one))[:NAMED_MAX]),
            wait_until_us=min(self._waits_us, default=None),
            unasked=tuple(self._unasked),
            saving_until_us=max(self._savings_us, default=None),
            moves=tuple(self._moves),
            due=tuple(self._due),
            stuck=self._of_node.stuck,
            waits_for_ends=self._waits_for_ends,
        )

    def _see_to(self, work: WorkPlan) -> None:
        at_us = None if work.at_s is None else self._known.at_us + round(work.at_s * US_PER_S)
        if work.way is Way.WAITS:
            self._waits_for_ends = True
        match work.way:
            case Way.MOVES if not work.at_s:
                self._move(work)
            case Way.WAITS | Way.MOVES:
                self._keep(work, "")
                self._waits_us += [] if at_us is None else [at_us]
            case Way.EVICTED:
                self._end(work)
            case Way.NO_PLACE if self._has_waited_long_enough():
                self._end(work)
            case Way.NO_PLACE:
                self._keep(work, f"{work.name} fits nowhere else now: {short_words(work.gpus)}")
                self._waits_us += [self._stamp.place_until_us] if self._stamp.place_until_us else []
            case Way.STAYS:
                self._keep(work, f"{work.name} stays: {work.why}")

    def _see_to_unplanned(self, uid: PodUid) -> None:
        """A pod of which the plan knows nothing to wait for, such as one that its scheduler cannot read."""
        pod = self._pods[uid]
        if pod.metadata.controller is None:
            self._kept[uid] = f"pod {pod.metadata.path} stays: {NO_CONTROLLER}"
        elif not (saves_on_request(_said(pod)) and self._saves([uid])):
            self._due.append(uid)

    def _keep(self, work: WorkPlan, words: str) -> None:
        self._kept.update((PodUid(uid), words) for uid in work.pods if uid in self._of_node.holders)

    def _has_waited_long_enough(self) -> bool:
        """Whether work that fits nowhere was waited for as long as the policy says."""
        until_us = self._stamp.place_until_us
        return 0 < until_us <= self._plain.now_us

    def _move(self, work: WorkPlan) -> None:
        """A gang saves its work and moves as one, with its pods on other nodes."""
        if work.is_asked_to_save and self._saves(work.pods):
            return
        if self._known.problem:
            self._keep(work, self._known.problem)
            return
        self._moves += [PodPlace(PodUid(one.uid), NodeName(one.target)) for one in work.moves]

    def _end(self, work: WorkPlan) -> None:
        here = [uid for uid in self._of_node.holders if uid in work.pods]
        if not self._saves([uid for uid in here if saves_on_request(_said(self._pods[uid]))]):
            self._due += here

    def _saves(self, uids: Sequence[str]) -> bool:
        """Whether any of these pods is to be asked, or waited for."""
        pods = [self._pods[PodUid(uid)] for uid in uids if PodUid(uid) in self._pods]
        unasked, saving = self._plain.to_save(pods, self._stamp)
        self._unasked.update(dict.fromkeys(uids_of(unasked)))
        self._savings_us += saving.values()
        return bool(unasked or saving)


def is_holder(pod: HeldPod) -> bool:
    """Whether a pod is work that holds GPUs."""
    is_ours = CHECK_LABEL in pod.metadata.labels
    return pod.holds_gpus and not (pod.has_ended or pod.is_of_daemon or is_ours)


def pods_by_node(
    pods: Iterable[HeldPod], namespace: str, by_claim: Container[PodUid] = ()
) -> dict[NodeName, list[HeldPod]]:
    """The pods of each node, by name; check pods too that are not placed yet.

    Those ``by_claim`` have GPUs by a claim. Check pods are those of the operator's ``namespace``: elsewhere
    their label is a user's, and says nothing.
    """
    found: dict[NodeName, list[HeldPod]] = defaultdict(list)
    for each in sorted(pods, key=lambda pod: pod.metadata.path):
        one = each if each.metadata.namespace == namespace else _unmarked(each)
        if PodUid(one.metadata.uid) in by_claim:
            one = msgspec.structs.replace(one, holds_by_claim=True)
        waits_for = one.metadata.annotations.get(CHECK_NODE, "") if CHECK_LABEL in one.metadata.labels else ""
        if name := one.spec.node_name or waits_for:
            found[NodeName(name)].append(one)
    return found


def gpu_consumers(claims: Iterable[ResourceClaimObject]) -> Iterator[PodUid]:
    """The pods that have GPUs by claims. Access for administrators holds none: it only looks."""
    for claim in claims:
        allocation = claim.status.allocation
        results = () if allocation is None else allocation.devices.results
        if any(is_gpu_driver(one.driver) and not one.admin_access for one in results):
            yield from (PodUid(one.uid) for one in claim.status.reserved_for if one.resource == "pods")


def _unmarked(pod: HeldPod) -> HeldPod:
    labels = {key: text for key, text in pod.metadata.labels.items() if key != CHECK_LABEL}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


def uids_of(pods: Iterable[HeldPod]) -> tuple[PodUid, ...]:
    """The uids of pods."""
    return tuple(PodUid(one.metadata.uid) for one in pods)


def _said(pod: HeldPod) -> Mapping[str, str]:
    return pod.metadata.annotations
