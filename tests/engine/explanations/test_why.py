"""The engine tells one cause for each case: with the refusal, when it is asked, and in an explanation.

Random stories fill small fleets with pods and gangs that ask for anything. After each arrival every pod that
waits is asked about. The refusals of that step come from the same state, so they must tell the same.
"""

import random
from collections import Counter

import pytest

from gpufleet.engine.event import QueueSet
from gpufleet.engine.explanations.causes import all_causes, cause_of, cause_of_gang
from gpufleet.engine.instruction import GangUnschedulable, Unschedulable
from gpufleet.engine.node_reasons.table import TABLE
from gpufleet.model.cuda_compatibility import ALL_DRIVER_FEATURES
from gpufleet.model.identifiers import GangName, NodeName, PodUid, QueueName, QuotaResource
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue, QueueState, Quota
from gpufleet.model.relations import NO_RELATIONS
from gpufleet.model.shape import Shape
from gpufleet.model.taint import Taint
from gpufleet.model.volumes import Attachment
from tests.engine.fleet_builder import Story, gang, node, pod, shape
from tests.engine.random_fleets import odd_node, odd_shape
from tests.engine.relation_builder import HOST, ZONE, app, in_zone, related, spread, term

NAMES = {one.name for one in all_causes()}
POOL = Taint("nvidia.com/gpu", "present", "NoSchedule")
NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
DRIVER = ALL_DRIVER_FEATURES[-1]
SEEDS = 40
ARRIVALS = 25


def any_node(chance: random.Random, name: str) -> Node:
    """A node with odd devices that may be tainted, not ready or cordoned."""
    plain = odd_node(chance, name)
    return node(
        name,
        devices=plain.devices,
        cpu_milli=plain.allocatable.cpu_milli,
        memory_bytes=plain.allocatable.memory_bytes,
        pods=plain.allocatable.pods,
        other=plain.allocatable.other,
        labels={HOST: name, ZONE: chance.choice("ab")},
        taints=chance.choice(((), (), (), (POOL,), (NOT_READY,), (POOL, NOT_READY))),
        cordoned=chance.random() < 0.1,
        features=chance.choice(((DRIVER, "A"), (DRIVER, "A"), (DRIVER,), ("A",))),
        volume_limits=(("disks", chance.choice((0, 1))),),
    )


def any_shape(chance: random.Random) -> Shape:
    """Anything that a pod may ask for."""
    plain = odd_shape(chance)
    relations = chance.choice(
        (
            NO_RELATIONS,
            NO_RELATIONS,
            NO_RELATIONS,
            related("web", anti_affinity=(term("web", key=HOST),)),
            related("web", affinity=(term("db", key=ZONE),)),
            related("db", anti_affinity=(term("web", key=ZONE),)),
            related("web", spread=(spread("web", key=ZONE),)),
            related("web", attachments=(Attachment("disks", chance.choice("xyz")),)),
            related("web", exclusive=("claim",)),
        )
    )
    return Shape(
        plain.resources,
        plain.gpu,
        node_selector=chance.choice(((), (), (), ((ZONE, "a"),), ((ZONE, "c"),))),
        volume_affinities=chance.choice(((), (), (), (in_zone("b"),))),
        features=chance.choice(((), (), (), ("A",), (DRIVER,))),
        relations=relations,
    )


