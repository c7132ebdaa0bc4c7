"""Pods that end so that devices of their resource claims go to work of a better right.

A claim keeps its devices after its pod has ended, until Kubernetes' controller of claims takes them back.
Kubernetes' own scheduler ends no pod for devices (KEP-5690), so the victims that are expected here follow
from priorities and quota by hand.
"""

import random
from itertools import combinations
from typing import NamedTuple

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.engine.event import QueueSet
from gpufleet.model.identifiers import NodeName, PodUid, QueueName, QuotaResource
from gpufleet.model.pod import Pod
from gpufleet.model.queue import PreemptionPolicy, Queue, Quota, VictimScope
from gpufleet.model.relations import Relations
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, evicted, gang, node, nominated, placed, pod, refused, shape
from tests.engine.no_trace import no_trace
from tests.engine.preempt.test_restart import facts
from tests.engine.test_device_claims import allocated, asked, claim, fleet, given

AboutPods = event.PodAdded | event.PodBound | event.PodRemoved
DEVICES = QuotaResource("any.deviceclass.resource.k8s.io/devices")
"""The key by which quota counts devices of the class "any"."""


def using(uid: str, *claims: str, priority: int = 0, in_gang: str | None = None, queue: str = "") -> Pod:
    """A pod with these claims."""
    paths = tuple(f"team/{name}" for name in claims)
    found = pod(uid, shape(relations=Relations(device_claims=paths)), gang=in_gang, priority=priority)
    return msgspec.structs.replace(found, queue=QueueName(queue)) if queue else found


def written(name: str, on: str, device: str, *users: str) -> event.ResourceClaimSet:
    """A claim that has a device, by the API server, and the pods that may use it."""
    return event.ResourceClaimSet(asked(name), allocated(on, device), tuple(map(PodUid, users)))


def running(told: Story, uid: str, name: str, on: str, device: str, *, priority: int = 0) -> None:
    """A pod runs with a device of a claim."""
    told.happen(written(name, on, device, uid))
    told.run_on(using(uid, name, priority=priority), on)


def test_a_pod_of_lower_priority_gives_up_its_device_which_goes_over_once_its_claim_is_free() -> None:
    told = fleet(a=("d0",))
    running(told, "low", "x", "a", "d0")
    told.happen(claim("y"), claim("z"))
    with no_trace():
        said = told.arrive(using("high", "y", priority=5))
    assert evicted(said) == {"low": "high"}
    assert nominated(said) == {"high": ("a", ("low",))}
    # The pod is gone, its claim has the device still: no other pod ends for it, and none gets the device.
    assert not evicted(told.depart("low"))
    said = told.arrive(using("late", "z", priority=3))
    assert (placed(said), refused(said)) == ([], ["late"])
    said = told.happen(event.ResourceClaimRemoved("team/x"))
    assert given(said) == {"high": ["a/d0"]}


def test_the_pod_that_holds_a_device_goes_and_not_one_of_lower_priority_that_holds_none() -> None:
    told = fleet(a=("d0",), b=("d0",))
    for number in range(40):
        told.run_on(pod(f"plain-{number}", priority=-10), "ab"[number % 2])
    running(told, "five", "x", "a", "d0", priority=5)
    running(told, "three", "w", "b", "d0", priority=3)
    told.happen(claim("y"))
    assert evicted(told.arrive(using("high", "y", priority=9))) == {"three": "high"}


def test_pods_that_share_a_claim_go_together_and_not_where_one_may_not_go() -> None:
    told = fleet(a=("d0",), b=("d0",))
    told.happen(written("shared", "a", "d0", "p", "q"), written("mixed", "b", "d0", "r", "s"))
    for uid, name, on, priority in (
        ("p", "shared", "a", 2),
        ("q", "shared", "a", 1),
        ("r", "mixed", "b", 0),
        ("s", "mixed", "b", 7),
    ):
        told.run_on(using(uid, name, priority=priority), on)
    told.happen(claim("y"))
    assert evicted(told.arrive(using("high", "y", priority=5))) == {"p": "high", "q": "high"}


def test_a_device_that_others_than_pods_may_use_is_freed_by_no_end_of_a_pod() -> None:
    told = fleet(a=("d0",))
    told.happen(event.ResourceClaimSet(asked("x"), allocated("a", "d0"), None))
    told.run_on(using("low", "x"), "a")
    told.happen(claim("y"))
    said = told.arrive(using("high", "y", priority=5))
    assert (evicted(said), refused(said)) == ({}, ["high"])


