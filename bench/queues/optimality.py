"""How far from the optimum decisions are on fleets too large for exhaustive search, by HiGHS.

Two questions, each to the engine and, as an integer program, to HiGHS (highspy), on random fleets of 20 to
50 nodes with fixed seeds. *Victims*: who goes for a gang that needs whole GPUs? The highest priority among
them as low as possible comes first; with it HiGHS finds the least work lost, the fewest pods, and the least
of both together, where a pod has a price in work lost. What that has more than either minimum is the price of
such an order, and what the engine's victims cost beyond it is the gap of its search.
*Admission*: how many GPUs does one cycle give to a backlog that does not fit whole? The engine serves by
age, one after another. Of two optima the one may leave out any work. The other keeps to that order: work
starts if it fits in any way beside all that is older and starts, so what lies between them is the price of
the order.
"""

import random
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import highspy

from bench.figures import Figure, figure
from bench.progress import say
from gpufleet.engine import event
from gpufleet.engine.instruction import AnyInstruction, Bind, Evict, Learn
from gpufleet.engine.policy import find_policy
from gpufleet.engine.preempt.candidates import LOST_STEP, STEPS_A_POD
from gpufleet.engine.scheduler import Engine
from gpufleet.model.device import Device
from gpufleet.model.gang import Gang
from gpufleet.model.identifiers import DeviceId, GangName, GpuModelName, NodeName, PodUid, QueueName
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.queue import Queue
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape

GPUS_A_NODE = 8
SECOND_US = 1_000_000
BETWEEN_STARTS_S = 45
"""Seconds between the starts of two pods, so that the oldest one has run for one to two hours."""
PRICE_S = STEPS_A_POD * LOST_STEP // 1000
"""What a pod counts in the engine's order, in seconds of a GPU."""
PRICES_MINUTES = (0, 15, 30, 45, 60, 75, 105, 150, 300)
"""Prices of a pod for which the optimum is found, in minutes of a GPU."""
TEAM = QueueName("team")
POLICIES = ("gpufleet", "best-fit")
LEARNING_POLICY = "gpufleet"
"""The policy that learns from what arrives."""
OTHER_SEEDS = 500
"""Seeds so much higher make the backlogs that were there before: drawn alike, and none is measured."""
VICTIM_SEEDS = range(40)
ADMISSION_SEEDS = range(20)


class Running(NamedTuple):
    """A pod that runs: its node, GPUs and priority."""

    node: int
    gpus: int
    priority: int


class VictimCase(NamedTuple):
    """A fleet with what runs on it, and a gang of higher priority."""

    nodes: int
    running: tuple[Running, ...]
    members: int
    gpus: int
    gpus_a_node: int = GPUS_A_NODE

    def lost(self, number: int) -> int:
        """The work that is lost with a pod: they began one after the other, in their order."""
        return (len(self.running) + 1 - number) * BETWEEN_STARTS_S * self.running[number].gpus

    def free(self, node: int) -> int:
        """GPUs of a node that nobody has."""
        return self.gpus_a_node - sum(one.gpus for one in self.running if one.node == node)


class Victims(NamedTuple):
    """What a gang costs: the highest priority among its victims (-1 for nobody), their number, and the work
    that is lost with them, in seconds of a GPU.
    """

    priority: int
    pods: int
    lost: int

    def together(self, price_s: int) -> int:
        """What they cost where a pod counts as much as so many seconds of a GPU."""
        return self.pods * price_s + self.lost


class AdmissionCase(NamedTuple):
    """Free GPUs and cores by node, and a backlog of pods (GPUs, cores), the oldest first."""

    free: tuple[tuple[int, int], ...]
    backlog: tuple[tuple[int, int], ...]


class Compared(NamedTuple):
    """What the engine did, and what could be done at best."""

    ours: float
    best: float
    in_order: float


