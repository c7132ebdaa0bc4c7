"""Gives whole devices, replicas and MIG instances: to each pod what it was granted, what is free to others.

The kubelet says neither in its question for a preference nor in Allocate which pod it asks for. So the answer
follows from the containers that may be asking (``pending_requests``), by ``whole_device_rules``. The kubelet
may have heard of a pod before us, so the API server itself is asked before an answer. And as long as a pod
without a grant may be the one that asks for so many, no granted units are given out: the pod that asks gets
what is free, or a refusal that says so. What a container has, or may have taken up, is given to no other
until its pod is finished, whatever the kubelet offers; each answer is kept (``holder_memory``) before the
kubelet learns of it. ``delivery`` has what a container then gets.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from gpufleet.agent.device_plugin import whole_device_rules as whole
from gpufleet.agent.device_plugin.choice import Choice
from gpufleet.agent.device_plugin.delivery import Delivery
from gpufleet.agent.device_plugin.grant_rule import Asker, check_granted, check_variables, note_variables
from gpufleet.agent.device_plugin.pending_requests import PendingRequests, UngrantedRequest, waiting
from gpufleet.agent.device_plugin.unit_allocator import AllocateResponse
from gpufleet.agent.device_plugin.whole_device_rules import OpenClaim
from gpufleet.agent.holders.holder_memory import HolderMemory
from gpufleet.agent.holders.holder_record import AllocateAnswer, ContainerRef
from gpufleet.agent.state.node_state import Held, Holders, NodeGpus, NodePods
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.units.node_units import GpuUnit, Units, device_of
from gpufleet.kube.clock import Clock
from gpufleet.model.model_errors import WorldError

LOG = logging.getLogger(__name__)
PROPOSAL_S = 2.0
"""So long after a preference was given, Allocate of these units needs no new look at the API server."""

UNSURE_S = 1.0
"""How long to wait for word of pods that were served or refused a moment ago, before refusing another."""

# Ten looks within UNSURE_S.
UNSURE_EVERY_S = 0.1
Decision = TypeVar("Decision")


class AllocatorInputs(msgspec.Struct, frozen=True):
    """What allocators follow, and what they ask where that may be behind.

    ``ask_pods`` gives the node's pods as the API server has them now, ``ask_holders`` what is held now; both
    may raise WorldError or TimeoutError. ``gave`` is told that something was given. ``memory`` keeps what was
    answered, and ``whole`` says whether the topic of holders has all sources in it. With ``grant_required``
    nothing is given to a pod without a grant.
    """

    gpus: Topic[NodeGpus]
    pods: Topic[NodePods]
    holders: Topic[Holders]
    ask_pods: Callable[[], Awaitable[NodePods]]
    ask_holders: Callable[[], Awaitable[Holders]]
    memory: HolderMemory
    clock: Clock
    gave: Callable[[], None] = lambda: None
    grant_required: bool = False
    whole: Callable[[], bool] = lambda: True


class _NodeView(msgspec.Struct, frozen=True):
    """All that is known at the moment of an answer. ``silent`` says why the API server did not answer.

    ``fresh`` says that the kubelet was asked for the holders, as far as it answers.
    """

    pods: NodePods
    holders: Holders
    waiting: PendingRequests
    silent: str = ""
    fresh: bool = True

    def rivals(self, size: int) -> list[UngrantedRequest]:
        """The pods without a grant that may be asking for so many."""
        return [one for one in self.waiting.ungranted if one.size == size]

    @property
    def vanishing(self) -> bool:
        """Whether a holder's pod left the API a moment ago, so that its end may be told soon."""
        return any(one.pod_uid and one.pod_uid not in self.pods for one in self.holders)

    def unheard_of(self, size: int) -> OpenClaim | None:
        """A forgotten container that may have ended just now, where no other is known to ask for so many."""
        if self.askers(size):
            return None
        return next((one for one in self.waiting.forgotten if one.wants == size), None)

    def askers(self, size: int) -> list[Asker]:
        """The containers that may be asking for so many, with a grant or without."""
        claims = [(one.pod, one.container) for one in self.waiting.claims if one.wants == size]
        return claims + [(one.pod, one.container) for one in self.rivals(size)]


class _Proposal(msgspec.Struct, frozen=True):
    """Units that were proposed, when, and which pods there were."""

    units: frozenset[str] = frozenset()
    at_s: float = 0.0
    pods: NodePods = {}