class Fleet:
    """A story of a random fleet, and what was told of it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.story = Story(seed=seed)
        self.causes: Counter[str] = Counter()
        nodes = self.chance.choice((0, *[4] * 4, *[6] * 8))
        self.story.nodes(*(any_node(self.chance, f"n{rank}") for rank in range(nodes)))
        if self.chance.random() < 0.5:
            self._describe_queues()
        self.story.gangs(gang("g", 2), gang("h", 3, level=None), gang("one-zone", 2))

    def _describe_queues(self) -> None:
        gpus = Quota(QuotaResource("gpu"), self.chance.choice((0, 2000, 100_000, 100_000)))
        held = Queue(QueueName("held"), state=QueueState.HELD)
        self.story.happen(QueueSet(Queue(QueueName("team"), quotas=(gpus,))), QueueSet(held))

    def arrive(self, number: int) -> None:
        """One more pod arrives, and every one that waits is asked about."""
        chance = self.chance
        needs = any_shape(chance)
        labels = app("web") if needs.relations is NO_RELATIONS else needs.relations.labels
        of = chance.choice((*[None] * 12, "g", "h", "unknown"))
        queue = chance.choice(("team",) * 8 + ("held", "nowhere")) if of is None else "default"
        said = self.story.arrive(pod(f"p{number}", needs, queue=queue, gang=of, labels=labels))
        for one in said:
            if isinstance(one, Unschedulable):
                assert self.story.engine.cause(one.uid) == cause_of(one.verdict)
            elif isinstance(one, GangUnschedulable):
                member = next(uid for uid, pod in self.waiting().items() if pod.gang == one.gang)
                assert self.story.engine.cause(member) == cause_of_gang(one)
        for uid, waiting in self.waiting().items():
            self.check(uid, waiting)
        if chance.random() < 0.2 and self.story.binds:
            self.story.depart(chance.choice(list(self.story.binds)))

    def waiting(self) -> dict[PodUid, Pod]:
        """The pods without a place."""
        state = self.story.engine.state
        rows = {uid: row for uid, row in state.pods.row_by_uid.items() if state.pods.node_row(row) is None}
        return {uid: state.pods.pod_at(row) for uid, row in rows.items()}

    def check(self, uid: PodUid, waiting: Pod) -> None:
        """What the engine tells of one pod is all of one piece."""
        engine = self.story.engine
        found = engine.explanation(uid)
        assert found is not None
        assert found.cause in NAMES
        assert engine.cause(uid) == found.cause
        self.causes[found.cause] += 1
        gang_said = None if waiting.gang is None else engine.explain_gang(GangName(waiting.gang))
        if found.verdict is None:
            return
        if gang_said is not None:
            assert cause_of_gang(gang_said) == found.cause
        elif waiting.gang is None and found.cause != "backoff":
            assert cause_of(found.verdict) == found.cause
        counts = {one.reason: (one.first, one.all) for one in found.counts}
        verdict = found.verdict
        assert {name: all_ for name, (_, all_) in counts.items()} == verdict.all_reasons
        assert {name: first for name, (first, _) in counts.items() if first} == verdict.first_reasons
        lacking = () if verdict.lacking is None else verdict.lacking.reasons
        assert tuple(one.reason for one in found.findings) == lacking
        for one in found.findings:
            assert one.why
            assert all(one.way_out)
        assert all(one.reasons == lacking for one in found.nearest)
        if found.cause in TABLE.by_name:
            assert found.findings[0].reason == found.cause
            assert found.findings[0].way_out


@pytest.mark.parametrize("seed", range(SEEDS))
def test_refusal_cause_and_explanation_of_any_pod_of_any_fleet_agree(seed: int) -> None:
    fleet = Fleet(seed)
    for number in range(ARRIVALS):
        fleet.arrive(number)


def test_the_stories_are_of_many_causes() -> None:
    seen: Counter[str] = Counter()
    for seed in range(12):
        fleet = Fleet(seed)
        for number in range(ARRIVALS):
            fleet.arrive(number)
        seen += fleet.causes
    assert len(seen) >= 20


def test_the_nodes_that_come_nearest_say_what_they_lack_and_who_has_it() -> None:
    told = Story()
    told.nodes(node("a", 4), node("b", 4), node("cpu"))
    told.arrive(pod("large", shape(3, cpu_milli=1000)))
    told.arrive(pod("small", shape(2, cpu_milli=1000)))
    told.arrive(pod("p", shape(4)))
    found = told.engine.explanation(PodUid("p"))
    assert found is not None
    assert found.cause == "gpu-busy"
    lacking = {
        one.node: (one.short, [(held.uid, held.gpus) for held in one.holders]) for one in found.nearest
    }
    assert lacking == {
        NodeName("a"): ({"gpus": 3}, [("large", 3)]),
        NodeName("b"): ({"gpus": 2}, [("small", 2)]),
    }
    assert found.findings[0].why.startswith("of the 8 GPUs of the 2 nodes that would do 3 are free")


def test_pods_that_were_just_given_the_room_are_told() -> None:
    told = Story()
    told.nodes(node("a", 1))
    told.arrive(pod("urgent", shape(1), priority=9), pod("p", shape(1)))
    found = told.engine.explanation(PodUid("p"))
    assert found is not None
    assert (found.cause, found.ahead) == ("gpu-busy", (PodUid("urgent"),))
    about = told.engine.explanation(PodUid("urgent"))
    assert about is not None
    assert (about.cause, about.node) == ("about-to-run", NodeName("a"))


def test_a_resource_that_no_node_offers_is_not_told_as_one_that_is_short() -> None:
    told = Story()
    told.nodes(node("a"), node("b"))
    told.arrive(pod("p", shape(other=(("example.com/nic", 1),))))
    found = told.engine.explanation(PodUid("p"))
    assert found is not None
    assert found.cause == "unknown-resource"
    assert found.verdict is not None
    assert found.verdict.nearest is None