def victim_case(seed: int) -> VictimCase:
    """A fleet that is nearly full, and a gang that needs a fifth of it."""
    chance = random.Random(seed)
    nodes = chance.randint(20, 50)
    running: list[Running] = []
    for node in range(nodes):
        left = GPUS_A_NODE
        while left and chance.random() < 0.97:
            gpus = chance.choice([size for size in (1, 1, 2, 2, 4, 8) if size <= left])
            running.append(Running(node, gpus, chance.randint(0, 3)))
            left -= gpus
    gpus = chance.choice((1, 2, 4, 8))
    return VictimCase(nodes, tuple(running), max(2, nodes * GPUS_A_NODE // 5 // gpus), gpus)


def program() -> Any:
    """An empty integer program that says nothing."""
    found = highspy.Highs()  # type: ignore[no-untyped-call]
    found.setOptionValue("output_flag", False)
    found.setOptionValue("threads", 1)
    found.setOptionValue("mip_rel_gap", 0.0)
    return found


def column(model: Any, cost: float, most: float) -> int:
    """Another whole number, from 0 to ``most``; where it stands."""
    model.addCol(cost, 0.0, most, 0, [], [])
    at = int(model.getNumCol()) - 1
    model.changeColIntegrality(at, highspy.HighsVarType.kInteger)
    return at


def row(model: Any, least: float, most: float, terms: dict[int, float]) -> None:
    """The sum of these terms is between ``least`` and ``most``."""
    model.addRow(least, most, len(terms), list(terms), list(terms.values()))


def solved(model: Any) -> float | None:
    """The optimum, None if nothing will do."""
    model.run()
    status = model.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    if status != highspy.HighsModelStatus.kOptimal:
        raise RuntimeError(f"HiGHS found no optimum: {status}")
    return float(model.getInfo().objective_function_value)


# Asked again for each policy, and the program takes longest of all here.
@cache
def best_victims(case: VictimCase) -> Victims | None:
    """The lowest highest priority with which the gang fits, and with it the fewest pods and the least work
    lost, each by itself.
    """
    for priority in (-1, *sorted({one.priority for one in case.running})):
        fewest = least_cost(case, priority, [1] * len(case.running))
        if fewest is not None:
            lost = least_cost(case, priority, [case.lost(number) for number in range(len(case.running))])
            return Victims(priority, fewest, lost or 0)
    return None


def least_cost(case: VictimCase, priority: int, costs: list[int]) -> int | None:
    """What pods of at most this priority must cost together; None if even all are too few."""
    chosen = cheapest(case, priority, costs)
    return None if chosen is None else sum(costs[number] for number in chosen)


@cache
def best_at_price(case: VictimCase, priority: int, price_s: int) -> Victims:
    """The pods of at most this priority that cost the least if each counts as so many seconds of a GPU.

    Raises RuntimeError if even all are too few.
    """
    lost = [case.lost(number) for number in range(len(case.running))]
    chosen = cheapest(case, priority, [price_s + one for one in lost])
    if chosen is None:
        raise RuntimeError(f"no pods of priority {priority} or less make room")
    return Victims(priority, len(chosen), sum(lost[number] for number in chosen))


def cheapest(case: VictimCase, priority: int, costs: list[int]) -> list[int] | None:
    """The pods of at most this priority that cost the least; None if even all are too few.

    A number of members for each node, and for each pod whether it goes: members need no more GPUs of a node
    than are free or left by those who go.
    """
    model = program()
    members = [column(model, 0.0, case.gpus_a_node // case.gpus) for _ in range(case.nodes)]
    needs: list[dict[int, float]] = [{one: float(case.gpus)} for one in members]
    goes: dict[int, int] = {}
    for number, (one, cost) in enumerate(zip(case.running, costs, strict=True)):
        if one.priority <= priority:
            goes[number] = column(model, float(cost), 1.0)
            needs[one.node][goes[number]] = -float(one.gpus)
    for node, terms in enumerate(needs):
        row(model, -highspy.kHighsInf, case.free(node), terms)
    row(model, case.members, highspy.kHighsInf, dict.fromkeys(members, 1.0))
    if solved(model) is None:
        return None
    values = model.getSolution().col_value
    return [number for number, at in goes.items() if round(values[at])]


def node(number: int, gpus: int, cores: int) -> Node:
    """A node with so many GPUs and cores."""
    name = f"node-{number:02d}"
    devices = tuple(
        Device(DeviceId(f"{name}/{index}"), GpuModelName("H100"), 81_920) for index in range(gpus)
    )
    return Node(NodeName(name), Resources(1000 * cores, 1 << 41, 250), devices)


def work(name: str, gpus: int, cores: int = 0, *, priority: int = 0, gang: GangName | None = None) -> Pod:
    """A pod of the team."""
    shape = Shape(Resources(1000 * cores, 0), GpuRequest(gpus, 1000))
    return Pod(PodUid(name), shape, name, TEAM, priority, gang=gang)


def our_victims(case: VictimCase, policy: str) -> Victims | None:
    """Whom the engine evicts for the gang; None where it keeps no places for it."""
    engine = Engine(find_policy(policy))
    told: list[event.Event] = [event.QueueSet(Queue(TEAM))]
    told += [event.NodeSet(node(number, case.gpus_a_node, 64)) for number in range(case.nodes)]
    taken = [0] * case.nodes
    for number, one in enumerate(case.running):
        name, first = f"node-{one.node:02d}", taken[one.node]
        taken[one.node] += one.gpus
        held = tuple(DeviceId(f"{name}/{index}") for index in range(first, taken[one.node]))
        pod = work(f"run-{number}", one.gpus, priority=one.priority)
        told.append(event.PodBound(pod, NodeName(name), held, number * BETWEEN_STARTS_S * SECOND_US))
    at_us = (len(case.running) + 1) * BETWEEN_STARTS_S * SECOND_US
    engine.step(at_us - SECOND_US, told)
    gang = Gang(GangName("gang"), case.members, TEAM, 9)
    pods = [work(f"gang-{index}", case.gpus, priority=9, gang=gang.name) for index in range(case.members)]
    said = engine.step(at_us, [event.GangSet(gang), *map(event.PodAdded, pods)])
    victims = [int(one.uid.split("-")[1]) for one in said if isinstance(one, Evict)]
    if not victims:
        return Victims(-1, 0, 0) if binds(said) else None
    priority = max(case.running[number].priority for number in victims)
    return Victims(priority, len(victims), sum(map(case.lost, victims)))


def binds(said: list[AnyInstruction]) -> list[PodUid]:
    """Who starts."""
    return [one.uid for one in said if isinstance(one, Bind)]


def admission_case(seed: int) -> AdmissionCase:
    """Nodes with some GPUs and cores free, and a backlog that wants half as much again."""
    chance = random.Random(1000 + seed)
    free = tuple(
        (chance.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 8)), chance.choice((8, 16, 32, 64, 64)))
        for _ in range(chance.randint(20, 50))
    )
    backlog: list[tuple[int, int]] = []
    while sum(gpus for gpus, _ in backlog) < 1.5 * sum(gpus for gpus, _ in free):
        gpus = chance.choice((1, 1, 1, 2, 2, 4, 8))
        backlog.append((gpus, gpus * chance.choice((2, 4, 8, 12))))
    return AdmissionCase(free, tuple(backlog))


@cache
def best_admission(case: AdmissionCase) -> int:
    """The most GPUs that can be given away."""
    return most_given(case.free, case.backlog)


def most_given(free: Sequence[tuple[int, int]], backlog: Sequence[tuple[int, int]]) -> int:
    """The most GPUs that can be given to these: for each node and kind of pod a number of them."""
    model = program()
    kinds = sorted(set(backlog))
    placed: dict[tuple[int, int], dict[int, float]] = {kind: {} for kind in kinds}
    for gpus_free, cores_free in free:
        gpus: dict[int, float] = {}
        cores: dict[int, float] = {}
        for kind in kinds:
            most = min(gpus_free // kind[0], cores_free // kind[1])
            if most:
                at = column(model, -float(kind[0]), most)
                gpus[at], cores[at], placed[kind][at] = kind[0], kind[1], 1.0
        row(model, 0.0, gpus_free, gpus)
        row(model, 0.0, cores_free, cores)
    for kind, terms in placed.items():
        row(model, 0.0, backlog.count(kind), terms)
    found = solved(model) if model.getNumCol() else None
    return 0 if found is None else -round(found)


@cache
def ordered_admission(case: AdmissionCase) -> int:
    """The GPUs that go to work of which each starts if it fits in any way beside the older that starts.

    Where one does not fit, no later one of its kind does.
    """
    started: list[tuple[int, int]] = []
    waiting = list(case.backlog)
    while waiting:
        few, many = 0, len(waiting) + 1
        while many - few > 1:
            middle = (few + many) // 2
            if all_fit(case.free, started + waiting[:middle]):
                few = middle
            else:
                many = middle
        started += waiting[:few]
        waiting = [one for one in waiting[few + 1 :] if one != waiting[few]] if few < len(waiting) else []
    return sum(gpus for gpus, _ in started)


def all_fit(free: Sequence[tuple[int, int]], work: Sequence[tuple[int, int]]) -> bool:
    """Whether all of these have room together."""
    wanted = sum(gpus for gpus, _ in work)
    return wanted <= sum(gpus for gpus, _ in free) and most_given(free, work) == wanted


def our_admission(case: AdmissionCase, policy: str, earlier: AdmissionCase | None = None) -> int:
    """The GPUs that one cycle of the engine gives away; of ``earlier`` it has learned what work is like."""
    engine = Engine(find_policy(policy))
    if earlier is not None:
        before = [work(f"before-{number}", *needs) for number, needs in enumerate(earlier.backlog)]
        engine.step(0, map(event.PodAdded, before))
        engine.step(0, [event.PodRemoved(pod.uid) for pod in before])
    nodes = [event.NodeSet(node(number, *free)) for number, free in enumerate(case.free)]
    engine.step(0, [event.QueueSet(Queue(TEAM)), *nodes])
    if earlier is not None:
        engine.step(0, [engine.study()])
    pods = [work(f"pod-{number}", *needs) for number, needs in enumerate(case.backlog)]
    said = engine.step(SECOND_US, backlog_events(engine, pods))
    if Learn() in said:
        said += engine.step(SECOND_US, [engine.study()])
    return sum(case.backlog[int(uid.split("-")[1])][0] for uid in binds(said))


def backlog_events(engine: Engine, pods: list[Pod]) -> list[event.Event]:
    """The backlog as the scheduler tells it: the policy may learn from it first."""
    told: list[event.Event] = [event.PodAdded(pod) for pod in pods]
    return [*told, event.DecisionsDeferred()] if engine.learns_first(told) else told


def admission_once_learned(compared_at: Iterable[tuple[int, Compared]]) -> list[Figure]:
    """What is given of what the order allows once the engine has seen a backlog of the same kind."""
    parts = [
        our_admission(admission_case(seed), LEARNING_POLICY, admission_case(seed + OTHER_SEEDS))
        / one.in_order
        for seed, one in compared_at
    ]
    title = (
        f"against HiGHS, 20 to 50 nodes, {LEARNING_POLICY} that has seen another backlog: "
        "GPUs given in a cycle, of what the order allows"
    )
    mean = 100 * sum(parts) / len(parts)
    return [
        figure(f"{title}, mean", mean, "%", "higher", OF_ORDER_BAR_PERCENT),
        figure(f"{title}, worst", 100 * min(parts), "%", "higher"),
    ]


def compare_victims(seed: int, policy: str) -> tuple[Victims, Victims] | None:
    """The engine's victims and the best; None where the gang cannot fit, or fits without any."""
    case = victim_case(seed)
    return compared(f"seed {seed}", our_victims(case, policy), best_victims(case))


def compared(what: str, ours: Victims | None, best: Victims | None) -> tuple[Victims, Victims] | None:
    """Both, None where there is nothing to compare; an engine that finds no room where there is some, or
    some where there is none, is no matter of a gap.
    """
    if (best is None) != (ours is None):
        raise RuntimeError(f"{what}: possible at best {best}, decided {ours}")
    return None if best is None or ours is None or not best.pods else (ours, best)


def compare_admission(seed: int, policy: str) -> Compared:
    """The GPUs that the engine gives away, and the most that can be, in any order and in that of age."""
    case = admission_case(seed)
    return Compared(our_admission(case, policy), best_admission(case), ordered_admission(case))


def gap_at_price(seeds: Iterable[int], policy: str) -> list[Figure]:
    """What the engine's victims cost beyond the least at the price of its own order."""
    gaps_percent: list[float] = []
    for seed in seeds:
        pair = compare_victims(seed, policy)
        if pair is not None and pair[0].priority == pair[1].priority:
            ours, best = pair[0], best_at_price(victim_case(seed), pair[1].priority, PRICE_S)
            gaps_percent.append(100 * (ours.together(PRICE_S) / best.together(PRICE_S) - 1))
    title = f"against HiGHS, 20 to 50 nodes, {policy}: victims of a gang, cost beyond the least at that price"
    return [
        figure(f"{title}, mean", sum(gaps_percent) / len(gaps_percent), "%", "lower"),
        figure(f"{title}, worst", max(gaps_percent), "%", "lower"),
    ]


def frontier(seeds: Iterable[int]) -> list[Figure]:
    """What the optimum has beyond the least work lost and the fewest pods, at each price of a pod."""
    cases = [(case, best) for case in map(victim_case, seeds) if (best := best_victims(case)) and best.pods]
    found: list[Figure] = []
    for minutes in PRICES_MINUTES:
        each = [(best_at_price(case, best.priority, 60 * minutes), best) for case, best in cases]
        lost = [100 * (one.lost / best.lost - 1) for one, best in each]
        pods = [100 * (one.pods / best.pods - 1) for one, best in each]
        title = f"HiGHS, a pod counts as {minutes} GPU minutes:"
        found += [
            figure(f"{title} work lost beyond the least, mean", sum(lost) / len(lost), "%", "lower"),
            figure(f"{title} work lost beyond the least, worst", max(lost), "%", "lower"),
            figure(f"{title} pods beyond the fewest, mean", sum(pods) / len(pods), "%", "lower"),
            figure(f"{title} pods beyond the fewest, worst", max(pods), "%", "lower"),
        ]
    return found


class Bars(NamedTuple):
    """At most so much beyond the best, in percent; None where that is not judged."""

    lost_mean: float | None = None
    lost_worst: float | None = None
    pods_mean: float | None = None


BARS = Bars(10, 50, 25)
NO_BARS = Bars()
OF_ORDER_BAR_PERCENT = 95
"""At least so much of what the order allows is given in a cycle."""


def gaps(title: str, pairs: list[tuple[Victims, Victims]], bars: Bars = NO_BARS) -> list[Figure]:
    """How far the engine's victims are from the best."""
    alike = [(ours, best) for ours, best in pairs if ours.priority == best.priority]
    more = [100 * (ours.pods / best.pods - 1) for ours, best in alike]
    lost = [100 * (ours.lost / best.lost - 1) for ours, best in alike]
    best_of_all = sum(ours.pods == best.pods and ours.lost == best.lost for ours, best in alike)
    return [
        figure(f"{title}, highest priority as low as can be", len(alike), f"of {len(pairs)}", "higher"),
        figure(f"{title}, both minima reached", best_of_all, f"of {len(pairs)}", "higher"),
        figure(
            f"{title}, work lost beyond the least, mean", sum(lost) / len(lost), "%", "lower", bars.lost_mean
        ),
        figure(f"{title}, work lost beyond the least, worst", max(lost), "%", "lower", bars.lost_worst),
        figure(f"{title}, pods beyond the fewest, mean", sum(more) / len(more), "%", "lower", bars.pods_mean),
        figure(f"{title}, pods beyond the fewest, worst", max(more), "%", "lower"),
    ]


def figures(victim_seeds: range = VICTIM_SEEDS, admission_seeds: range = ADMISSION_SEEDS) -> list[Figure]:
    """The gaps of both questions."""
    found: list[Figure] = []
    for policy in POLICIES:
        say(f"how far {policy} is from what HiGHS finds")
        pairs = [pair for seed in victim_seeds if (pair := compare_victims(seed, policy)) is not None]
        found += gaps(f"against HiGHS, 20 to 50 nodes, {policy}: victims of a gang", pairs, BARS)
        found += gap_at_price(victim_seeds, policy)
        compared_at = [compare_admission(seed, policy) for seed in admission_seeds]
        title = f"against HiGHS, 20 to 50 nodes, {policy}: GPUs given in a cycle"
        for of, parts, bar_percent in (
            ("the most possible", [one.ours / one.best for one in compared_at], None),
            ("what the order allows", [one.ours / one.in_order for one in compared_at], OF_ORDER_BAR_PERCENT),
        ):
            found += [
                figure(f"{title}, of {of}, mean", 100 * sum(parts) / len(parts), "%", "higher", bar_percent),
                figure(f"{title}, of {of}, worst", 100 * min(parts), "%", "higher"),
            ]
    found += admission_once_learned(zip(admission_seeds, compared_at, strict=True))
    order = [one.in_order / one.best for one in compared_at]
    title = "HiGHS, GPUs given in a cycle: what the order allows, of the most possible"
    found += [
        figure(f"{title}, mean", 100 * sum(order) / len(order), "%", "higher"),
        figure(f"{title}, worst", 100 * min(order), "%", "higher"),
    ]
    return found + frontier(victim_seeds)