def test_a_claim_whose_pod_is_gone_is_waited_for_and_nothing_ends_for_its_device() -> None:
    told = fleet(a=("d0",), b=("d0",))
    running(told, "low", "x", "a", "d0")
    running(told, "lower", "w", "b", "d0", priority=-5)
    told.depart("low")
    told.happen(claim("y"))
    said = told.arrive(using("high", "y", priority=5))
    assert (evicted(said), nominated(said)) == ({}, {"high": ("a", ())})
    # Something of the node changes: the place is kept all the same.
    told.nodes(*told.engine.state.fleet.nodes[:1])  # type: ignore[arg-type]
    assert given(told.happen(claim("x"))) == {"high": ["a/d0"]}


def test_a_gang_takes_the_devices_of_as_many_pods_as_it_needs_and_no_pod_without_one_ends() -> None:
    told = fleet(a=("d0", "d1"), b=("d0",))
    for name, on, device in (("x", "a", "d0"), ("v", "a", "d1"), ("w", "b", "d0")):
        running(told, f"low-{name}", name, on, device)
    # More than a search tries one by one, and cheaper than those that hold devices.
    plain = [pod(f"plain-{number}", shape(cpu_milli=10), priority=-10) for number in range(600)]
    told.nodes(*(node(f"c{number}", pods=110) for number in range(6)))
    told.happen(*(event.PodBound(one, NodeName(f"c{at % 6}"), ()) for at, one in enumerate(plain)))
    told.gangs(gang("g", 2, priority=5))
    told.happen(claim("y"), claim("z"))
    said = told.arrive(*(using(f"g{one}", one, priority=5, in_gang="g") for one in ("y", "z")))
    ends = sorted(evicted(said))
    assert len(ends) == 2
    assert set(ends) < {"low-x", "low-v", "low-w"}
    told.depart(*ends)
    said = [*told.happen(claim(ends[0].partition("-")[2])), *told.happen(claim(ends[1].partition("-")[2]))]
    assert sorted(placed(said)) == ["gy", "gz"]


def test_a_pod_that_lacks_room_and_a_device_ends_a_pod_for_each() -> None:
    told = fleet(a=("d0",))
    running(told, "low", "x", "a", "d0")
    told.run_on(pod("wide", shape(cpu_milli=60_000), priority=1), "a")
    told.happen(claim("y"))
    asks = using("high", "y", priority=9)
    resources = msgspec.structs.replace(asks.shape.resources, cpu_milli=32_000)
    wide = msgspec.structs.replace(asks, shape=msgspec.structs.replace(asks.shape, resources=resources))
    assert sorted(evicted(told.arrive(wide))) == ["low", "wide"]


def test_a_queue_takes_back_devices_that_others_have_borrowed() -> None:
    told = fleet(a=("d0", "d1"))
    policy = PreemptionPolicy(VictimScope.NEVER, VictimScope.ANY, VictimScope.NEVER)
    told.happen(QueueSet(Queue(QueueName("all"))))
    for name in ("lends", "borrows"):
        quotas = (Quota(DEVICES, 1),)
        queue = Queue(QueueName(name), parent=QueueName("all"), quotas=quotas, preemption=policy)
        told.happen(QueueSet(queue))
    for name, device in (("x", "d0"), ("w", "d1")):
        told.happen(written(name, "a", device, f"b-{name}"))
        told.run_on(using(f"b-{name}", name, queue="borrows"), "a")
    told.happen(claim("y"), claim("z"))
    (victim,) = evicted(told.arrive(using("owed", "y", queue="lends")))
    assert victim in {"b-x", "b-w"}
    told.depart(victim)
    assert placed(told.happen(claim(victim.partition("-")[2]))) == ["owed"]
    assert not evicted(told.arrive(using("more", "z", queue="lends"))), "what the other is owed stays"