class WholeDeviceAllocator:
    """The allocator of one resource. ``units`` are those of all resources; the registrar sets them."""

    prefers = True
    prepares = False

    def __init__(self, resource: str, known: AllocatorInputs, delivery: Delivery, units: Units) -> None:
        self.resource = resource
        self.delivery = delivery
        self.units = units
        self._known = known
        self._given: set[frozenset[str]] = set()
        self._proposal = _Proposal()

    async def prefer(self, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        """As Allocator."""

        def propose(look: _NodeView) -> _Proposal:
            _check_heard_of(look, size)
            offered = self._usable(available, required, size, look.holders)
            best = Choice(self._known.gpus.value, self.units, packed=self.delivery.packed)
            claims, rivals, taken_units = look.waiting.claims, look.rivals(size), look.waiting.taken_units
            # Free units may be proposed where a grant is required, too: Allocate refuses a pod without one.
            unsure = bool(rivals) and not self._known.grant_required
            proposed = whole.preferred(
                offered, required, size, claims, best, taken_units=taken_units, unsure=unsure
            )
            found = frozenset(proposed)
            claim = next((claim for claim in claims if claim.units == found), None)
            if look.silent and claim is None:
                raise RefusedError(look.silent)
            self._check_granted(claim, look, size)
            return _Proposal(found, self._known.clock.monotonic_s(), look.pods)

        self._proposal = await self._answer(propose, size, None)
        return sorted(self._proposal.units)

    async def allocate(self, units: Sequence[str]) -> AllocateResponse:
        """As Allocator."""
        asked = frozenset(units)

        def give(look: _NodeView) -> tuple[AllocateResponse, AllocateAnswer]:
            _check_heard_of(look, len(asked))
            wanted = self._wanted(units, look.holders)
            claim = whole.claimant(asked, look.waiting.claims)
            rivals = look.rivals(len(asked))
            if claim is None and look.silent:
                raise RefusedError(look.silent)
            # It takes what it had, unless another pod may be the one that asks.
            if claim is not None and claim.returns:
                whole.check_alone(claim, len(asked), look.waiting.claims, [one.pod for one in rivals])
            elif claim is not None and rivals and not self._reused(asked, claim, look.holders):
                raise RefusedError(_unsure(claim.pod, rivals[0].pod))
            self._check_granted(claim, look, len(asked))
            possible = look.waiting.may_ask(len(asked))
            # Without a claim it is known only where one container alone can ask for so many.
            asker = _asker(claim, possible)
            whole.check_free(asked, look.waiting.taken_units, asker.pod_uid, asker.container)
            given = self.delivery.give(self._known.gpus.value, wanted)
            check_variables(given, look.askers(len(asked)), look.pods)
            if claim is not None:
                note_variables(given, (claim.pod, claim.container), look.pods)
            if claim is not None:
                self._given.add(asked)
            may_have = (asker,) if claim is not None and claim.returns else possible
            return given, AllocateAnswer(self.resource, tuple(sorted(asked)), may_have)

        proposal = self._proposal
        # The kubelet has just asked for a preference: that look at the pods is fresh enough.
        recent = proposal.units == asked and self._known.clock.monotonic_s() - proposal.at_s < PROPOSAL_S
        given, answer = await self._answer(give, len(asked), proposal.pods if recent else None)
        # Written down before the kubelet hears of it: a crash in between loses an answer, never a unit.
        await self._known.memory.answered(answer)
        self._known.gave()
        return given

    async def prepare(self, units: Sequence[str]) -> None:
        """As Allocator; nothing is left to do."""

    def _check_granted(self, claim: OpenClaim | None, look: _NodeView, size: int) -> None:
        if self._known.grant_required:
            check_granted(claim, look.rivals(size), look.pods)

    def _reused(self, asked: frozenset[str], claim: OpenClaim, holders: Holders) -> bool:
        """Whether the kubelet gives a container what an earlier one of its pod has already."""
        if any(asked & given for given in self._given):
            return True
        its = (held for held in holders if f"{held.namespace}/{held.pod}" == claim.pod)
        return any(held.resource == self.resource and not asked.isdisjoint(held.units) for held in its)

    async def _answer(
        self, decide: Callable[[_NodeView], Decision], size: int, pods: NodePods | None
    ) -> Decision:
        """What is decided; a refusal is decided anew on what the kubelet and the API server say then.

        It waits a little where a pod without a grant is in the way, or one that went a moment ago, and where
        the API server may not have heard yet that a container ended.
        """
        limit_s = self._known.clock.monotonic_s() + UNSURE_S
        # While some source was not read, what is remembered is not enough for an answer.
        fresh = not self._known.whole()
        while True:
            look = await self._look(size, pods, fresh=fresh)
            try:
                return decide(look)
            except RefusedError:
                may_change = look.rivals(size) or look.vanishing or look.unheard_of(size)
                waits = may_change and self._known.clock.monotonic_s() < limit_s
                # What is remembered may be out of date, so no refusal is final before both were asked.
                if look.fresh and not waits:
                    raise
            pods, fresh = None, True
            if waits:
                await self._known.clock.sleep(UNSURE_EVERY_S)

    async def _look(self, size: int, pods: NodePods | None, *, fresh: bool) -> _NodeView:
        """What is known now; ``pods`` are those to go by, None for the API server's own word."""
        known, silent, holders = self._known, "", self._known.holders.value
        if pods is None:
            try:
                pods = await known.ask_pods()
            except (WorldError, TimeoutError) as problem:
                LOG.warning("the node's pods are not known for certain", extra={"problem": str(problem)})
                pods, silent = known.pods.value, _SILENT
        look = self._seen(pods, holders, silent, fresh=False)
        if not look.rivals(size) and not look.vanishing and not fresh:
            return look
        try:
            holders = await known.ask_holders()
        except (WorldError, TimeoutError) as problem:
            LOG.warning("the holders of devices are not known for certain", extra={"problem": str(problem)})
            if not known.whole():
                raise RefusedError(
                    f"the holders of devices on this node are not known yet: {problem}"
                ) from problem
        return self._seen(pods, holders, silent, fresh=True)

    def _seen(self, pods: NodePods, holders: Holders, silent: str, *, fresh: bool) -> _NodeView:
        answers = self._known.memory.answers
        found = waiting(self.resource, self._known.gpus.value, self.units, pods, holders, answers)
        # A claim that is closed was taken up, so its answer is no longer under way.
        self._given &= {claim.units for claim in found.claims}
        claims = tuple(
            msgspec.structs.replace(claim, given=claim.units in self._given) for claim in found.claims
        )
        return _NodeView(pods, holders, msgspec.structs.replace(found, claims=claims), silent, fresh)

    def _usable(
        self, available: Sequence[str], required: Sequence[str], size: int, holders: Holders
    ) -> list[str]:
        """The units among the available ones that may be given together with ``size`` others."""
        gone = next((name for name in required if name not in self.units), None)
        if gone is not None:
            raise RefusedError(_gone(gone, self.resource))
        known = [self.units[name] for name in available if name in self.units]
        free = [unit for unit in known if unit.id in required or not self._in_use(unit, holders)]
        usable = [unit.id for unit in free if size == 1 or not unit.one_at_most]
        # Said by itself: units are free, and "none is free" would send a reader the wrong way.
        if len(usable) < size <= len(free):
            raise RefusedError(_one_at_most(self.resource, size))
        return usable

    def _wanted(self, asked: Sequence[str], holders: Holders) -> list[GpuUnit]:
        """The units that are asked for. Raises RefusedError where one of them cannot be given."""
        wanted = []
        for name in asked:
            unit = self.units.get(name)
            if unit is None or unit.resource != self.resource:
                raise RefusedError(_gone(name, self.resource))
            holder = self._in_use(unit, holders)
            if holder is not None:
                pod = f"{holder.namespace}/{holder.pod}"
                raise RefusedError(f"{unit.device} is still held by {pod} as {holder.resource}")
            if unit.one_at_most and len(asked) > 1:
                raise RefusedError(_one_at_most(self.resource, len(asked)))
            wanted.append(unit)
        return wanted

    def _in_use(self, unit: GpuUnit, holders: Holders) -> Held | None:
        """The holder of the same GPU or instance under another unit than this one, or than a replica beside
        it.
        """
        for held in holders:
            for name in held.units:
                device = device_of(name)
                # Replicas of one GPU may be held side by side; anything else that overlaps excludes.
                both_replicas = device != name and unit.replica is not None
                if name != unit.id and self._overlap(device, unit) and not both_replicas:
                    return held
        return None

    def _overlap(self, device: str, unit: GpuUnit) -> bool:
        """Whether a GPU or instance is that of a unit, or a part of it, or what it is a part of."""
        if device in {unit.device, unit.gpu}:
            return True
        gpu = self._known.gpus.value.gpu(unit.gpu)
        return not unit.instance and gpu is not None and gpu.instance(device) is not None


_SILENT = (
    "the API server does not answer, and without it the grants of these devices are unknown; "
    "the pod's controller will try again"
)


def _check_heard_of(look: _NodeView, size: int) -> None:
    """Raises RefusedError where a container may be asking that has ended without the API server's knowledge.

    It must get what it had, and whether it is the one that asks is known once the API server says so.
    """
    unheard_of = look.unheard_of(size)
    if unheard_of is not None:
        raise RefusedError(
            f"the kubelet lost what container {unheard_of.container} of {unheard_of.pod} has, and no pod of"
            f" this node is known to ask for {size} now; the container gets its own devices when the API"
            " server knows that it ended, and the kubelet will try again"
        )


def _asker(claim: OpenClaim | None, may_ask: tuple[ContainerRef, ...]) -> ContainerRef:
    """The container that asks, if known: that of the claim, or the only one that can ask for so many."""
    if claim is not None:
        return ContainerRef(claim.uid, claim.container, claim.pod)
    return may_ask[0] if len(may_ask) == 1 else ContainerRef("", "")


def _gone(unit: str, resource: str) -> str:
    return f"{unit} is not offered as {resource} any more"


def _one_at_most(resource: str, size: int) -> str:
    return (
        f"{size} of {resource} were asked for, but this node shares each GPU and gives a container one at "
        "most (failRequestsGreaterThanOne): more of them would be the same hardware"
    )


def _unsure(claimant: str, stranger: str) -> str:
    return (
        f"this device is granted to {claimant}, and {stranger}, which has no grant, asks for as many at the "
        "same time, and it cannot be told which of them it is; a pod without a grant gets only what is free"
    )
