"""Queues that want more than there is, on a fleet where nothing ever ends but by eviction.

Whoever is evicted is gone at once, and comes back in the same step as a new pod, as a controller makes it.
So nothing happens but placing and evicting, and whatever goes on for ever is a loop of mutual preemption.
"""

import random

from gpufleet.engine import event
from gpufleet.engine.instruction import Evict
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import GangName, PodUid, QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import CPU, GPU, PreemptionPolicy, Queue, Quota, VictimScope
from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import SECOND_US, Story, node, pod, shape, share
from tests.engine.victim_orders import random_victim_order

NEARLY_ONE_MILLI = (999, 1000, 1000, 1001, 500, 3000, 0)
"""Weights that make shares nearly equal, and some that do not."""

EAGER = (
    VictimScope.ANY,
    VictimScope.ANY,
    VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY,
    VictimScope.LOWER_PRIORITY,
    VictimScope.NEVER,
)


class Treadmill:
    """One engine, its queues, and the controllers of everything that runs."""

    def __init__(self, story: Story, queues: tuple[Queue, ...]) -> None:
        self.story = story
        self.evictions: list[Evict] = []
        self._evicted: list[Evict] = []
        self._made = 0
        self.story.queues(*queues)

    def pod(self, needs: Shape, queue: str, priority: int = 0, gang: GangName | None = None) -> Pod:
        """A pod nobody has seen, made now."""
        self._made += 1
        at_us = self.story.at_us
        return pod(
            f"{queue}-{self._made}", needs, queue=queue, priority=priority, gang=gang, created_at_us=at_us
        )

    def arrive(self, *pods: Pod) -> None:
        """Work comes."""
        self._step(*map(event.PodAdded, pods))

    def gang(self, gang: Gang, pods: list[Pod]) -> None:
        """A gang comes whole."""
        self._step(event.GangSet(gang), *map(event.PodAdded, pods))

    def rounds_to_rest(self, most: int) -> int:
        """How many rounds of eviction and return there are until nobody is evicted; ``most`` if that is not
        the end.
        """
        quiet = 0
        for number in range(most):
            quiet = 0 if self._step() else quiet + 1
            # Refusals to look again and the like take a step or two.
            if quiet == 3:
                return number
        return most

    def _step(self, *events: event.Event) -> bool:
        """A step; whoever it evicts returns in the next one. True if there was somebody."""
        returning: list[event.Event] = [*self._returning(), *events]
        self.story.at_us += SECOND_US
        said = self.story.happen(*returning)
        self._evicted = [one for one in said if isinstance(one, Evict)]
        self.evictions += self._evicted
        return bool(self._evicted)

    def _returning(self) -> list[event.Event]:
        pods = self.story.engine.state.pods
        found: list[event.Event] = []
        for one in self._evicted:
            known = pods.pod_at(pods.row_by_uid[one.uid])
            found.append(event.PodRemoved(one.uid))
            found.append(event.PodAdded(self.pod(known.shape, known.queue, known.priority, known.gang)))
        return found

    def known(self) -> set[PodUid]:
        """Everybody who is there."""
        return set(self.story.engine.state.pods.row_by_uid)


def random_treadmill(seed: int) -> Treadmill:
    """A small fleet and tree with any policies, full of work that wants more."""
    chance = random.Random(seed)
    story = Story(chance.choice(("gpufleet", "best-fit")))
    nodes, gpus = chance.randint(1, 3), chance.choice((2, 4))
    cpu_milli = 1000 * chance.choice((gpus, 2 * gpus, 16))
    story.nodes(*(node(f"n{number}", gpus, cpu_milli=cpu_milli) for number in range(nodes)))
    queues = random_queues(chance, nodes * gpus, nodes * cpu_milli)
    told = Treadmill(story, queues)
    leaves = [queue.name for queue in queues if not any(queue.name == one.parent for one in queues)]
    needs = random_needs(chance)
    for number in range(chance.randint(2, 5)):
        for name in chance.sample(leaves, len(leaves)):
            if chance.random() < 0.25:
                size, priority = chance.randint(2, 3), chance.randint(0, 1)
                gang = Gang(GangName(f"g{number}{name}"), size, QueueName(name), priority, None)
                told.gang(gang, [told.pod(needs[0], name, priority, gang.name) for _ in range(size)])
            else:
                priority = chance.choice((0, 0, 0, 1, 2))
                told.arrive(
                    *(told.pod(chance.choice(needs), name, priority) for _ in range(chance.randint(1, 4)))
                )
    return told


def random_needs(chance: random.Random) -> tuple[Shape, ...]:
    """A few kinds of work, some of which need one resource only."""
    kinds = (
        shape(1, cpu_milli=0),
        shape(1),
        shape(1, cpu_milli=3000),
        shape(2),
        share(500),
        share(999, cpu_milli=1),
        shape(cpu_milli=1000),
        shape(cpu_milli=2000),
    )
    return tuple(chance.sample(kinds, 3))


def random_queues(chance: random.Random, gpus: int, cpu_milli: int) -> tuple[Queue, ...]:
    """A root that limits one resource or two, and two to five queues below it, some below one another."""
    root = Queue(
        QueueName("all"), quotas=(Quota(GPU, 1000 * gpus), Quota(CPU, cpu_milli))[: chance.choice((1, 2))]
    )
    queues = [root]
    same = random_policy(chance)
    for number in range(chance.randint(2, 5)):
        above = chance.choice((root, root, *queues[1:2])) if number > 1 else root
        quotas = [Quota(GPU, chance.choice((0, 0, 1, 1000, 1001, 2000)), chance.choice((None, None, 2000)))]
        if len(root.quotas) > 1:
            quotas.append(Quota(CPU, chance.choice((0, 0, 1000, 4000))))
        queues.append(
            Queue(
                QueueName(f"q{number}"),
                priority=chance.choice((0, 0, 0, 1)),
                parent=above.name,
                weight_milli=chance.choice(NEARLY_ONE_MILLI),
                quotas=tuple(quotas),
                preemption=same if chance.random() < 0.5 else random_policy(chance),
            )
        )
    return tuple(queues)


def random_policy(chance: random.Random) -> PreemptionPolicy:
    """Whom work of a queue may evict of its own, and of others' because it owns, or has the smaller share."""
    return PreemptionPolicy(
        within_queue=chance.choice(tuple(VictimScope)),
        reclaim=chance.choice(EAGER),
        borrowing=chance.choice(EAGER),
        borrowing_priority_max=chance.choice((None, None, None, 1)),
        victim_order=random_victim_order(chance),
    )