def test_the_next_leader_keeps_the_same_place_until_the_claim_is_free() -> None:
    told = fleet(a=("d0",), b=("d0",))
    running(told, "low", "x", "a", "d0")
    running(told, "other", "w", "b", "d0", priority=9)
    told.happen(claim("y"), claim("z"))
    told.arrive(using("high", "y", priority=5))
    told.depart("low")
    # Claims and slices are heard of before pods, as in the live scheduler.
    heard = [one for _, events in told.told for one in events if not isinstance(one, AboutPods)]
    again = Story("best-fit")
    again.happen(*heard)
    again.happen(*facts(told))
    assert not evicted(again.said)
    assert placed(again.arrive(using("late", "z", priority=3))) == []
    assert given(again.happen(claim("x"))) == {"high": ["a/d0"]}


def test_work_that_waits_reserves_devices_that_running_work_will_give_back() -> None:
    told = fleet(a=("d0", "d1"))
    policy = PreemptionPolicy(VictimScope.NEVER, VictimScope.NEVER, VictimScope.NEVER)
    told.happen(QueueSet(Queue(QueueName("q"), preemption=policy, reserve_after_us=0)))
    told.happen(written("x", "a", "d0", "now"))
    told.run_on(using("now", "x", queue="q"), "a")
    two = event.ResourceClaimSet(asked("two", count=2))
    told.happen(two, claim("z"))
    told.arrive(using("wide", "two", queue="q"))
    told.wait_s(120)
    assert placed(told.arrive(using("narrow", "z", queue="q"))) == [], "the second device is reserved"
    told.depart("now")
    assert given(told.happen(claim("x"))) == {"wide": ["a/d0", "a/d1"]}


class Holder(NamedTuple):
    """A pod that runs with devices of a node by a claim, which others may share."""

    uid: str
    claim: str
    node: str
    devices: tuple[str, ...]
    priority: int


def some_holders(rng: random.Random, nodes: dict[str, tuple[str, ...]]) -> list[Holder]:
    """Claims with some of the devices, each with one or two pods."""
    found: list[Holder] = []
    for name, there in nodes.items():
        left = list(there)
        while left and rng.random() < 0.9:
            taken = tuple(left.pop() for _ in range(min(len(left), rng.randint(1, 2))))
            claimed = f"c{len(found)}"
            for _ in range(rng.choice((1, 1, 2))):
                found.append(Holder(f"p{len(found)}", claimed, name, taken, rng.randint(0, 4)))
    return found


def enough_without(
    nodes: dict[str, tuple[str, ...]], holders: list[Holder], gone: set[str], wanted: int
) -> bool:
    """Whether some node has so many free devices once these pods have ended."""
    held = {(one.node, device) for one in holders if one.uid not in gone for device in one.devices}
    return any(sum((name, one) not in held for one in there) >= wanted for name, there in nodes.items())


@pytest.mark.parametrize("seed", seeds(15))
def test_what_ends_for_devices_is_enough_none_of_it_in_vain_and_of_the_lowest_priority(seed: int) -> None:
    """Against every set of pods, tried one by one."""
    rng = random.Random(seed)
    nodes = {f"n{number}": tuple(f"d{one}" for one in range(rng.randint(1, 3))) for number in range(3)}
    told, holders, wanted, priority = fleet(**nodes), some_holders(rng, nodes), rng.randint(1, 3), 3
    for one in holders:
        users = tuple(PodUid(other.uid) for other in holders if other.claim == one.claim)
        ask = asked(one.claim, count=len(one.devices))
        told.happen(event.ResourceClaimSet(ask, allocated(one.node, *one.devices), users))
        told.run_on(using(one.uid, one.claim, priority=one.priority), one.node)
    told.happen(claim("y", count=wanted))
    said = told.arrive(using("high", "y", priority=priority))
    ends = set(evicted(said))
    by_uid = {one.uid: one for one in holders}
    may_end = [one.uid for one in holders if one.priority < priority]
    sets = [set(some) for size in range(len(may_end) + 1) for some in combinations(may_end, size)]
    able = [some for some in sets if enough_without(nodes, holders, some, wanted)]
    if not able:
        assert (ends, refused(said)) == (set(), ["high"])
        return
    assert ends in able
    assert not any(some < ends for some in able), "none of them ends in vain"
    least = min(max((by_uid[uid].priority for uid in some), default=-1) for some in able)
    assert max((by_uid[uid].priority for uid in ends), default=-1) == least
    told.depart(*sorted(ends))
    for name in dict.fromkeys(one.claim for one in holders if one.uid in ends):
        if all(one.uid in ends for one in holders if one.claim == name):
            told.happen(event.ResourceClaimRemoved(f"team/{name}"))
    assert "high" in told.binds
