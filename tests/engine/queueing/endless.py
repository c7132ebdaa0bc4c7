"""Queues that always want more than there is, and whether each comes to have what it is owed.

Random trees with quotas, limits, weights and priorities; every leaf always has work that waits. What each
queue is owed is worked out by water-filling over values (``Endless.owed``), what it has comes from one
decision after another over the tree: two ways to one figure.
"""

import random
from collections import Counter
from fractions import Fraction

import msgspec

from gpufleet.engine import event
from gpufleet.engine.instruction import Bind, Evict
from gpufleet.model.identifiers import QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import GPU, PreemptionPolicy, Queue, Quota, VictimScope
from tests.engine.fleet_builder import SECOND_US, Story, node, pod, shape
from tests.engine.victim_orders import random_victim_order

WAITING = 3
"""So much more than it could ever have waits in each queue, in GPUs."""


NO_PREEMPTION = PreemptionPolicy(VictimScope.NEVER, VictimScope.NEVER, VictimScope.NEVER)
EVERYBODY = PreemptionPolicy(VictimScope.NEVER, VictimScope.ANY, VictimScope.ANY)


class Endless(Story):
    """A fleet whose queues always want more than there is; what ends or is evicted is followed by another."""

    def __init__(self, seed: int, policy: PreemptionPolicy) -> None:
        super().__init__("best-fit")
        self.chance = random.Random(seed)
        self.gpus = 4 * self.chance.randint(2, 4)
        self.size = self.chance.choice((1, 1, 2))
        self.tree = random_tree(self.chance, self.gpus, policy)
        parents = {queue.parent for queue in self.tree}
        self.leaves = [queue.name for queue in self.tree if queue.name not in parents]
        self.running: dict[str, str] = {}
        self.made = 0
        self.queues(*self.tree)
        self.nodes(*(node(f"n{number}", 4, cpu_milli=100_000) for number in range(self.gpus // 4)))
        for name in self.chance.sample(self.leaves, len(self.leaves)):
            wanted = [self.another(name) for _ in range(WAITING + self.gpus // self.size)]
            self.turn(*map(event.PodAdded, wanted))

    def another(self, queue: str) -> Pod:
        """Work that nobody has seen."""
        self.made += 1
        needs = shape(self.size, cpu_milli=1)
        return pod(f"{queue}.{self.made}", needs, queue=queue, created_at_us=self.at_us)

    def turn(self, *events: event.Event) -> None:
        """A step, and steps for what it evicts, until nobody is evicted."""
        following: list[event.Event] = list(events)
        for _ in range(200):
            self.at_us += SECOND_US
            said = self.happen(*following)
            self.running |= {one.uid: one.uid.split(".")[0] for one in said if isinstance(one, Bind)}
            evicted = [one.uid for one in said if isinstance(one, Evict)]
            if not evicted:
                return
            following = [one for uid in evicted for one in self.ended(uid)]
        raise AssertionError("they still evict each other")

    def ended(self, uid: str) -> list[event.Event]:
        """A pod is gone, and its queue wants as much as before."""
        queue = self.running.pop(uid)
        return [event.PodRemoved(pod(uid).uid), event.PodAdded(self.another(queue))]

    def some_end(self) -> None:
        """A quarter of what runs ends, wherever it is."""
        ending = self.chance.sample(sorted(self.running), max(1, len(self.running) // 4))
        self.turn(*(one for uid in ending for one in self.ended(uid)))

    def owed(self) -> dict[str, int]:
        """What each leaf is owed, in thousandths of a GPU."""
        shares = {one.queue: one for one in self.engine.fair_shares()}
        return {name: shares[QueueName(name)].amounts[0].owed for name in self.leaves}

    def used(self) -> Counter[str]:
        """What each leaf has."""
        has: Counter[str] = Counter(dict.fromkeys(map(str, self.leaves), 0))
        for queue in self.running.values():
            has[queue] += 1000 * self.size
        return has


def random_tree(chance: random.Random, gpus: int, policy: PreemptionPolicy) -> tuple[Queue, ...]:
    """A root that has all GPUs with what its queues own, and two or three levels below it.

    Queues that may evict are of one priority: it says who is served first, and not who is evicted.
    """
    priorities = (0, 0, 0, 1) if policy is NO_PREEMPTION else (0,)
    if policy is not NO_PREEMPTION:
        policy = msgspec.structs.replace(policy, victim_order=random_victim_order(chance))
    queues = [Queue(QueueName("root"))]
    owned = 0
    for number in range(chance.randint(2, 6)):
        above = chance.choice((queues[0], queues[0], *queues[1:3]))
        nominal = chance.choice((0, 0, 1, 2, 4))
        nominal = min(nominal, gpus - owned)
        owned += nominal
        limit = chance.choice((None, None, None, 2000, 4000))
        queues.append(
            Queue(
                QueueName(f"q{number}"),
                priority=chance.choice(priorities),
                parent=above.name,
                weight_milli=chance.choice((1000, 1000, 1001, 500, 2000, 3000)),
                quotas=(Quota(GPU, 1000 * nominal, limit),),
                preemption=policy,
            )
        )
    queues[0] = Queue(QueueName("root"), quotas=(Quota(GPU, 1000 * (gpus - owned)),))
    return tuple(queues)


def check_converged(told: Endless) -> None:
    """Every leaf has what it is owed, but for one workload, or for such as would only swap equal shares.

    Several leaves may each lack one that a single other has, where all shares would be as large as its own.
    """
    owed, used = told.owed(), told.used()
    assert used.total() <= 1000 * told.gpus
    apart = {
        name: (used[name], owed[name]) for name in owed if abs(used[name] - owed[name]) > 1000 * told.size
    }
    lacking = [name for name in owed if used[name] < owed[name]]
    rich = [name for name, (has, is_owed) in apart.items() if has > is_owed]
    unjust = [(name, to) for name in rich for to in lacking if is_justly_taken(told, used, name, to)]
    # Pods of two GPUs do not come to all that is owed GPU by GPU.
    short = {
        name
        for name, (has, is_owed) in apart.items()
        if has < is_owed and any(is_justly_taken(told, used, one, name) for one in owed if one != name)
    }
    assert not unjust, f"one could take from the other: {unjust}; has and is owed: {apart}"
    assert not short, f"has and is owed: {apart}"
    starving = [name for name, amount in owed.items() if amount >= 1000 * told.size and not used[name]]
    assert len(starving) <= 1, f"{starving} have nothing"


def is_justly_taken(told: Endless, used: Counter[str], name: str, to: str) -> bool:
    """True if one workload more of ``to`` is owed, or goes before what the other side borrows: that of the
    higher priority does, and of equal ones that whose turn it would be if the other side had one less. No
    limit of its queues may be in the way.
    """
    tree = {str(queue.name): queue for queue in told.tree}
    paths = {str(leaf): path_of(tree, leaf) for leaf in told.leaves}
    common = next(one for one in paths[name] if one in paths[to])
    (theirs, mine) = (paths[one][paths[one].index(common) - 1] for one in (name, to))
    size = 1000 * told.size

    def beyond(side: str, more: int) -> int:
        below = [leaf for leaf in told.leaves if side in paths[leaf]]
        owned = sum(tree[one].quotas[0].nominal for one in tree if side in path_of(tree, one))
        return max(0, sum(used[leaf] for leaf in below) + more - owned)

    def share(side: str, more: int) -> Fraction:
        return Fraction(beyond(side, more), tree[side].weight_milli)

    below = paths[to][: paths[to].index(common)]
    limits = {one: tree[one].quotas[0].borrowing_limit for one in below}
    if any(limit is not None and beyond(one, size) > limit for one, limit in limits.items()):
        return False
    after, borrowed = share(mine, size), share(theirs, 0)
    if borrowed == 0 or after == 0:
        return borrowed > 0
    if tree[mine].priority != tree[theirs].priority:
        return tree[mine].priority > tree[theirs].priority
    return share(mine, 0) < share(theirs, -size)


def path_of(tree: dict[str, Queue], name: str) -> list[str]:
    """A queue and all above it."""
    found = [name]
    while (parent := tree[found[-1]].parent) is not None:
        found.append(str(parent))
    return found


def told_until_all_work_is_new(seed: int) -> Endless:
    """Nobody evicts; work ends in any order until all that started at first has ended."""
    told = Endless(seed, NO_PREEMPTION)
    at_first = set(told.running)
    for _ in range(12):
        told.some_end()
    # What started while the first queues were described holds its place until it ends.
    while not at_first.isdisjoint(told.running):
        told.some_end()
    return told


def told_with_evictions_alone(seed: int) -> Endless:
    """Work never ends, and queues take what they may from each other."""
    told = Endless(seed, EVERYBODY)
    for _ in range(3):
        told.turn()
    return told
