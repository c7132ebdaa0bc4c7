"""Crowded nodes, priorities and facts from everywhere: a state machine, judged by the independent ledger.

Unlike the engine's own machine it knows few kinds of work, so that places are scarce and somebody is
evicted or waits for somebody to leave in most steps.
"""

# ruff: noqa: D102 - a rule's name is its sentence, as a test's is.

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from gpufleet.engine import event
from gpufleet.engine.policy import POLICIES
from gpufleet.engine.scheduler import Engine
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import DeviceId, GangName, NodeName, PodUid, QueueName
from gpufleet.model.labels import LabelSelector
from gpufleet.model.pod import Pod
from gpufleet.model.queue import PreemptionPolicy, Queue, VictimScope
from gpufleet.model.shape import Shape
from tests.engine.effort import EFFORT
from tests.engine.fleet_builder import SECOND_US, device, gang, node, pod, shape, share, topology
from tests.engine.ledger import Ledger
from tests.engine.relation_builder import app, asking, term

NODES = ("n0", "n1", "n2")
GANGS = ("g0", "g1", "g2")
QUEUES = ("default", "team")
SHAPES = (
    shape(1),
    shape(1),
    shape(2),
    share(500),
    share(300, memory_mib=20_000),
    shape(cpu_milli=3000),
    asking("a", gpus=1, anti_affinity=(term("a", key="host"),)),
)
index = st.integers(0, 400)


