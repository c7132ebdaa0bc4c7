"""The operator at work: it leads, follows policies and nodes, and makes nodes what policies say.

Level-driven: each round looks at everything that is there, plans, writes what differs, and tells the status.
What a round has written is seen by the next one through the watch. No state is in memory alone: which nodes
were written and are not seen yet is kept only so that they are not written twice.
"""

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Mapping

import msgspec

from gpufleet.drain.planning_question import Planner
from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.codec.policy_status import status_patch
from gpufleet.kube.definition_skew import missing_fields, words
from gpufleet.kube.kube_errors import KubeError
from gpufleet.kube.lease import LeadershipLost, Lease
from gpufleet.kube.mirror import Mirror
from gpufleet.kube.mirror_changes import Appeared, Change, Changed, Vanished
from gpufleet.kube.objects import fleet_policies as wire
from gpufleet.kube.objects.resource_claims import ResourceClaimObject
from gpufleet.kube.resources import (
    FLEET_POLICIES,
    FLEET_QUEUES,
    GPU_PROJECTS,
    NODE_DEVICES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    Kind,
)
from gpufleet.kube.status import Conflict, NotFound
from gpufleet.mig.periods import PERIODS_ANNOTATION
from gpufleet.model.identifiers import NodeName
from gpufleet.operator.applying import apply_state, labels_differ, taints_differ
from gpufleet.operator.figures import OperatorFigures, figures_of
from gpufleet.operator.fleet_state import FleetState, fleet_state
from gpufleet.operator.mig_periods import MigPeriods
from gpufleet.operator.node_facts import NodeFacts, node_facts
from gpufleet.operator.node_objects import DriverReport, PolicyNode
from gpufleet.operator.parking.hub_sessions import SessionSource
from gpufleet.operator.parking.parking_controller import ParkingController
from gpufleet.operator.plan import WrittenState
from gpufleet.operator.projects.project_controller import ProjectController
from gpufleet.operator.rollout_objects import HeldPod
from gpufleet.operator.rollout_planning import Planning
from gpufleet.operator.rollouts import Rollouts
from gpufleet.operator.services.services_controller import ServicesController
from gpufleet.operator.statuses import node_phases, status_of_policy, status_of_unreadable
from gpufleet.usage.prometheus.client import Source

LOG = logging.getLogger(__name__)
LEASE_NAME = "gpufleet-operator"
WRITES_AT_ONCE = 8
"""Writes of nodes side by side: a fleet is written in seconds, and the API server is not filled."""

GATHER_S = 0.2
"""How long changes are gathered before a round: an edit of labels on many nodes is one round."""

STATUS_GATHER_S = 1.0
"""The least time between two statuses of one policy, whose list of nodes may be long."""

RETRY_S = 5.0
"""After a round with a write that failed, and for a write that the watch has not shown."""

DEFINITIONS_EVERY_S = 5.0
"""A definition that was upgraded is served in the OpenAPI documents within some seconds."""

_POLICY = msgspec.json.Decoder(wire.FleetPolicy)
_NODE = msgspec.json.Decoder(PolicyNode)
_REPORT = msgspec.json.Decoder(DriverReport)
_CLAIM = msgspec.json.Decoder(ResourceClaimObject)
_POD = msgspec.json.Decoder(HeldPod)
UNREADABLE = "the object has fields of another version of gpufleet"


