"""A story of a full fleet with a backlog in many queues: some work ends at a time, and quota falls free."""

import random

import msgspec

from gpufleet.model.pod import Pod
from gpufleet.model.queue import PreemptionPolicy, Queue, VictimScope
from tests.engine.fleet_builder import SECOND_US, Story, gang, members, node, pod, shape, share
from tests.engine.queueing.queue_builder import queue, quota

NODES = 6
GPUS = 8 * NODES
ROUNDS = 60
SHAPES = (shape(1), shape(1, cpu_milli=2000), shape(2), share(500), shape(1, models=("A100",)))
NO_EVICTION = PreemptionPolicy(VictimScope.NEVER, VictimScope.NEVER, VictimScope.NEVER)


def told(seed: int) -> Story:
    """Two trees of queues with branches; every other story evicts, and some queues differ from the rest."""
    chance = random.Random(seed)
    story = Story("best-fit", seed=seed)
    leaves = [f"{tree}-{branch}-{leaf}" for tree in "ab" for branch in range(2) for leaf in range(3)]
    story.queues(*(a_queue(chance, name, seed) for name in ("a", "b", *branches(leaves), *leaves)))
    story.nodes(*(node(f"n{number}", 8, model=chance.choice(("A100", "H100"))) for number in range(NODES)))
    story.arrive(*(a_pod(chance, f"old-{number}", chance.choice(leaves)) for number in range(GPUS)))
    story.arrive(*(a_pod(chance, f"new-{number}", chance.choice(leaves)) for number in range(3 * GPUS)))
    for number in range(ROUNDS):
        story.at_us += chance.choice((0, 1, SECOND_US, 90 * SECOND_US))
        change(chance, story, leaves, number, seed)
    return story


def branches(leaves: list[str]) -> list[str]:
    """The queues above the leaves."""
    return list(dict.fromkeys(leaf.rsplit("-", 1)[0] for leaf in leaves))


def a_queue(chance: random.Random, name: str, seed: int) -> Queue:
    """A queue by its name: it owns a few GPUs and may borrow the rest of its tree."""
    made = queue(
        name,
        quota("gpu", 1000 * chance.randrange(6)),
        parent=name.rsplit("-", 1)[0] if "-" in name else None,
        strict=chance.random() < 0.1,
        priority=chance.choice((0, 0, 0, 1)),
        reserve_after_s=chance.choice((None, None, 60, 3600)),
    )
    weight_milli = chance.choice((1000, 1000, 2000, 0))
    half_life_us = chance.choice((0, 0, 0, 0, 600 * SECOND_US))
    preemption = made.preemption if seed % 2 else NO_EVICTION
    return msgspec.structs.replace(
        made, weight_milli=weight_milli, half_life_us=half_life_us, preemption=preemption
    )


def change(chance: random.Random, story: Story, leaves: list[str], number: int, seed: int) -> None:
    """What happens in one step: mostly a few pods end, at times work comes or goes, or a queue is another."""
    what = chance.random()
    if what < 0.6:
        story.depart(*chance.sample(sorted(story.binds), k=chance.choice((1, 1, 2, 5))))
    elif what < 0.7:
        story.depart(f"new-{chance.randrange(3 * GPUS)}")
    elif what < 0.85:
        story.arrive(a_pod(chance, f"late-{number}", chance.choice(leaves)))
    elif what < 0.9:
        name = f"g{number}"
        story.gangs(gang(name, 2, queue=chance.choice(leaves)))
        story.arrive(*members(name, 2, shape(1)))
    elif what < 0.95:
        story.happen()
    else:
        story.queues(a_queue(chance, chance.choice(leaves), seed))


def a_pod(chance: random.Random, uid: str, name: str) -> Pod:
    """A pod of a queue, of one of a few shapes, priorities and ages."""
    return pod(
        uid,
        chance.choice(SHAPES),
        queue=name,
        priority=chance.choice((0, 0, 0, 5)),
        created_at_us=chance.choice((0, 0, SECOND_US, 30 * SECOND_US)),
        preemptible=chance.random() < 0.9,
    )
