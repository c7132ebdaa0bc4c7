"""Anything may happen in any order: a state machine over the engine, judged by an independent ledger."""

# ruff: noqa: D102 - a rule's name is its sentence, as a test's is.

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Learn, RequeueAfter
from gpufleet.engine.policy import POLICIES
from gpufleet.engine.scheduler import Engine
from gpufleet.model.defragmentation import DefragmentationRules
from gpufleet.model.device import Device, Serves
from gpufleet.model.identifiers import DeviceId, GangName, GpuModelName, NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import PreemptionPolicy, Queue, QueueState, Quota, VictimScope
from gpufleet.model.shape import Shape
from gpufleet.model.taint import Taint
from gpufleet.model.volumes import Attachment
from tests.engine.effort import EFFORT
from tests.engine.evictions_check import is_stand_in
from tests.engine.fleet_builder import SECOND_US, device, gang, node, pod, shape, topology
from tests.engine.ledger import Ledger
from tests.engine.machine_shapes import ALL_SHAPES, SHAPES
from tests.engine.overtime_ledger import OvertimeLedger
from tests.engine.queueing.queue_builder import queue, quota
from tests.engine.relation_builder import app

Seen = tuple[str, tuple[tuple[str, str], ...]]
NODES = ("n0", "n1", "n2", "n3")
GANGS = ("g0", "g1", "g2")
QUEUES = ("default", "strict", "late")
TREE = (*QUEUES, "root", "top")
LIMITED = (
    queue("root", quota("gpu", 3000), quota("cost", 9000)),
    queue("default", quota("gpu", 1000, borrow=1000), parent="root"),
    queue("late", quota("gpu/A100", 1000), parent="root"),
    queue("strict", parent="root"),
)
TAINT = Taint("gpu")
SOFT_TAINT = Taint("slow", effect="PreferNoSchedule")
SEEN = tuple((space, labels) for space in ("", "other") for labels in ((), *map(app, "ab")))
# Features, limits of volumes, and volumes that are attached.
DESCRIBED = (
    ((), (), ()),
    (("fast",), (("disk", 1),), ()),
    (("fast", "new"), (("disk", 2), ("net", 0)), ()),
    ((), (("disk", 3),), (Attachment("disk", "v1"), Attachment("disk", "v9"))),
)

nodes = st.builds(
    lambda name, gpus, model, cpu, labels, taints, cordoned, serves, memory, other, described: node(
        name,
        gpus,
        model=model,
        cpu_milli=cpu,
        pods=8,
        labels=labels | {"host": name},
        features=described[0],
        volume_limits=described[1],
        attached=described[2],
        taints=taints,
        cordoned=cordoned,
        serves=serves,
        gpu_memory_mib=memory,
        link_group_size=2,
        other=other,
    ),
    st.sampled_from(NODES),
    st.sampled_from((0, 1, 2, 4, 4)),
    st.sampled_from(("A100", "A100", "T4")),
    st.sampled_from((2000, 8000, 16_000)),
    st.sampled_from(
        (
            {},
            {"block": "x", "rack": "a", "zone": "x"},
            {"block": "x", "rack": "b", "zone": "y"},
            {"rack": "a", "zone": "x"},
            {"rack": "b", "zone": "z", "karpenter.sh/capacity-type": "spot"},
        )
    ),
    st.sampled_from((*[()] * 7, (TAINT,), (SOFT_TAINT,))),
    st.sampled_from((*[False] * 7, True)),
    st.sampled_from((Serves.ANY, Serves.ANY, Serves.WHOLE, Serves.SHARE)),
    st.sampled_from((40_000, 40_000, None)),
    st.sampled_from(((), (("example.com/nic", 1),))),
    st.sampled_from(DESCRIBED),
)
# By number: what Hypothesis would print of the shapes themselves is too long for it.
shapes = st.integers(0, len(ALL_SHAPES) - 1).map(ALL_SHAPES.__getitem__)
seen = st.sampled_from(SEEN)
SAYS = st.sampled_from(({}, {}, {"interruptible": True}, {"preemptible": False}))
"""What a pod, or its class, may say of its end."""
RESOURCES = ("gpu", "gpu", "gpu/A100", "gpu/T4", "gpu-memory", "cost", "cpu")
LIMITS = st.none() | st.sampled_from((0, 700, 2000, 40_000))
quotas = st.builds(
    lambda resource, nominal, borrow, lend, hard: quota(
        resource, nominal, borrow=borrow, lend=None if lend is None else min(lend, nominal), hard=hard
    ),
    st.sampled_from(RESOURCES),
    st.sampled_from((0, 1000, 2000, 3500, 80_000)),
    LIMITS,
    LIMITS,
    LIMITS,
)


