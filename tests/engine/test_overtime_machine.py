"""Limits on how long work runs that come, change and go at random: a state machine, judged by two ledgers.

Everybody has room, so that most steps are about time: of pods alone, of gangs, of queues and those above.
"""

# ruff: noqa: D102 - a rule's name is its sentence, as a test's is.

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from gpufleet.engine import event
from gpufleet.engine.policy import POLICIES
from gpufleet.engine.scheduler import Engine
from gpufleet.model.identifiers import PodUid
from gpufleet.model.pod import Pod
from tests.engine.effort import EFFORT
from tests.engine.fleet_builder import SECOND_US, gang, node, pod, shape
from tests.engine.ledger import Ledger
from tests.engine.overtime_ledger import OvertimeLedger
from tests.engine.queueing.queue_builder import queue

TREE = {"root": None, "team": "root", "other": "root"}
LEAVES = ("team", "other", "default")
limits = st.sampled_from((None, 1, 5, 20, 60))
some = st.lists(st.integers(0, 100), min_size=1, max_size=3)


def microseconds(limit_s: int | None) -> int | None:
    """A limit in the engine's unit."""
    return None if limit_s is None else limit_s * SECOND_US


class OvertimeMachine(RuleBasedStateMachine):
    """Events at random; both ledgers check every step."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(POLICIES["best-fit"], seed=1)
        self.ledger = Ledger(self.engine)
        self.overtime = OvertimeLedger()
        self.at_us = 0
        self.made = 0

    def happen(self, *events: event.Event) -> None:
        """One step, judged; whoever is placed runs at once."""
        for happened in events:
            self.overtime.hear(happened, self.at_us)
        said = self.ledger.step(self.at_us, *events)
        self.overtime.check(self.ledger, said)
        placed = [uid for uid in self.ledger.place if uid not in self.ledger.confirmed]
        if placed:
            self.happen(*(event.PodBound(self.ledger.pods[uid], *self.ledger.place[uid]) for uid in placed))

    def chosen(self, numbers: list[int], known: list[PodUid]) -> list[Pod]:
        """Some of these."""
        uids = dict.fromkeys(known[number % len(known)] for number in numbers if known)
        return [self.ledger.pods[uid] for uid in uids]

    @initialize()
    def begin(self) -> None:
        queues = (event.QueueSet(queue(name, parent=parent)) for name, parent in TREE.items())
        self.happen(*queues, event.NodeSet(node("n", 0, cpu_milli=10_000_000, pods=10_000)))

    @rule(name=st.sampled_from(LEAVES), limit_s=limits, count=st.integers(1, 3))
    def pods_arrive(self, name: str, limit_s: int | None, count: int) -> None:
        self.happen(*map(event.PodAdded, self.new_pods(name, limit_s, count, None)))

    @rule(name=st.sampled_from("gh"), team=st.sampled_from(LEAVES), limit_s=limits, count=st.integers(1, 3))
    def members_arrive(self, name: str, team: str, limit_s: int | None, count: int) -> None:
        pods = self.new_pods("default", limit_s, count, name)
        self.happen(event.GangSet(gang(name, 2, queue=team)), *map(event.PodAdded, pods))

    def new_pods(self, name: str, limit_s: int | None, count: int, of: str | None) -> list[Pod]:
        """Pods nobody has seen."""
        self.made += count
        uids = [f"p{number}" for number in range(self.made - count, self.made)]
        made = [pod(uid, shape(), queue=name, gang=of) for uid in uids]
        return [msgspec.structs.replace(one, run_time_max_us=microseconds(limit_s)) for one in made]

    @rule(name=st.sampled_from(sorted(TREE)), limit_s=limits)
    def a_queue_limits_its_work(self, name: str, limit_s: int | None) -> None:
        one = queue(name, parent=TREE[name])
        self.happen(event.QueueSet(msgspec.structs.replace(one, run_time_max_us=microseconds(limit_s))))

    @rule(numbers=some, limit_s=limits)
    def pods_limit_themselves(self, numbers: list[int], limit_s: int | None) -> None:
        pods = self.chosen(numbers, list(self.ledger.pods))
        limit_us = microseconds(limit_s)
        self.happen(*(event.PodAdded(msgspec.structs.replace(one, run_time_max_us=limit_us)) for one in pods))

    @rule(numbers=some, seconds=st.integers(1, 30))
    def evictions_are_refused(self, numbers: list[int], seconds: int) -> None:
        until_us = self.at_us + seconds * SECOND_US
        pods = self.chosen(numbers, list(self.engine.state.departures.evicted))
        self.happen(*(event.EvictionRefused(one.uid, until_us) for one in pods))

    @rule(numbers=some)
    def evicted_pods_end(self, numbers: list[int]) -> None:
        pods = self.chosen(numbers, self.engine.state.departures.departing())
        self.happen(*(event.PodRemoved(one.uid) for one in pods))

    @rule(numbers=some)
    def pods_end(self, numbers: list[int]) -> None:
        self.happen(*(event.PodRemoved(one.uid) for one in self.chosen(numbers, list(self.ledger.pods))))

    @rule(seconds=st.sampled_from((1, 4, 10, 25)))
    def time_passes(self, seconds: int) -> None:
        self.at_us += seconds * SECOND_US
        self.happen()


def test_a_gang_that_runs_and_names_a_queue_that_is_not_there_keeps_the_limit_of_its_own() -> None:
    machine = OvertimeMachine()
    machine.begin()
    machine.a_queue_limits_its_work(limit_s=5, name="root")
    machine.members_arrive(count=2, limit_s=None, name="g", team="team")
    machine.time_passes(1)
    machine.members_arrive(count=1, limit_s=None, name="g", team="default")
    machine.time_passes(4)
    assert set(machine.engine.state.departures.departing()) == {"p0", "p1", "p2"}


TestOvertimeMachine = OvertimeMachine.TestCase
TestOvertimeMachine.settings = settings(max_examples=60 * EFFORT, stateful_step_count=30)
