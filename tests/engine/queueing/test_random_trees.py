"""Random trees, charges, moves and undo, judged by the ledger and the plain account after every step."""

import random

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufleet.engine import event
from gpufleet.engine.policy import POLICIES
from gpufleet.engine.scheduler import Engine
from gpufleet.model.identifiers import PodUid, QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue, Quota
from gpufleet.model.shape import Shape
from tests.engine.effort import EFFORT
from tests.engine.fleet_builder import gang, members, node, pod, shape, share
from tests.engine.ledger import Ledger
from tests.engine.queueing.queue_builder import queue, quota

RESOURCES = ("gpu", "gpu", "gpu/A100", "gpu/T4", "gpu-memory", "cost", "cpu")
SHAPES = (
    shape(1),
    shape(1),
    shape(2),
    shape(1, models=("A100",)),
    shape(1, in_order=("T4", "A100")),
    share(500),
    share(200, memory_mib=15_001),
    shape(),
)
UNIT = {"gpu-memory": 40, "cpu": 1}


def a_quota(chance: random.Random, resource: str) -> Quota:
    """Amounts of a few GPUs, or what comes with them; zero and none among the limits."""
    unit = UNIT.get(resource, 1)

    def limit() -> int | None:
        return chance.choice((None, None, 0, unit * 1000, unit * 2500))

    nominal = unit * chance.choice((0, 1000, 2000, 4000))
    lend = limit()
    return quota(
        resource,
        nominal,
        borrow=limit(),
        lend=None if lend is None else min(lend, nominal),
        hard=chance.choice((None, None, unit * 3000)),
    )


def a_queue(chance: random.Random, number: int, count: int) -> Queue:
    """A queue somewhere below those of lower number; now and then it stands where it must not."""
    above = [None, *(f"q{one}" for one in range(number))]
    if chance.random() < 0.05:
        above.append(f"q{chance.randrange(count + 1)}")
    names = dict.fromkeys(chance.choices(RESOURCES, k=chance.choice((0, 1, 1, 2))))
    return queue(f"q{number}", *(a_quota(chance, name) for name in names), parent=chance.choice(above))


class Play:
    """One random story."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.engine = Engine(POLICIES["best-fit"])
        self.ledger = Ledger(self.engine)
        self.count = chance.randint(1, 6)
        self.made = 0
        nodes = (node("a", 4), node("b", 4), node("t", 3, model="T4", gpu_memory_mib=16_000))
        queues = [a_queue(chance, number, self.count) for number in range(self.count)]
        self.ledger.step(0, *(event.NodeSet(one) for one in nodes), *(event.QueueSet(one) for one in queues))

    def name(self) -> str:
        """Some queue, now and then the one that is there always, or one that is not."""
        return self.chance.choice((*(f"q{number}" for number in range(self.count)), "default", "nobody"))

    def needs(self) -> Shape:
        """What some pod needs."""
        return self.chance.choice(SHAPES)

    def new_pods(self) -> list[event.Event]:
        """Pods of one queue, alone or as a gang."""
        self.made += 1
        count, name = self.chance.randint(1, 4), self.name()
        is_protected = self.chance.random() < 0.3
        if self.chance.random() < 0.2:
            one = gang(f"g{self.made}", count, queue=name)
            made = members(one.name, count, self.needs())
            made = [msgspec.structs.replace(each, preemptible=not is_protected) for each in made]
            return [event.GangSet(one), *(event.PodAdded(each) for each in made)]
        needs, uids = self.needs(), [f"p{self.made}-{each}" for each in range(count)]
        alone = [pod(uid, needs, queue=name, preemptible=not is_protected) for uid in uids]
        return [event.PodAdded(each) for each in alone]

    def step(self) -> None:
        """Something happens."""
        chance, places = self.chance, list(self.ledger.place)
        kind = chance.random()
        if kind < 0.5 or not places:
            happened = self.new_pods()
        elif kind < 0.85:
            ends = chance.sample(places, min(len(places), chance.randint(1, 3)))
            happened = [event.PodRemoved(uid) for uid in ends]
        elif kind < 0.93:
            known = self.ledger.pods[chance.choice(list(self.ledger.pods))]
            happened = [event.PodAdded(self.changed(known))]
        else:
            happened = [event.QueueSet(a_queue(chance, chance.randrange(self.count), self.count))]
        self.ledger.step(0, *happened)

    def changed(self, known: Pod) -> Pod:
        """The same pod in another queue, or of a class that protects it no more, or does now."""
        if self.chance.random() < 0.3:
            return msgspec.structs.replace(known, preemptible=not known.preemptible)
        return msgspec.structs.replace(known, queue=QueueName(self.name()))

    def try_in_vain(self) -> None:
        """A trial in which pods go and come leaves usage as it was."""
        state, places = self.engine.state, list(self.ledger.place)
        tables = state.store.tables
        usage = (tables.queue_counted, tables.queue_total, tables.queue_protected)
        before = [one.copy() for one in usage]
        with state.trial() as trial:
            for uid in places[::2]:
                trial.release(uid)
            for one in self.ledger.waiting():
                trial.place_pod(PodUid(one.uid))
        tables = state.store.tables
        after = (tables.queue_counted, tables.queue_total, tables.queue_protected)
        for was, found in zip(before, after, strict=True):
            assert np.array_equal(was, found[: len(was), : was.shape[1]])


@settings(max_examples=40 * EFFORT, deadline=None)
@given(chance=st.randoms(use_true_random=False))
def test_whatever_happens_no_limit_is_broken_and_nobody_waits_who_may_start(chance: random.Random) -> None:
    play = Play(chance)
    for _ in range(20):
        play.step()
        play.try_in_vain()