class Operator:
    """One process. ``run`` leads when it can, and returns never.

    With a source of measurements it parks idle work too, with ``keeps_projects`` it keeps projects, and with
    ``serves`` it says of replicas with GPUs which one ends first and why others have no place. The planner
    plans drains; without one work is evicted node by node.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        identity: str,
        measurements: Source | None = None,
        hub: SessionSource | None = None,
        *,
        keeps_projects: bool = False,
        serves: bool = False,
        scheduler_name: str = keys.SCHEDULER_NAME,
        planner: Planner | None = None,
    ) -> None:
        self.client = client
        self._scheduler_name = scheduler_name
        self._planner = planner
        self._keeps_projects = keeps_projects
        self._serves = serves
        self._measurements = measurements
        self._hub = hub
        self.namespace = namespace
        self.lease = Lease(client, LEASE_NAME, namespace=namespace, identity=identity)
        self.leading: Following | None = None
        self.parking: ParkingController | None = None
        self.projects: ProjectController | None = None
        self.skew = ""
        """What the cluster's definitions lack; "" while nothing."""

    async def run(self) -> None:
        """Lead, and wait to lead again when the Lease is lost."""
        while True:
            await self._definitions_known()
            epoch = await self.lease.acquire()
            LOG.info("leading", extra={"epoch": epoch})
            try:
                await self._lead()
            except* LeadershipLost as lost:
                LOG.warning("leadership is lost", extra={"problem": str(lost.exceptions[0])})
            finally:
                self.leading = self.parking = self.projects = None
                # Also after a failure, so that the next leader need not wait until the Lease has run out.
                with contextlib.suppress(KubeError):
                    await self.lease.release()

    async def _definitions_known(self) -> None:
        """Wait until the cluster's definitions know every field: a dropped one would read as not named."""
        while True:
            self.skew = await self._definitions_problem()
            if not self.skew:
                return
            LOG.warning("the operator does not begin", extra={"problem": self.skew})
            await self.client.clock.sleep(DEFINITIONS_EVERY_S)

    async def _definitions_problem(self) -> str:
        try:
            missing = await missing_fields(self.client, self._kinds())
            if self._keeps_projects:
                # Projects write queues where the cluster has them.
                missing += await missing_fields(self.client, (FLEET_QUEUES,), served_only=True)
        except KubeError as error:
            return f"the cluster's definitions are not known yet: {error}"
        return words(missing) if missing else ""

    def _kinds(self) -> tuple[Kind, ...]:
        """The kinds of ours that this process reads and writes."""
        projects = (GPU_PROJECTS,) if self._keeps_projects else ()
        return FLEET_POLICIES, NODE_DEVICES, *projects

    async def _lead(self) -> None:
        following = Following(self.client, self.lease, self.namespace, self._scheduler_name, self._planner)
        self.leading = following
        async with asyncio.TaskGroup() as group:
            group.create_task(self.lease.keep())
            group.create_task(following.run())
            if self._measurements is not None:
                self.parking = ParkingController(self.client, self._measurements, self.lease.holds, self._hub)
                group.create_task(self.parking.run())
            if self._keeps_projects:
                self.projects = ProjectController(self.client, self.lease.holds)
                group.create_task(self.projects.run())
            if self._serves:
                services = ServicesController(self.client, self.lease.holds, self._scheduler_name)
                group.create_task(services.run())

    def figures(self) -> OperatorFigures | None:
        """What is known of policies, parking and projects; None where this process does not lead."""
        if self.leading is None or self.leading.figures is None:
            return None
        return msgspec.structs.replace(
            self.leading.figures,
            parking=None if self.parking is None else self.parking.figures,
            projects=None if self.projects is None else self.projects.counts(),
        )


