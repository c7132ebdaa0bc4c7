"""A small fleet whose evicted pods end after a while and are made anew by their controllers.

No fact comes from elsewhere, so everything that is promised must come true. ``check_promises`` runs
after every step.
"""

import random
from itertools import combinations

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, Nominated, NominationWithdrawn
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DEFAULT_QUEUE, GangName, NodeName, PodUid, QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from gpufleet.model.shape import Shape
from tests.engine.fleet_builder import SECOND_US, Story, node, pod, shape, share
from tests.engine.plain_fleet import PlainNode
from tests.engine.victim_orders import random_victim_order

NEEDS = (shape(1), shape(1), shape(2), shape(4), share(500), share(300), shape(cpu_milli=3000))
SPOT = {"cloud.google.com/gke-spot": "true"}
POLICIES = (VictimScope.LOWER_PRIORITY, VictimScope.LOWER_OR_NEWER_EQUAL_PRIORITY, VictimScope.ANY)


class Arena:
    """One story, and the controllers and nodes around it; the first ``spot`` nodes may be taken back.

    ``queues`` () is a fleet without queues, None one with a queue of some policy.
    """

    def __init__(
        self,
        seed: int,
        *,
        queues: tuple[Queue, ...] | None = None,
        nodes: int = 2,
        gpus: int = 4,
        spot: int = 0,
    ) -> None:
        self.chance = random.Random(seed)
        self.story = Story("gpufleet" if seed % 3 == 0 else "best-fit")
        self.queues = (random_queue(self.chance, "team"),) if queues is None else queues
        self.story.happen(*(event.QueueSet(queue) for queue in self.queues))
        labels = [SPOT if number < spot else {} for number in range(nodes)]
        names = [f"n{number}" for number in range(nodes)]
        named = zip(names, labels, strict=True)
        self.story.nodes(*(node(name, gpus, cpu_milli=8000, labels=of) for name, of in named))
        self.made = 0
        self.lost_one: GangName | None = None
        self.ending: list[PodUid] = []
        self.evictions: list[Evict] = []
        self.promised: dict[PodUid, set[PodUid]] = {}
        self.victims_seen: set[PodUid] = set()

    @property
    def queue_names(self) -> list[QueueName]:
        """The queues that work may name."""
        return [queue.name for queue in self.queues] or [DEFAULT_QUEUE]

    @property
    def within_queue(self) -> VictimScope:
        """Which of the work in the first queue, or outside of every queue, a pod may evict."""
        return self.queues[0].preemption.within_queue if self.queues else VictimScope.LOWER_PRIORITY

    def pod(self, needs: Shape, queue: str, priority: int, gang: str | None = None) -> Pod:
        """A pod nobody has seen, made now."""
        self.made += 1
        return pod(
            f"p{self.made}",
            needs,
            queue=queue,
            priority=priority,
            gang=gang,
            created_at_us=self.story.at_us,
        )

    def known(self, uid: PodUid) -> Pod:
        """A pod that is there."""
        pods = self.story.engine.state.pods
        return pods.pod_at(pods.row_by_uid[uid])

    def state(self, uid: PodUid) -> PodState | None:
        """Where a pod stands, None if it is gone."""
        pods = self.story.engine.state.pods
        return pods.state(pods.row_by_uid[uid]) if uid in pods.row_by_uid else None

    def happen(self, *events: event.Event) -> list[AnyInstruction]:
        """A step a second later; what it says is taken note of."""
        self.story.at_us += SECOND_US
        said = self.story.happen(*events)
        for one in said:
            if isinstance(one, Evict):
                assert one.uid not in self.victims_seen, f"{one.uid} is evicted twice"
                self.victims_seen.add(one.uid)
                self.evictions.append(one)
                self.ending.append(one.uid)
            if isinstance(one, Nominated):
                self.promised[one.uid] = set(one.waits_for)
            if isinstance(one, Bind):
                self.promised.pop(one.uid, None)
            if isinstance(one, NominationWithdrawn):
                self.check_withdrawn(one.uid, said)
                self.promised.pop(one.uid, None)
        self.check_promises()
        return said

    def check_withdrawn(self, uid: PodUid, said: list[AnyInstruction]) -> None:
        """A place is taken back only from a member of a gang that runs without it now, or lost another."""
        gang = self.known(uid).gang
        spares = {self.known(one.uid).gang for one in said if isinstance(one, Bind)} | {self.lost_one}
        assert gang is not None, f"{uid} lost its place for no reason"
        assert gang in spares, f"{uid} lost its place for no reason"

    def check_promises(self) -> None:
        """Nobody waits for a place that is promised when those it waits for are gone."""
        here = self.story.engine.state.pods.row_by_uid
        for uid, waits_for in self.promised.items():
            if uid in here:
                assert waits_for & set(here), f"{uid} waits for {waits_for}, and they are gone"
                assert self.state(uid) is PodState.NOMINATED, f"{uid} lost its place for no reason"

    def is_firm(self, uid: PodUid) -> bool:
        """True for a pod on a node that nobody takes back."""
        state = self.story.engine.state
        on = state.pods.node_row(state.pods.row_by_uid[uid])
        return on is not None and state.fleet.node_at(on).labels.get("cloud.google.com/gke-spot") != "true"

    def end(self, uid: PodUid, *, made_anew: bool) -> None:
        """A pod is gone; its controller makes another one."""
        known = self.known(uid)
        events: list[event.Event] = [event.PodRemoved(uid)]
        if made_anew:
            another = self.pod(known.shape, known.queue, known.priority, known.gang)
            events.append(event.PodAdded(another))
        self.lost_one = known.gang
        self.happen(*events)
        self.lost_one = None

    def let_victims_end(self) -> None:
        """Everybody who was told to end does, one after the other, and is made anew."""
        while self.ending:
            uid = self.ending.pop(self.chance.randrange(len(self.ending)))
            if self.state(uid) is not None:
                self.end(uid, made_anew=True)

    def plain(self) -> dict[NodeName, PlainNode]:
        """The nodes with everybody who is booked, those who wait for others among them."""
        state = self.story.engine.state
        found = {one.name: PlainNode(one) for one in state.fleet.nodes if one is not None}
        for row, one in enumerate(state.pods.pods):
            on = None if one is None else state.pods.node_row(row)
            if one is not None and on is not None:
                held = tuple(device for device in state.pods.device_ids(row) if device is not None)
                found[state.fleet.node_at(on).name].take(one.shape, held)
        return found

    def fits_without(self, needs: Shape, gone: set[PodUid]) -> bool:
        """True if a pod of this shape fits somewhere once these pods are gone, by the plain account."""
        plain = self.plain()
        pods = self.story.engine.state.pods
        for uid in gone:
            row = pods.row_by_uid[uid]
            on = pods.node_row(row)
            assert on is not None
            name = self.story.engine.state.fleet.node_at(on).name
            held = tuple(device for device in pods.device_ids(row) if device is not None)
            plain[name].give_back(self.known(uid).shape, held)
        return any(one.accepts(needs) and one.fits(needs) for one in plain.values())