class EngineMachine(RuleBasedStateMachine):
    """Events at random; ``Ledger`` checks every step."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = POLICIES["best-fit"]
        self.engine = Engine(self.policy, seed=1)
        self.ledger = Ledger(self.engine)
        self.overtime = OvertimeLedger()
        self.at_us = 0
        self.steps: list[tuple[int, tuple[event.Event, ...]]] = []
        self.said: list[list[AnyInstruction]] = []
        self.pods_made = 0
        self.failed = False

    def happen(self, *events: event.Event) -> None:
        """One step, judged."""
        self.steps.append((self.at_us, events))
        self.failed = True
        for happened in events:
            self.overtime.hear(happened, self.at_us)
        self.said.append(self.ledger.step(self.at_us, *events))
        self.overtime.check(self.ledger, self.said[-1])
        self.failed = False

    @initialize(
        policy=st.sampled_from(sorted(POLICIES)),
        strict=st.booleans(),
        described=st.sampled_from(((), (queue("strict"),), LIMITED)),
    )
    def begin(self, policy: str, strict: bool, described: tuple[Queue, ...]) -> None:
        self.policy = POLICIES[policy]
        self.engine = Engine(self.policy, seed=1)
        self.ledger = Ledger(self.engine)
        target = event.TargetWorkloadSet(tuple((one, 1) for one in SHAPES))
        self.happen(
            target,
            *(
                event.QueueSet(msgspec.structs.replace(one, strict=strict and one.name == "strict"))
                for one in described
            ),
            event.TopologySet(topology("block", "rack")),
            event.GangSet(gang("g0", 2)),
            event.GangSet(gang("g1", 3, level="rack")),
            *(
                event.NodeSet(node(name, 4, cpu_milli=16_000, pods=8, labels={"block": "x"} | labels))
                for name, labels in (
                    ("n0", {"rack": "a", "zone": "x", "host": "n0"}),
                    ("n1", {"rack": "b", "zone": "y", "host": "n1"}),
                )
            ),
        )

    @rule()
    def policy_learns(self) -> None:
        if self.policy.learns:
            self.happen(self.engine.study())

    def new_pod(
        self, needs: Shape, queue: str, priority: int, gang_name: str | None, seen: Seen, role: str = ""
    ) -> Pod:
        """A pod nobody has seen."""
        self.pods_made += 1
        return pod(
            f"p{self.pods_made}",
            needs,
            queue=queue,
            priority=priority,
            gang=gang_name,
            namespace=seen[0],
            labels=seen[1],
            role=role,
        )

    def known(self, index: int) -> PodUid:
        """Some pod that is there, or nobody."""
        uids = [uid for uid in self.ledger.pods if not is_stand_in(uid)]
        return uids[index % len(uids)] if uids else PodUid("nobody")

    def running(self, index: int) -> PodUid:
        """Some pod that has a place, or nobody."""
        uids = list(self.ledger.place)
        return uids[index % len(uids)] if uids else PodUid("nobody")

    @rule(one=nodes)
    def node_set(self, one: Node) -> None:
        self.happen(event.NodeSet(one))

    @rule(
        start_after_s=st.sampled_from((0, 0, 60, None)),
        every_s=st.sampled_from((None, 60)),
        moves_a_day=st.sampled_from((1, 100)),
        queues=st.sampled_from(((), (QueueName("late"),))),
    )
    def pods_are_moved_by_rules(
        self, start_after_s: int | None, every_s: int | None, moves_a_day: int, queues: tuple[QueueName, ...]
    ) -> None:
        start_us = None if start_after_s is None else start_after_s * SECOND_US
        every_us = None if every_s is None else every_s * SECOND_US
        rules = DefragmentationRules(start_us, every_us, None, 10, moves_a_day, None, queues)
        self.happen(event.DefragmentationSet(rules))

    @rule(index=st.integers(0, 400))
    def a_controller_makes_a_moved_pod_anew(self, index: int) -> None:
        state = self.engine.state
        rows = list(state.replacements)
        if rows:
            like = state.pods.pod_at(rows[index % len(rows)])
            self.pods_made += 1
            anew = msgspec.structs.replace(like, uid=PodUid(f"p{self.pods_made}"))
            self.happen(event.PodAdded(anew))

    @rule(name=st.sampled_from(NODES))
    def node_removed(self, name: str) -> None:
        self.happen(event.NodeRemoved(NodeName(name)))

    @rule(
        name=st.sampled_from(NODES),
        index=st.integers(0, 4),
        healthy=st.booleans(),
        model=st.sampled_from(("A100", "T4")),
    )
    def device_set(self, name: str, index: int, healthy: bool, model: str) -> None:
        self.happen(event.DeviceSet(NodeName(name), device(f"{name}/{index}", healthy=healthy, model=model)))

    @rule(owner=st.sampled_from(NODES), other=st.sampled_from(NODES), milli=st.sampled_from((-1, 1001)))
    def bad_events_come(self, owner: str, other: str, milli: int) -> None:
        stolen = Device(DeviceId(f"{owner}/0"))
        self.happen(
            event.NodeSet(node(other, devices=(stolen, stolen) if owner == other else (stolen,))),
            event.PodAdded(pod("bad", shape(1, milli=milli))),
            event.GangSet(gang("g0", 0)),
            event.QueueSet(queue(owner, quota("gpu", 1, lend=2))),
            event.QueueSet(queue("strict", quota("gpu", milli - 1001))),
        )

    @rule(
        needs=shapes,
        count=st.integers(1, 6),
        queue=st.sampled_from(QUEUES),
        priority=st.integers(0, 2),
        seen=st.lists(seen, min_size=6, max_size=6),
        run_time_us=st.sampled_from((None, None, SECOND_US, 30 * SECOND_US, 120 * SECOND_US)),
        says=SAYS,
    )
    def pods_arrive(
        self,
        needs: Shape,
        count: int,
        queue: str,
        priority: int,
        seen: list[Seen],
        run_time_us: int | None,
        says: dict[str, bool],
    ) -> None:
        pods = [self.new_pod(needs, queue, priority, None, seen[number]) for number in range(count)]
        said = [msgspec.structs.replace(one, run_time_us=run_time_us, **says) for one in pods]
        self.happen(*(event.PodAdded(one) for one in said))

    @rule(
        needs=st.lists(
            st.tuples(shapes, seen, st.sampled_from(("", "lead", "work")), SAYS), min_size=1, max_size=4
        ),
        name=st.sampled_from(GANGS),
    )
    def members_arrive(self, needs: list[tuple[Shape, Seen, str, dict[str, bool]]], name: str) -> None:
        self.happen(
            *(
                event.PodAdded(
                    msgspec.structs.replace(self.new_pod(one, "default", 0, name, seen, role), **says)
                )
                for one, seen, role, says in needs
            )
        )

    @rule(indexes=st.lists(st.integers(0, 400), min_size=1, max_size=4))
    def pods_end(self, indexes: list[int]) -> None:
        self.happen(*(event.PodRemoved(self.known(index)) for index in indexes))

    @rule(indexes=st.lists(st.integers(0, 400), min_size=1, max_size=4))
    def running_pods_end(self, indexes: list[int]) -> None:
        self.happen(*(event.PodRemoved(self.running(index)) for index in indexes))

    @rule(index=st.integers(0, 400))
    def pod_arrives_again(self, index: int) -> None:
        known = self.ledger.pods.get(self.known(index))
        if known is not None:
            self.happen(event.PodAdded(known))

    @rule(
        index=st.integers(0, 400),
        needs=st.none() | shapes,
        seen=seen,
        name=st.sampled_from((None, None, *GANGS)),
        priority=st.integers(0, 2),
        leaving=st.booleans(),
    )
    def pod_is_described_anew(
        self, index: int, needs: Shape | None, seen: Seen, name: str | None, priority: int, leaving: bool
    ) -> None:
        known = self.ledger.pods.get(self.known(index))
        if known is not None:
            content = needs or known.shape
            if known.uid in self.ledger.place:
                content = msgspec.structs.replace(
                    content, gpu=known.shape.gpu
                )  # a running pod keeps its GPUs
            self.happen(
                event.PodAdded(
                    msgspec.structs.replace(
                        known,
                        shape=content,
                        namespace=seen[0],
                        labels=seen[1],
                        gang=known.gang if index % 2 or name is None else GangName(name),
                        priority=priority,
                        leaving=leaving and known.uid in self.ledger.place,
                    )
                )
            )

    @rule(
        name=st.sampled_from(("", "other")),
        labels=st.sampled_from(({}, {"team": "x"}, {"team": "y"})),
    )
    def namespace_set(self, name: str, labels: dict[str, str]) -> None:
        self.happen(event.NamespaceSet(name, labels) if labels else event.NamespaceRemoved(name))

    @rule(index=st.integers(0, 400))
    def bind_confirmed(self, index: int) -> None:
        uid = self.running(index)
        if uid in self.ledger.place:
            name, devices = self.ledger.place[uid]
            self.happen(event.PodBound(self.ledger.pods[uid], name, devices if index % 2 else ()))

    @rule(
        index=st.integers(0, 400),
        name=st.sampled_from(NODES),
        held=st.lists(st.sampled_from((None, 0, 1, 2, 3)), max_size=2, unique=True),
        needs=shapes,
        seen=seen,
    )
    def pod_turns_out_to_run(
        self, index: int, name: str, held: list[int | None], needs: Shape, seen: Seen
    ) -> None:
        known = self.ledger.pods.get(self.known(index)) if index % 2 else None
        one = known or self.new_pod(needs, "default", 0, None, seen)
        devices = tuple(None if number is None else DeviceId(f"{name}/{number}") for number in held)
        self.happen(event.PodBound(one, NodeName(name), devices[: one.shape.gpu.count]))

    @rule(indexes=st.lists(st.integers(0, 400), min_size=1, max_size=3))
    def binds_refused(self, indexes: list[int]) -> None:
        self.happen(*(event.BindRefused(self.running(index)) for index in indexes))

    @rule(
        name=st.sampled_from(GANGS),
        least=st.integers(0, 4),
        level=st.sampled_from((None, None, "block", "rack", "room")),
        priority=st.integers(0, 2),
        queue=st.sampled_from(QUEUES),
        roles=st.sampled_from(((), (), (), (("lead", 1),), (("lead", 1), ("work", 2)))),
    )
    def gang_set(
        self,
        name: str,
        least: int,
        level: str | None,
        priority: int,
        queue: str,
        roles: tuple[tuple[str, int], ...],
    ) -> None:
        one = gang(name, least, level=level, priority=priority, queue=queue, roles=roles)
        self.happen(event.GangSet(one))

    @rule(name=st.sampled_from(GANGS))
    def gang_removed(self, name: str) -> None:
        self.happen(event.GangRemoved(GangName(name)))

    @rule(
        name=st.sampled_from(QUEUES),
        priority=st.integers(0, 1),
        strict=st.booleans(),
        scope=st.sampled_from(VictimScope),
        after_s=st.sampled_from((0, 0, 60)),
        reserve_after_s=st.sampled_from((0, 0, 2)),
    )
    def queue_set(
        self, name: str, priority: int, strict: bool, scope: VictimScope, after_s: int, reserve_after_s: int
    ) -> None:
        policy = PreemptionPolicy(within_queue=scope, preempt_after_us=after_s * SECOND_US)
        one = queue(name, strict=strict, priority=priority, reserve_after_s=reserve_after_s)
        self.happen(event.QueueSet(msgspec.structs.replace(one, preemption=policy)))

    @rule(indexes=st.lists(st.integers(0, 400), min_size=1, max_size=4), seconds=st.integers(1, 60))
    def evictions_refused(self, indexes: list[int], seconds: int) -> None:
        evicted = list(self.engine.state.departures.evicted) or [PodUid("nobody")]
        until_us = self.at_us + seconds * SECOND_US
        self.happen(*(event.EvictionRefused(evicted[index % len(evicted)], until_us) for index in indexes))

    @rule(indexes=st.lists(st.integers(0, 400), min_size=1, max_size=4))
    def running_pods_are_told_to_end(self, indexes: list[int]) -> None:
        uids = dict.fromkeys(self.running(index) for index in indexes)
        known = [self.ledger.pods[uid] for uid in uids if uid in self.ledger.pods]
        self.happen(*(event.PodAdded(msgspec.structs.replace(one, leaving=True)) for one in known))

    @rule(indexes=st.lists(st.integers(0, 400), min_size=1, max_size=4))
    def departing_pods_end(self, indexes: list[int]) -> None:
        departing = self.engine.state.departures.departing() or [PodUid("nobody")]
        self.happen(*(event.PodRemoved(departing[index % len(departing)]) for index in indexes))

    @rule(
        name=st.sampled_from(TREE),
        parent=st.sampled_from((None, "root", "root", "top", "nobody")),
        stated=st.lists(quotas, max_size=2, unique_by=lambda one: one.resource),
        state=st.sampled_from((*[QueueState.OPEN] * 7, *QueueState)),
        strict=st.sampled_from((False, False, True)),
        reserve_after_s=st.sampled_from((0, 300)),
    )
    def queue_is_limited(
        self,
        name: str,
        parent: str | None,
        stated: list[Quota],
        state: QueueState,
        strict: bool,
        reserve_after_s: int,
    ) -> None:
        one = queue(name, *stated, parent=parent, state=state, strict=strict, reserve_after_s=reserve_after_s)
        self.happen(event.QueueSet(one))

    @rule(name=st.sampled_from(TREE), limit_s=st.sampled_from((None, 1, 30, 60)))
    def queue_limits_run_times(self, name: str, limit_s: int | None) -> None:
        limit_us = None if limit_s is None else limit_s * SECOND_US
        known = self.ledger.quota.queues.get(QueueName(name)) or queue(name)
        self.happen(event.QueueSet(msgspec.structs.replace(known, run_time_max_us=limit_us)))

    @rule(indexes=st.lists(st.integers(0, 400), min_size=1, max_size=3), limit_s=st.sampled_from((1, 2, 60)))
    def pods_limit_themselves(self, indexes: list[int], limit_s: int) -> None:
        known = [
            self.ledger.pods[uid]
            for uid in dict.fromkeys(map(self.known, indexes))
            if uid in self.ledger.pods
        ]
        limited = [msgspec.structs.replace(one, run_time_max_us=limit_s * SECOND_US) for one in known]
        self.happen(*(event.PodAdded(one) for one in limited))

    @rule(price_milli=st.sampled_from((500, 2000, 2500)))
    def prices_set(self, price_milli: int) -> None:
        self.happen(event.PricesSet(((GpuModelName("A100"), price_milli),)))

    @rule(name=st.sampled_from(TREE))
    def queue_removed(self, name: str) -> None:
        self.happen(event.QueueRemoved(QueueName(name)))

    @rule(levels=st.sampled_from(((), ("rack",), ("block", "rack"))))
    def topology_set(self, levels: tuple[str, ...]) -> None:
        self.happen(event.TopologySet(topology(*levels)))

    @rule(seconds=st.sampled_from((0.5, 1, 2, 61)))
    def time_passes(self, seconds: float) -> None:
        self.at_us += int(seconds * SECOND_US)
        self.happen()

    @precondition(lambda machine: machine.steps)
    @rule()
    def nothing_happens_and_nothing_is_said_twice(self) -> None:
        self.happen()
        assert all(isinstance(one, RequeueAfter | Learn) for one in self.said[-1])

    def teardown(self) -> None:
        if self.failed:
            return
        again = Engine(self.policy, seed=1)
        said = [again.step(at_us, events) for at_us, events in self.steps]
        assert msgspec.json.encode(said) == msgspec.json.encode(self.said)


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(max_examples=75 * EFFORT, stateful_step_count=50)
