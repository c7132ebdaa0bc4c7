"""The rollouts of all policies: each round reads what is there, asks the step, and carries its actions out.

No state is in memory alone. What was written and is not seen yet is waited for, so that no round decides by
an old view; a process that ends loses nothing but that. ``service`` calls ``turn`` at each change and at the
moment that it names, ``rollout_actions`` writes.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from gpufleet.drain.planning_question import PlanningQuestion, Start
from gpufleet.eviction.evictions import Evictions
from gpufleet.eviction.plan import EvictionRefusal, Victim
from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.objects import fleet_policies as wire
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.model.fleet_policy import Driver, FleetPolicy
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.phrases import subject
from gpufleet.model.rollout_settings import RolloutSettings
from gpufleet.operator.fleet_state import FleetState
from gpufleet.operator.node_facts import NodeFacts
from gpufleet.operator.rollout.actions import Action, SetDriver, WriteNode, WriteProgress
from gpufleet.operator.rollout.node_step import given_up, node_step
from gpufleet.operator.rollout.observed import Drain, RolloutNode
from gpufleet.operator.rollout.rollout_step import RolloutInput, RolloutStep, rollout_step
from gpufleet.operator.rollout.stamp import DRAINING, UNDER_WAY, RolloutPhase
from gpufleet.operator.rollout.windows import US_PER_S
from gpufleet.operator.rollout_actions import RolloutActions, SeenNode
from gpufleet.operator.rollout_drains import (
    Drains,
    PlainDrains,
    PlannedDrains,
    RefusedEvictions,
    gpu_consumers,
    is_holder,
    pods_by_node,
    uids_of,
)
from gpufleet.operator.rollout_objects import HeldPod
from gpufleet.operator.rollout_observing import blocker_of, observed
from gpufleet.operator.rollout_planning import Planning
from gpufleet.operator.rollout_statuses import progress_of

LOG = logging.getLogger(__name__)
EVICTIONS_AT_ONCE = 8
"""As writes of nodes: the pods of a node end together, and the API server is not filled."""

UNSEEN_S = 5.0
"""A write that the watch has not shown for so long is taken for lost, and the object is looked at anew."""

CHECK_AGAIN_S = 5.0
"""As NVIDIA's validators look again for a GPU."""

AGAIN_S = 1.0
"""After a write that failed, or that is not seen yet."""

AWAY_S = 900
"""How long plans take a node to be away: as a driver that is built on its node takes."""


class RolloutRound(msgspec.Struct, frozen=True):
    """What came of a round: the seconds after which another is due, and what is seen of drivers of nodes.

    ``blocked`` is how many nodes of each policy keep its rollout from going on.
    """

    again_s: float | None
    words: Mapping[NodeName, str]
    blocked: Mapping[str, int] = {}