class PreemptionMachine(RuleBasedStateMachine):
    """Events at random; ``Ledger`` checks every step."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(POLICIES["best-fit"], seed=1)
        self.ledger = Ledger(self.engine)
        self.at_us = 0
        self.pods_made = 0

    def happen(self, *events: event.Event) -> None:
        """One step, judged."""
        self.ledger.step(self.at_us, *events)

    @initialize(strict=st.booleans(), scope=st.sampled_from(VictimScope))
    def begin(self, strict: bool, scope: VictimScope) -> None:
        policy = PreemptionPolicy(within_queue=scope)
        self.happen(
            event.TopologySet(topology("rack")),
            event.QueueSet(Queue(QueueName("default"))),
            event.QueueSet(Queue(QueueName("team"), strict=strict, preemption=policy)),
            *(event.NodeSet(node(name, 2, cpu_milli=6000, labels={"host": name})) for name in NODES),
        )

    def some(self, known: list[PodUid], number: int) -> PodUid:
        """One of these, or nobody."""
        return known[number % len(known)] if known else PodUid("nobody")

    @rule(
        needs=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3),
        queue=st.sampled_from(QUEUES),
        priority=st.integers(0, 4),
        preemptible=st.sampled_from((True, True, True, False)),
        confirmed=st.booleans(),
    )
    def pods_arrive(
        self, needs: list[Shape], queue: str, priority: int, preemptible: bool, confirmed: bool
    ) -> None:
        pods = [self.new_pod(one, queue, priority, preemptible=preemptible) for one in needs]
        self.happen(*map(event.PodAdded, pods))
        if confirmed:
            bound = [(one, *self.ledger.place[one.uid]) for one in pods if one.uid in self.ledger.place]
            self.happen(*(event.PodBound(*one) for one in bound))

    def new_pod(
        self, needs: Shape, queue: str, priority: int, *, gang: str | None = None, preemptible: bool = True
    ) -> Pod:
        """A pod nobody has seen."""
        self.pods_made += 1
        return pod(
            f"p{self.pods_made}",
            needs,
            queue=queue,
            priority=priority,
            gang=gang,
            created_at_us=self.at_us,
            labels=app("a"),
            preemptible=preemptible,
        )

    @rule(
        name=st.sampled_from(GANGS),
        least=st.integers(1, 3),
        more=st.integers(0, 2),
        priority=st.integers(0, 4),
        needs=st.sampled_from(SHAPES),
        level=st.sampled_from((None, None, "rack")),
    )
    def gang_arrives(
        self, name: str, least: int, more: int, priority: int, needs: Shape, level: str | None
    ) -> None:
        one = gang(name, least, priority=priority, queue="team", level=level)
        pods = [self.new_pod(needs, "team", priority, gang=name) for _ in range(least + more)]
        self.happen(event.GangSet(one), *map(event.PodAdded, pods))

    @rule(name=st.sampled_from(GANGS))
    def gang_removed(self, name: str) -> None:
        self.happen(event.GangRemoved(GangName(name)))

    @rule(numbers=st.lists(index, min_size=1, max_size=3))
    def departing_pods_end(self, numbers: list[int]) -> None:
        departing = self.engine.state.departures.departing()
        self.happen(*(event.PodRemoved(self.some(departing, number)) for number in numbers))

    @rule(numbers=st.lists(index, min_size=1, max_size=3))
    def running_pods_end(self, numbers: list[int]) -> None:
        self.happen(*(event.PodRemoved(self.some(list(self.ledger.place), number)) for number in numbers))

    @rule(number=index)
    def nominated_pod_is_deleted(self, number: int) -> None:
        self.happen(event.PodRemoved(self.some(list(self.ledger.nominated), number)))

    @rule(number=index, needs=st.sampled_from(SHAPES), priority=st.integers(0, 4))
    def nominated_pod_is_described_anew(self, number: int, needs: Shape, priority: int) -> None:
        uid = self.some(list(self.ledger.nominated), number)
        if uid in self.ledger.pods:
            known = self.ledger.pods[uid]
            self.happen(event.PodAdded(msgspec.structs.replace(known, shape=needs, priority=priority)))

    @rule(numbers=st.lists(index, min_size=1, max_size=3), leaving=st.booleans())
    def running_pods_are_told_to_end_or_to_stay(self, numbers: list[int], leaving: bool) -> None:
        uids = dict.fromkeys(self.some(list(self.ledger.place), number) for number in numbers)
        known = [self.ledger.pods[uid] for uid in uids if uid in self.ledger.pods]
        self.happen(*(event.PodAdded(msgspec.structs.replace(one, leaving=leaving)) for one in known))

    @rule(numbers=st.lists(index, min_size=1, max_size=2), seconds=st.integers(1, 60))
    def evictions_refused(self, numbers: list[int], seconds: int) -> None:
        evicted = list(self.engine.state.departures.evicted)
        until_us = self.at_us + seconds * SECOND_US
        self.happen(*(event.EvictionRefused(self.some(evicted, number), until_us) for number in numbers))

    @rule(number=index)
    def bind_refused(self, number: int) -> None:
        self.happen(event.BindRefused(self.some(list(self.ledger.place), number)))

    @rule(name=st.sampled_from(NODES), gpus=st.integers(1, 3), cordoned=st.booleans())
    def node_changes(self, name: str, gpus: int, cordoned: bool) -> None:
        labels = {"host": name, "rack": "a"}
        one = node(name, gpus, cpu_milli=6000, labels=labels, cordoned=cordoned)
        self.happen(event.NodeSet(one))

    @rule(name=st.sampled_from(NODES))
    def node_vanishes(self, name: str) -> None:
        self.happen(event.NodeRemoved(NodeName(name)))

    @rule(name=st.sampled_from(NODES), healthy=st.booleans())
    def device_changes(self, name: str, healthy: bool) -> None:
        self.happen(event.DeviceSet(NodeName(name), device(f"{name}/0", healthy=healthy)))

    @rule(name=st.sampled_from(NODES), number=index, whose=st.sampled_from(("new", "nominated", "running")))
    def pod_turns_out_to_run(self, name: str, number: int, whose: str) -> None:
        known = {"new": [], "nominated": list(self.ledger.nominated), "running": list(self.ledger.place)}
        uid = self.some(known[whose], number)
        one = self.ledger.pods.get(uid) or self.new_pod(shape(1), "team", 0)
        devices = (DeviceId(f"{name}/{number % 2}"),) if one.shape.gpu.count == 1 else ()
        self.happen(event.PodBound(one, NodeName(name), devices))

    @rule(allowed=st.integers(0, 3))
    def budget_set(self, allowed: int) -> None:
        self.happen(event.DisruptionBudgetSet(DisruptionBudget("b", "", LabelSelector(), allowed)))

    @rule()
    def budget_removed(self) -> None:
        self.happen(event.DisruptionBudgetRemoved("", "b"))

    @rule(seconds=st.sampled_from((1, 10, 61)))
    def time_passes(self, seconds: int) -> None:
        self.at_us += seconds * SECOND_US
        self.happen()


TestPreemptionMachine = PreemptionMachine.TestCase
TestPreemptionMachine.settings = settings(max_examples=60 * EFFORT, stateful_step_count=40)