def random_queue(chance: random.Random, name: str) -> Queue:
    """A queue with some policy."""
    policy = PreemptionPolicy(within_queue=chance.choice(POLICIES))
    return Queue(QueueName(name), preemption=policy, strict=chance.random() < 0.2)


def random_tree(chance: random.Random, gpus: int) -> tuple[Queue, ...]:
    """A root and two to four queues below it, some of them below one another, with any policies."""
    root = Queue(QueueName("all"), quotas=(Quota(GPU, chance.randint(0, gpus) * 1000),))
    queues = [root]
    for number in range(chance.randint(2, 4)):
        parent = chance.choice((root, root, *queues[1:2])).name if number > 1 else root.name
        policy = PreemptionPolicy(
            within_queue=chance.choice(tuple(VictimScope)),
            reclaim=chance.choice(tuple(VictimScope)),
            borrowing=chance.choice(tuple(VictimScope)),
            borrowing_priority_max=chance.choice((None, None, 1)),
            victim_order=random_victim_order(chance),
        )
        quota = Quota(
            GPU,
            chance.choice((0, 0, 1, 2, gpus // 2)) * 1000,
            chance.choice((None, None, 1000, 0)),
            chance.choice((None, None, 0)),
        )
        queues.append(
            Queue(
                QueueName(f"q{number}"),
                priority=chance.choice((0, 0, 1)),
                parent=parent,
                weight_milli=chance.choice((1000, 1000, 3000, 0)),
                quotas=(quota,),
                preemption=policy,
            )
        )
    return tuple(queues)


def random_gang(chance: random.Random, name: str, queue: str) -> Gang:
    """A gang of two or three."""
    return Gang(GangName(name), chance.randint(2, 3), QueueName(queue), chance.randint(0, 3))


def cheapest(arena: Arena, asking: Pod, evictable: list[Pod]) -> tuple[int, int, int] | None:
    """By trying every set: the lowest highest priority, with it the fewest victims, and of these the fewest
    on nodes that stay; None for none.
    """
    departing = set(arena.story.engine.state.departures.departing())
    for priority in sorted({one.priority for one in evictable}):
        among = [one.uid for one in evictable if one.priority <= priority]
        for size in range(1, len(among) + 1):
            fitting = [
                sum(map(arena.is_firm, chosen))
                for chosen in combinations(among, size)
                if arena.fits_without(asking.shape, departing | set(chosen))
            ]
            if fitting:
                return priority, size, min(fitting)
    return None