class Following:
    """What a leader follows and does."""

    def __init__(
        self,
        client: Client,
        lease: Lease,
        namespace: str,
        scheduler_name: str = keys.SCHEDULER_NAME,
        planner: Planner | None = None,
    ) -> None:
        self._client = client
        self._lease = lease
        self._changed = asyncio.Event()
        self._written: dict[NodeName, tuple[str, WrittenState, float]] = {}
        self._told_at_s: dict[str, float] = {}
        self.policies = Mirror(client, FLEET_POLICIES, _POLICY, self._on_policy, optional=True)
        self.nodes = Mirror(client, NODES, _NODE, self._on_node)
        self.reports = Mirror(client, NODE_DEVICES, _REPORT, self._on_report, optional=True)
        # Followed from the first policy on that brings an image: all else needs no pods.
        self.pods = Mirror(client, PODS, _POD, self._on_pod)
        self.claims = Mirror(client, RESOURCE_CLAIMS, _CLAIM, self._on_claim, optional=True)
        self._planning = None if planner is None else Planning(planner, client.clock, self._changed.set)
        self.rollouts = Rollouts(client, namespace, lease.holds, scheduler_name, self._planning)
        self._mig_periods = MigPeriods(client, self.has_mig_periods, self.state, lease.holds)
        self._group: asyncio.TaskGroup | None = None
        self._follows_pods = False
        self._seen: Mapping[NodeName, str] = {}
        self._rolling: frozenset[str] = frozenset()
        self.figures: OperatorFigures | None = None
        self._blocked: Mapping[str, int] = {}
        self.rounds = 0

    @property
    def mirrors(self) -> tuple[Mirror[wire.FleetPolicy], Mirror[PolicyNode], Mirror[DriverReport]]:
        """All that is followed."""
        return self.policies, self.nodes, self.reports

    async def run(self) -> None:
        """Follow and write until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for mirror in self.mirrors:
                group.create_task(mirror.run())
            group.create_task(self.rollouts.evictions.run())
            if self._planning is not None:
                group.create_task(self._planning.run())
            # No round before all is listed: what is not known yet would look as if it were missing.
            for mirror in self.mirrors:
                await mirror.wait_listed()
            group.create_task(self._rounds())
            group.create_task(self._mig_periods.run())

    async def _rounds(self) -> None:
        pause_s: float | None = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._changed.wait()
            await self._client.clock.sleep(GATHER_S)
            # Before the round and not after it: what changes while it is under way makes another one.
            self._changed.clear()
            pause_s = await self.turn()

    async def turn(self) -> float | None:
        """One round; the seconds after which another is due, None where only a change can bring one."""
        await self._follow_pods_where_needed()
        state = self.state()
        whole = await self._write_nodes(state)
        due_s = await self._roll_out(state)
        told = await self._tell(state)
        self.figures = figures_of(state, self.policies.objects.values(), self._blocked)
        self.rounds += 1
        dues_s = [*([] if whole and told else [RETRY_S]), *([] if due_s is None else [due_s])]
        return min(dues_s, default=None)

    async def _follow_pods_where_needed(self) -> None:
        """Before anything is told: a status without what pods say would be written, and then undone."""
        if self._follows_pods or self._group is None:
            return
        state = self.state()
        brings = any(one.images.parts for one in state.policies.values())
        if brings or any(one.stamp is not None for one in state.nodes.values()):
            self._follows_pods = True
            for mirror in (self.pods, self.claims):
                self._group.create_task(mirror.run())
                await mirror.wait_listed()

    async def _roll_out(self, state: FleetState) -> float | None:
        """A round of all rollouts; the seconds after which another is due."""
        if not self._follows_pods:
            return None
        self._rolling = frozenset(name for name, one in state.nodes.items() if one.stamp is not None)
        found = await self.rollouts.turn(
            state,
            self.policies.objects.values(),
            self.pods.objects.values(),
            self.claims.objects.values(),
        )
        self._seen, self._blocked = found.words, found.blocked
        return found.again_s

    def state(self) -> FleetState:
        """Everything as it is known now."""
        reports = {name: one for (_, name), one in self.reports.objects.items()}
        facts = [node_facts(one, reports.get(name)) for (_, name), one in self.nodes.objects.items()]
        unreadable = [(name, UNREADABLE) for _, name in self.policies.unreadable]
        return fleet_state(self.policies.objects.values(), facts, unreadable)

    def has_mig_periods(self) -> bool:
        """Whether a policy has periods with MIG layouts, or a node the layout of one."""
        return any(one.spec.mig_periods for one in self.policies.objects.values()) or any(
            PERIODS_ANNOTATION in one.metadata.annotations for one in self.nodes.objects.values()
        )

    async def _write_nodes(self, state: FleetState) -> bool:
        """Whether every node is written, and what was written has been seen."""
        for name in [name for name in self._written if name not in state.nodes]:
            del self._written[name]
        gate = asyncio.Semaphore(WRITES_AT_ONCE)
        wanted = [
            (state.nodes[name], plan.written)
            for name, plan in state.plans.items()
            if plan.written is not None and _differs(state.nodes[name], plan.written)
        ]
        results = await asyncio.gather(*(self._write_node(gate, *one) for one in wanted))
        return all(results)

    async def _write_node(self, gate: asyncio.Semaphore, facts: NodeFacts, written: WrittenState) -> bool:
        now_s = self._client.clock.monotonic_s()
        asked = self._written.get(facts.name)
        seen = (facts.resource_version, written)
        if asked is not None and asked[:2] == seen and now_s - asked[2] < RETRY_S:
            # Written, and the watch has not shown it yet.
            return False
        async with gate:
            if not self._lease.holds():
                return False
            try:
                await apply_state(self._client, facts, written)
            except (Conflict, NotFound):
                # The node is another by now; the watch brings it.
                return False
            except KubeError as error:
                LOG.warning("a node is not written", extra={"node": facts.name, "problem": str(error)})
                return False
        self._written[facts.name] = (facts.resource_version, written, now_s)
        return True

    async def _tell(self, state: FleetState) -> bool:
        """Whether every status is as it should be."""
        whole = True
        # A copy, because the watch changes the mirror while a status is written.
        for policy in list(self.policies.objects.values()):
            name = policy.metadata.name
            before = wire.policy_status_of(policy)
            now = self._client.clock.now()
            status = _status(state, policy, before, now, self._seen)
            if status == before:
                continue
            now_s = self._client.clock.monotonic_s()
            too_soon = now_s - self._told_at_s.get(name, -STATUS_GATHER_S) < STATUS_GATHER_S
            if too_soon or not self._lease.holds():
                whole = False
                continue
            try:
                await self._client.patch(FLEET_POLICIES, name, status_patch(status), subresource="status")
            except NotFound:
                continue
            except KubeError as error:
                LOG.warning("a status is not written", extra={"policy": name, "problem": str(error)})
                whole = False
                continue
            self._told_at_s[name] = now_s
        return whole

    def _on_policy(self, _: Change[wire.FleetPolicy]) -> None:
        self._changed.set()

    def _on_node(self, _: Change[PolicyNode]) -> None:
        self._changed.set()

    def _on_pod(self, change: Change[HeldPod]) -> None:
        """Only pods of nodes in a rollout, and of ours, matter: fleets start pods all the time."""
        pod = _pod_of(change)
        # Of labels those of drivers, checks and validators alone are kept when a pod is read.
        if pod is not None and pod.spec.node_name not in self._rolling and not pod.metadata.labels:
            return
        self._changed.set()

    def _on_claim(self, _: Change[ResourceClaimObject]) -> None:
        # Who has a claim matters where work leaves; elsewhere claims come and go with every pod.
        if self._rolling:
            self._changed.set()

    def _on_report(self, _: Change[DriverReport]) -> None:
        self._changed.set()


def _pod_of(change: Change[HeldPod]) -> HeldPod | None:
    """The pod that a change is about; None where it is about several."""
    match change:
        case Appeared(pod) | Changed(_, pod) | Vanished(pod):
            return pod
        case _:
            return None


def _differs(facts: NodeFacts, written: WrittenState) -> bool:
    return labels_differ(facts, written) or taints_differ(facts, written)


def _status(
    state: FleetState,
    policy: wire.FleetPolicy,
    before: wire.FleetPolicyStatus,
    now: dt.datetime,
    seen: Mapping[NodeName, str],
) -> wire.FleetPolicyStatus:
    name, generation = policy.metadata.name, policy.metadata.generation
    if name in state.problems:
        return status_of_unreadable(before, generation, state.problems[name], now)
    phases = node_phases(state.policies[name], state.nodes, state.plans, seen)
    return status_of_policy(before, generation, phases, now)
