"""Random stories: a tree of queues, a few nodes, and work that comes and ends."""

import random

import msgspec

from gpufleet.model.identifiers import QueueName
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.reference.picture import MILLI, Job, Machine
from tests.engine.victim_orders import random_victim_order

GPUS_MAX = 8
"""So many GPUs in a fleet that every set of victims can be tried."""
SLOW_STEPS_MAX = 6
"""A pod that is slow to end takes so many steps at most: longer than the three steps without news."""
LONG_US = 90_000_000
"""A minimum run time that lasts longer than a step and the wait after it."""


class Arrival(msgspec.Struct, frozen=True):
    """A job comes with so many pods.

    ``steps`` of a happening: so many steps go by before the next one; 0 for as many as decide something.
    """

    job: Job
    pods: int = 1
    steps: int = 0


class End(msgspec.Struct, frozen=True):
    """A job ends by itself, or is withdrawn if it waits."""

    job: str
    steps: int = 0


class StrangersLeave(msgspec.Struct, frozen=True):
    """The GPUs of a node that strangers held are free."""

    node: str
    steps: int = 0


class EndAsked(msgspec.Struct, frozen=True):
    """Another than the scheduler tells the running pods of a job to end, which takes so many steps."""

    job: str
    after: int
    steps: int = 0


Happening = Arrival | End | StrangersLeave | EndAsked


class Plan(msgspec.Struct, frozen=True):
    """One story. ``returns``: evicted pods are made anew by a controller, as new work.

    ``leaves_after``: an evicted pod is gone after so many steps, by its number among the evicted.
    """

    queues: tuple[Queue, ...]
    nodes: tuple[Machine, ...]
    happenings: tuple[Happening, ...]
    returns: bool = False
    leaves_after: tuple[int, ...] = (1,)


class Mix(msgspec.Struct, frozen=True):
    """What may occur in a story.

    ``elastic`` gangs have up to two pods above their minimum; ``growth_times`` are minimum run times of such
    pods; ``strangers`` hold GPUs of nodes, and leave; ``racks`` are domains that a gang may have to share;
    with ``slow_ends`` pods take up to six steps to end, and things happen meanwhile.
    """

    gangs: bool = True
    departments: bool = True
    nodes_max: int = 4
    models: tuple[str, ...] = ("A100", "H100")
    weights_milli: tuple[int, ...] = (1000, 1000, 1000, 2000, 3000, 0)
    own_work_goes: bool = True
    queue_priorities: tuple[int, ...] = (0, 0, 0, 1)
    elastic: bool = False
    growth_times: bool = False
    strangers: bool = False
    racks: bool = False
    slow_ends: bool = False


EVERYTHING = Mix()
ELASTIC = Mix(elastic=True, growth_times=True)
STRANGERS = Mix(strangers=True)
RACKS = Mix(racks=True)
SLOW_ENDS = Mix(slow_ends=True)
WITH_ALL_FEATURES = Mix(elastic=True, growth_times=True, strangers=True, racks=True)


def random_plan(seed: int, mix: Mix = EVERYTHING) -> Plan:
    """A story by its seed."""
    chance = random.Random(seed)
    nodes = random_nodes(chance, mix)
    queues = random_queues(chance, mix, sum(node.gpus for node in nodes))
    parents = {queue.parent for queue in queues}
    leaves = [str(queue.name) for queue in queues if queue.name not in parents]
    largest = max(node.gpus for node in nodes)
    models = sorted({node.model for node in nodes})
    happenings: list[Happening] = []
    for number in range(chance.choice((4, 6, 8, 9, 10, 10))):
        if happenings and chance.random() < 0.12:
            happenings.append(End(f"w{chance.randrange(number)}"))
            continue
        if mix.strangers and chance.random() < 0.15:
            happenings.append(StrangersLeave(chance.choice(nodes).name))
            continue
        if mix.slow_ends and happenings and chance.random() < 0.25:
            happenings.append(EndAsked(f"w{chance.randrange(number)}", chance.randint(1, SLOW_STEPS_MAX)))
            continue
        happenings.append(random_arrival(chance, mix, number, leaves, largest, models))
    plan = Plan(queues, nodes, tuple(happenings), chance.random() < 0.5)
    return with_slow_ends(plan, chance) if mix.slow_ends else plan


def with_slow_ends(plan: Plan, chance: random.Random) -> Plan:
    """The same story, in which evicted pods take their time and things happen meanwhile."""
    happenings = plan.happenings
    steps = [chance.choice((0, 0, 1, 1, 2, 4)) for _ in happenings]
    hurried = (
        msgspec.structs.replace(one, steps=count) for one, count in zip(happenings, steps, strict=True)
    )
    leaves_after = tuple(chance.randint(1, SLOW_STEPS_MAX) for _ in range(chance.randint(1, 4)))
    return msgspec.structs.replace(plan, happenings=tuple(hurried), leaves_after=leaves_after)


