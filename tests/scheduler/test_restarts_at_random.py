"""The next leader evicts no pod more, keeps each place, and knows what was learned of run times.

Each seed is run twice: under one leader throughout, and under leaders that change at a random moment,
once or twice, while pods are evicted, a part of a gang is bound, and guests run on reserved places. From the
first change on no work arrives, so both runs decide about the same work. Many more seeds:
``make soak-restart``.
"""

from random import Random

import msgspec
import pytest

from tests.engine.effort import seeds
from tests.scheduler.test_eviction_planner import CONTROLLED, PODS, add_queue, kept_node
from tests.scheduler.test_new_leader import queue_status
from tests.scheduler.test_overtime import started
from tests.scheduler.world import Object, World, in_world

NODES, GPUS = 3, 4
CROWDED_S = 15.0
"""By then the low pods run, and more important work comes."""
LAST_ARRIVAL_S = 45.0
CALM_S = 120.0
"""By so long after the first change of leaders every pod has ended that was told to end."""
NIGHTLY = "nightly"
"""Pods of one template that end by themselves. They ask for no GPU, so they take no place from others."""


class Arrival(msgspec.Struct, frozen=True):
    """A pod that is made at a moment."""

    at_s: float
    name: str
    gpus: int
    priority: int
    labels: Object
    annotations: Object
    policy: str = "PreemptLowerPriority"


class Plan(msgspec.Struct, frozen=True):
    """What happens in both runs of a seed, and when leaders change in the second."""

    queue: Object | None
    arrivals: tuple[Arrival, ...]
    changes: tuple[tuple[float, float], ...]
    """When a leader stops, and for how long none leads."""


class Outcome(msgspec.Struct):
    """What one run came to."""

    evicted: set[str]
    kept: dict[str, str]
    """For which pods a place was kept just before the first change of leaders, and on which node."""
    ran: dict[str, str]
    """On which node each pod ran or runs."""
    learned: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """The run times in the status of their queue, by template, just before the first change of leaders."""
    learned_in_the_end: dict[str, list[int]] = msgspec.field(default_factory=dict)


def in_gang(name: str, least: int) -> Object:
    return {"gpufleet.io/gang": name, "gpufleet.io/gang-min-members": str(least)}


def planned(seed: int, *, in_queue: bool) -> Plan:
    """Low pods on all GPUs, then more important ones, gangs with and without surplus members, and guests."""
    chance = Random(seed)
    queue: Object = {"gpufleet.io/queue": "team"} if in_queue else {}
    reserves = in_queue and chance.random() < 0.5
    preemption = chance.choice(("LowerPriority", "LowerOrNewerEqualPriority"))
    spec = {"preemption": {"withinQueue": preemption}, "reserveAfter": "0s" if reserves else "5m"}
    found: list[Arrival] = []
    low_gang = chance.randint(2, 4)
    for number in range(NODES * GPUS):
        member = in_gang("low-gang", chance.choice((1, low_gang))) if number < low_gang else {}
        run_time = {"gpufleet.io/run-time": "20m"} if chance.random() < 0.5 else {}
        priority = 0 if member else chance.randint(0, 2)
        found.append(
            Arrival(chance.uniform(0, 3), f"low-{number}", 1, priority, queue, {**member, **run_time})
        )
    for number in range(chance.randint(2, 5)):
        at_s, priority = chance.uniform(CROWDED_S, LAST_ARRIVAL_S), chance.choice((10, 20, 30))
        found.append(Arrival(at_s, f"high-{number}", chance.randint(1, 3), priority, queue, {}))
    for number in range(chance.randint(0, 2)):
        members, priority = chance.randint(2, 3), chance.choice((10, 20, 30))
        gpus, labels = chance.randint(1, 2), in_gang(f"gang-{number}", chance.randint(2, members))
        for member_number in range(members):
            at_s, name = chance.uniform(CROWDED_S, LAST_ARRIVAL_S), f"gang-{number}-{member_number}"
            found.append(Arrival(at_s, name, gpus, priority, queue, labels))
    small: Object = {"gpufleet.io/queue": "small"}
    for number in range(chance.randint(3, 9)):
        at_s = chance.uniform(0, 3 if number < 2 else LAST_ARRIVAL_S)
        found.append(Arrival(at_s, f"{NIGHTLY}-{number}", 0, 0, small, {}))
    at_s = chance.uniform(CROWDED_S, LAST_ARRIVAL_S)
    found.append(Arrival(at_s, "gentle", 2, 100, queue, {}, "Never"))
    for number in range(2 if reserves else 0):
        at_s = chance.uniform(CROWDED_S, LAST_ARRIVAL_S)
        found.append(Arrival(at_s, f"guest-{number}", 1, 0, queue, {"gpufleet.io/interruptible": "true"}))
    first_s = chance.uniform(CROWDED_S + 1, LAST_ARRIVAL_S + 5)
    changes = [(first_s, chance.uniform(0, 8))]
    if chance.random() < 0.4:
        changes.append((first_s + chance.uniform(9, 30), chance.uniform(0, 8)))
    before = tuple(sorted((one for one in found if one.at_s < first_s), key=lambda one: one.at_s))
    return Plan(spec if in_queue else None, before, tuple(changes))