class Rollouts:
    """The rollouts of one leader."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        may_write: Callable[[], bool],
        scheduler_name: str = keys.SCHEDULER_NAME,
        planning: Planning | None = None,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._may_write = may_write
        self._planning = planning
        self._asking = Asking()
        self._refused = RefusedEvictions()
        self._pods: dict[PodUid, HeldPod] = {}
        self._unseen: dict[tuple[str, str], tuple[str, float]] = {}
        self.evictions = Evictions(
            client,
            self,
            epoch=None,
            at_once=EVICTIONS_AT_ONCE,
            may_write=may_write,
            ends=self._ends,
        )
        self._actions = RolloutActions(client, namespace, self.evictions, self._refused, scheduler_name)

    def eviction_granted(self, victim: Victim) -> None:
        """A pod was told to end."""
        self._refused.forget(victim)

    def refused(self, refusal: EvictionRefusal) -> None:
        """An eviction did not happen."""
        self._refused.note(refusal, self._client.clock.monotonic_s())

    def _ends(self, uid: PodUid) -> bool:
        pod = self._pods.get(uid)
        return pod is None or pod.is_ending

    async def turn(
        self,
        state: FleetState,
        objects: Iterable[wire.FleetPolicy],
        pods: Iterable[HeldPod],
        claims: Iterable[ResourceClaimObject] = (),
    ) -> RolloutRound:
        """One round over all policies."""
        by_node = pods_by_node(pods, self._namespace, frozenset(gpu_consumers(claims)))
        self._pods = {PodUid(one.metadata.uid): one for found in by_node.values() for one in found}
        self._refused.keep(self._pods)
        self._actions.keep(self._pods)
        self.evictions.after_round()
        seen = SeenNode(state.nodes, by_node)
        drains = self._drains(by_node)
        self._asking = Asking()
        words: dict[NodeName, str] = {}
        dues_s: list[float] = []
        for found in objects:
            policy = state.policies.get(found.metadata.name)
            if policy is not None and policy.images.parts:
                dues_s += await self._policy_turn(state, found, policy, seen, drains, words)
        dues_s += await self._without_policy(state, seen, drains)
        if self._planning is not None and self._asking.is_sure:
            due_s = self._planning.look(*self._asking.question(state, by_node))
            dues_s += [] if due_s is None else [due_s]
        return RolloutRound(min(dues_s, default=None), words, self._asking.blocked)

    def _drains(self, by_node: Mapping[NodeName, Sequence[HeldPod]]) -> Drains:
        plain = PlainDrains(by_node, self._refused, self._now_us())
        if self._planning is None:
            return plain
        return PlannedDrains(plain, self._planning.known, self._pods, self._planning.problem)

    def _now_us(self) -> int:
        return round(self._client.clock.now().timestamp() * US_PER_S)

    async def _policy_turn(
        self,
        state: FleetState,
        found: wire.FleetPolicy,
        policy: FleetPolicy,
        seen: SeenNode,
        drains: Drains,
        words: dict[NodeName, str],
    ) -> list[float]:
        """A round of one policy; the seconds after which the next one is due, if any."""
        target = policy.images.text()
        names = [name for name, plan in state.plans.items() if policy.name in plan.policies]
        nodes = tuple(
            observed(
                state.nodes[name],
                seen.pods.get(name, ()),
                drains.drain_of(name, state.nodes[name].stamp),
                self._namespace,
                wanted_image=target,
                blocker=blocker_of(state.nodes[name], state.plans[name], policy),
            )
            for name in names
        )
        words.update(_words(nodes))
        if self._waits_to_be_seen(state, found, names):
            # A question without the nodes of this policy would be another one, so none is asked in this
            # round.
            self._asking.is_sure = False
            return [AGAIN_S]
        now_us = self._now_us()
        step = rollout_step(
            RolloutInput(
                policy.name,
                target,
                policy.rollout or RolloutSettings(),
                nodes,
                now_us,
                progress_of(found),
                drains.order(policy.name, names),
                drains.problem,
            )
        )
        self._asking.policy(policy.name, step, policy.rollout or RolloutSettings())
        if self._planning is not None and _begins(step.actions):
            self._planning.began(policy.name)
        is_renewed = await self._renewed(policy)
        whole = True
        for action in step.actions:
            # No driver starts in the way of another version; what ends or waits goes on.
            starts = isinstance(action, SetDriver) and bool(action.image)
            whole = (is_renewed or not starts) and await self._carry_out(action, seen, policy.driver, found)
            # The order matters: what rests on an action that failed is not done.
            if not whole:
                break
        dues_s = [] if step.wake_at_us is None else [max(0.0, (step.wake_at_us - now_us) / US_PER_S)]
        return [*dues_s, *self._waiting_dues_s(nodes), *([] if whole and is_renewed else [AGAIN_S])]

    async def _renewed(self, policy: FleetPolicy) -> bool:
        """Whether the DaemonSets of a policy are as this version makes them."""
        try:
            # Without the right to write the actions that follow say so.
            if self._may_write():
                await self._actions.renew(policy.images, policy.driver)
        except (Conflict, NotFound):
            return False
        except KubeError as error:
            said = {"policy": policy.name, "problem": str(error)}
            LOG.warning("how a driver is started cannot be renewed", extra=said)
            return False
        return True

    async def _without_policy(self, state: FleetState, seen: SeenNode, drains: Drains) -> list[float]:
        """Nodes whose policy brings them no driver any more end what was begun, and begin nothing."""
        dues_s = []
        for facts in state.nodes.values():
            if facts.stamp is None or _is_led(state, facts):
                continue
            if self._is_unseen("nodes", facts.name, facts.resource_version):
                dues_s.append(AGAIN_S)
                continue
            drain = drains.drain_of(facts.name, facts.stamp)
            node = observed(facts, seen.pods.get(facts.name, ()), drain, self._namespace)
            now_us = self._now_us()
            for action in _ending(node, now_us):
                if not await self._carry_out(action, seen, None, None):
                    dues_s.append(AGAIN_S)
                    break
            if facts.stamp.phase in UNDER_WAY:
                dues_s.append(max(AGAIN_S, (facts.stamp.deadline_us - now_us) / US_PER_S))
        return dues_s

    async def _carry_out(
        self, action: Action, seen: SeenNode, driver: Driver | None, policy: wire.FleetPolicy | None
    ) -> bool:
        """Whether an action was carried out. Raises LeadershipLost."""
        try:
            if isinstance(action, WriteProgress):
                if policy is None or not self._may_write():
                    return False
                metadata = policy.metadata
                await self._actions.write_progress(metadata, progress_of(policy), action.progress)
                self._wrote("policies", metadata.name, metadata.resource_version)
                return True
            await self._actions.carry_out(action, seen, driver, self._may_write)
        except (Conflict, NotFound):
            # The object is another by now; the watch brings it.
            return False
        except KubeError as error:
            said = {"action": type(action).__name__, "problem": str(error)}
            LOG.warning("a step of a rollout is not carried out", extra=said)
            return False
        if isinstance(action, WriteNode | SetDriver):
            self._wrote("nodes", action.node, seen.nodes[action.node].resource_version)
        return True

    def _wrote(self, kind: str, name: str, version: str) -> None:
        self._unseen[kind, name] = (version, self._client.clock.monotonic_s())

    def _is_unseen(self, kind: str, name: str, version: str) -> bool:
        """Whether an object was written, and what is known of it is of before."""
        written = self._unseen.get((kind, name))
        if written is None:
            return False
        if written[0] == version and self._client.clock.monotonic_s() - written[1] < UNSEEN_S:
            return True
        del self._unseen[kind, name]
        return False

    def _waits_to_be_seen(
        self, state: FleetState, policy: wire.FleetPolicy, names: Sequence[NodeName]
    ) -> bool:
        metadata = policy.metadata
        # A list, so that each is asked: the question forgets the writes that the watch has shown.
        waits = [self._is_unseen("policies", metadata.name, metadata.resource_version)]
        waits += [self._is_unseen("nodes", name, state.nodes[name].resource_version) for name in names]
        return any(waits)

    def _waiting_dues_s(self, nodes: Sequence[RolloutNode]) -> Iterator[float]:
        """When evictions that were refused are asked for again, and check pods looked at."""
        now_s = self._client.clock.monotonic_s()
        for node in nodes:
            if node.stamp is not None and node.stamp.phase is RolloutPhase.VALIDATING:
                # A check pod that came before the GPU did is started anew.
                yield CHECK_AGAIN_S
            if node.stamp is not None and node.stamp.phase in DRAINING:
                yield from (
                    max(AGAIN_S, due_s - now_s)
                    for uid in node.drain.holders
                    if (due_s := self._refused.due_s(uid))
                )


class Asking:
    """What the policies of one round want to know of the drain, and how many of their nodes cannot begin."""

    def __init__(self) -> None:
        self._starts: dict[str, Start] = {}
        self._later: list[NodeName] = []
        self.is_sure = True
        self.blocked: dict[str, int] = {}

    def policy(self, name: str, step: RolloutStep, settings: RolloutSettings) -> None:
        """The rollout of a policy has come so far."""
        if step.able and step.places:
            self._starts[name] = Start(step.places, step.able, settings.drain_s)
        self._later += step.pending
        self.blocked[name] = len(step.blocked)

    def question(
        self, state: FleetState, pods: Mapping[NodeName, Sequence[HeldPod]]
    ) -> tuple[PlanningQuestion, frozenset[PodUid]]:
        """The question of a round, and the pods that hold GPUs of closed nodes."""
        closed = {
            name: facts.stamp.deadline_us
            for name, facts in sorted(state.nodes.items())
            if facts.stamp is not None and facts.stamp.phase in DRAINING
        }
        holders = {name: [one for one in pods.get(name, ()) if is_holder(one)] for name in closed}
        busy = {str(name): until_us for name, until_us in closed.items() if holders[name]}
        later = tuple(name for name in self._later if name not in closed)
        question = PlanningQuestion(busy, self._starts, later, AWAY_S)
        return question, frozenset(uid for found in holders.values() for uid in uids_of(found))


def _begins(actions: Iterable[Action]) -> bool:
    """Whether a node begins by these actions."""
    writes = [one for one in actions if isinstance(one, WriteNode) and one.stamp is not None]
    return any(one.stamp is not None and one.stamp.phase is RolloutPhase.CORDONED for one in writes)


def _words(nodes: Iterable[RolloutNode]) -> Iterator[tuple[NodeName, str]]:
    """What is to be told of nodes, beside what their stamps say."""
    for node in nodes:
        if node.stamp is None or node.stamp.phase not in UNDER_WAY:
            yield node.name, node.blocker
        elif node.stamp.phase is RolloutPhase.CHANGING:
            yield node.name, node.driver_words
        elif node.stamp.phase is RolloutPhase.VALIDATING:
            yield node.name, node.check_words
        else:
            yield node.name, _drain_words(node.drain)


def _drain_words(drain: Drain) -> str:
    left = len(drain.holders) + len(drain.ending)
    return f"{subject(left, 'pod', 'hold')} its GPUs" if left else ""


def _is_led(state: FleetState, facts: NodeFacts) -> bool:
    """Whether a policy brings the node what its stamp is about, or may, once it can be read."""
    assert facts.stamp is not None  # noqa: S101 - the caller asks only then
    name, plan = facts.stamp.policy, state.plans.get(facts.name)
    if name in state.problems:
        return True
    policy = state.policies.get(name)
    brings = policy is not None and bool(policy.images.parts)
    return brings and plan is not None and name in plan.policies


def _ending(node: RolloutNode, now_us: int) -> tuple[Action, ...]:
    """What is to be done for a node whose policy is gone."""
    assert node.stamp is not None  # noqa: S101 - the caller asks only then
    phase = node.stamp.phase
    if node.has_opted_out:
        return ()
    if phase in DRAINING:
        return given_up(node, node.stamp)
    if phase in {RolloutPhase.RETURNED, RolloutPhase.ROLLED_BACK} and not node.stamp.is_cordon_ours:
        return (WriteNode(node.name, None),)
    return node_step(node, RolloutSettings(), now_us).actions