def random_arrival(
    chance: random.Random, mix: Mix, number: int, leaves: list[str], largest: int, models: list[str]
) -> Arrival:
    """A pod, or a gang of two or three; an elastic one has up to four pods."""
    is_gang = mix.gangs and chance.random() < 0.4
    pods = chance.randint(2, 3) if is_gang else 1
    job = Job(
        f"w{number}",
        chance.choice(leaves),
        gpus=min(largest, chance.choice((1, 1, 1, 2, 2, 2, 3))),
        priority=chance.choice((0, 0, 0, 1, 2)),
        order=number,
        minimum=chance.choice((pods, pods, pods - 1)) if is_gang else 1,
        is_gang=is_gang,
        preemptible=chance.random() > 0.05,
        model=chance.choice(models) if len(models) > 1 and chance.random() < 0.5 else "",
    )
    if is_gang and mix.elastic and chance.random() < 0.6:
        pods = chance.randint(2, 4)
        least = max(1, pods - chance.randint(1, 2))
        job = msgspec.structs.replace(job, gpus=chance.choice((1, 1, job.gpus)), minimum=least)
    if is_gang and mix.racks and chance.random() < 0.6:
        job = msgspec.structs.replace(job, in_rack=True)
    return Arrival(job, pods)


def random_nodes(chance: random.Random, mix: Mix) -> tuple[Machine, ...]:
    """One to four nodes of one to four GPUs, of one model or two."""
    found: list[Machine] = []
    models = chance.choice((mix.models[:1], mix.models[:1], mix.models))
    for number in range(chance.randint(1, mix.nodes_max)):
        left = GPUS_MAX - sum(node.gpus for node in found)
        if left:
            found.append(Machine(f"n{number}", min(left, chance.randint(1, 4)), chance.choice(models)))
    if mix.racks:
        found = [msgspec.structs.replace(node, rack=chance.choice("xy")) for node in found]
    if mix.strangers:
        found = [
            msgspec.structs.replace(node, held=chance.choice((0, 0, 1, chance.randint(0, node.gpus))))
            for node in found
        ]
    return tuple(found)


def random_queues(chance: random.Random, mix: Mix, gpus: int) -> tuple[Queue, ...]:
    """A root and one to five queues below it, at most three levels in all.

    What they own together is now and then more, or less, than the fleet has.
    """
    same = random_policy(chance, mix) if chance.random() < 0.5 else None
    departments = chance.choice((0, 0, 1, 2)) if mix.departments else 0
    count = chance.randint(max(2, departments), 5)
    left = gpus + chance.choice((0, 0, 0, 1, -1))
    queues: list[Queue] = []
    for number in range(count):
        nominal = min(max(left, 0), chance.choice((0, 0, 1, 2, 2, 3, 4)))
        left -= nominal
        above = "all"
        if number >= departments:
            above = chance.choice(
                [
                    "all",
                    *(f"q{one}" for one in range(departments)),
                    *(f"q{one}" for one in range(departments)),
                ]
            )
        policy = same or random_policy(chance, mix)
        queues.append(random_queue(chance, mix, f"q{number}", above, nominal, policy))
    root = Queue(QueueName("all"), quotas=(Quota(GPU, MILLI * max(0, left)),))
    return (root, *queues)


def random_queue(
    chance: random.Random, mix: Mix, name: str, above: str, nominal: int, policy: PreemptionPolicy
) -> Queue:
    """A queue that owns so many GPUs."""
    lending = None if chance.random() < 0.85 else MILLI * chance.randint(0, nominal)
    borrowing = None if chance.random() < 0.88 else MILLI * chance.randint(0, 2)
    hard = None if chance.random() < 0.95 else MILLI * (nominal + chance.randint(0, 2))
    return Queue(
        QueueName(name),
        priority=chance.choice(mix.queue_priorities),
        strict=chance.random() < 0.1,
        parent=QueueName(above),
        weight_milli=chance.choice(mix.weights_milli),
        quotas=(Quota(GPU, MILLI * nominal, borrowing, lending, hard),),
        preemption=policy,
        reserve_after_us=None,
    )


def random_policy(chance: random.Random, mix: Mix) -> PreemptionPolicy:
    """The usual policy, or any."""
    scopes = tuple(VictimScope) if mix.own_work_goes else (VictimScope.NEVER,)
    if chance.random() < 0.6:
        return PreemptionPolicy(
            within_queue=VictimScope.LOWER_PRIORITY if mix.own_work_goes else VictimScope.NEVER,
            borrowing=chance.choice((VictimScope.NEVER, VictimScope.ANY)),
            victim_order=random_victim_order(chance),
        )
    return PreemptionPolicy(
        within_queue=chance.choice(scopes),
        reclaim=chance.choice(tuple(VictimScope)),
        borrowing=chance.choice(tuple(VictimScope)),
        borrowing_priority_max=chance.choice((None, None, None, 0)),
        preempt_after_us=chance.choice((0, 0, 0, LONG_US)),
        reclaim_after_us=chance.choice((0, 0, 0, LONG_US)),
        elastic_after_us=chance.choice((None, 0, LONG_US)) if mix.growth_times else None,
        victim_order=random_victim_order(chance),
    )