class Nodes:
    """The kubelets: pods with a node run, and pods that were told to end do so after a while."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.seed = seed
        self.evicted: set[str] = set()
        self.ran: dict[str, str] = {}
        self._ends_at_s: dict[str, float] = {}

    async def work(self) -> None:
        """Look at each pod once a second."""
        while True:
            for one in self.world.objects(PODS):
                self._look(one)
            await self.world.clock.sleep(1)

    def _look(self, pod: Object) -> None:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
        if node and name not in self.ran:
            self.ran[name] = node
            started(self.world, name)
        if node and name.startswith(NIGHTLY):
            if self._is_over(name, (2, 3, 5)) and pod["status"].get("phase") == "Running":
                self.world.finish(name)
            return
        if "deletionTimestamp" not in pod["metadata"]:
            return
        self.evicted.add(name)
        if self._is_over(name, (1, 3, 10, 20, 40)):
            self.world.delete(name)

    def _is_over(self, name: str, choices: tuple[int, ...]) -> bool:
        """Whether the time of a pod is over, which begins when this is asked first."""
        now_s, lasts_s = self.world.clock.monotonic_s(), Random(f"{self.seed}/{name}").choice(choices)
        return now_s >= self._ends_at_s.setdefault(name, now_s + lasts_s)


def learned_runs(world: World) -> dict[str, list[int]]:
    """The run times in the status of the queue ``small``, by template."""
    found: list[Object] = queue_status(world, "small").get("learnedRunTimes", [])
    return {one["template"]: one["runsMicroseconds"] for one in found}


def outcome_of(plan: Plan, seed: int, *, leaders_change: bool) -> Outcome:
    """One run."""
    outcome = Outcome(set(), {}, {})

    async def story(world: World) -> None:
        began_s = world.clock.monotonic_s()

        async def until(at_s: float) -> None:
            await world.clock.sleep(max(0.0, began_s + at_s - world.clock.monotonic_s()))

        for number in range(NODES):
            world.node(f"n{number}", gpus=GPUS)
        if plan.queue is not None:
            add_queue(world, "team", **plan.queue)
        add_queue(world, "small", learnRunTimes=True, reserveAfter="Never")
        nodes = Nodes(world, seed)
        world.also(nodes.work())
        for one in plan.arrivals:
            await until(one.at_s)
            world.pod(
                one.name,
                gpus=one.gpus,
                labels=one.labels,
                annotations=one.annotations,
                ownerReferences=CONTROLLED,
                priority=one.priority,
                preemptionPolicy=one.policy,
            )
        await until(plan.changes[0][0])
        names = [one["metadata"]["name"] for one in world.objects(PODS)]
        outcome.kept = {name: node for name in names if (node := kept_node(world, name))}
        outcome.learned = learned_runs(world)
        for at_s, away_s in plan.changes if leaders_change else ():
            await until(at_s)
            await world.stop()
            await world.clock.sleep(away_s)
            world.start()
        await until(plan.changes[0][0] + CALM_S)
        await world.settle(1)
        outcome.evicted, outcome.ran = nodes.evicted, nodes.ran
        outcome.learned_in_the_end = learned_runs(world)

    in_world(story, seed=seed)
    return outcome


@pytest.mark.parametrize("in_queue", [True, False], ids=["in-a-queue", "outside"])
@pytest.mark.parametrize("seed", seeds(6))
def test_a_new_leader_evicts_no_pod_more_keeps_each_place_and_each_run_time(
    seed: int, in_queue: bool
) -> None:
    plan = planned(seed, in_queue=in_queue)
    throughout, changed = (outcome_of(plan, seed, leaders_change=one) for one in (False, True))
    assert changed.kept == throughout.kept
    kept_on = {name for name, node in throughout.kept.items() if throughout.ran.get(name) == node}
    assert {name: changed.ran.get(name) for name in kept_on} == {
        name: throughout.kept[name] for name in kept_on
    }
    assert len(changed.evicted) <= len(throughout.evicted)
    for one in (throughout, changed):
        assert one.learned
        assert {key: one.learned_in_the_end[key][: len(runs)] for key, runs in one.learned.items()} == (
            one.learned
        )
