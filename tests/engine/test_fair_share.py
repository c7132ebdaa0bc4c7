"""Fair share through the whole engine: nodes, gangs, departures and a clock that is told to go on."""

import random
from collections import Counter
from fractions import Fraction

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.engine.arrays.layout import PodState
from gpufleet.engine.event_log import header_line, rerun, step_line
from gpufleet.engine.instruction import Bind
from gpufleet.engine.preempt.by_name import BY_QUEUES
from gpufleet.engine.queueing.fair_shares import FairShare, OwedAmount
from gpufleet.engine.queueing.shares import QueueShares
from gpufleet.model.identifiers import PodUid, QueueName, QuotaResource
from gpufleet.model.pod import Pod
from gpufleet.model.queue import CPU, GPU, MEMORY
from tests.engine.fleet_builder import (
    GIB,
    SECOND_US,
    Story,
    gang,
    members,
    node,
    placed,
    pod,
    problems,
    shape,
)
from tests.engine.queueing.tree_builder import queue

HOUR_S = 3600
HOUR_US = HOUR_S * SECOND_US


class Shared(Story):
    """A fleet shared by queues."""

    def running(self) -> Counter[str]:
        """How many GPUs each queue has, by what is booked; what is reserved does not run."""
        state = self.engine.state
        counts: Counter[str] = Counter()
        for row, one in enumerate(state.pods.pods):
            if one is not None and state.pods.state(row) in {PodState.ASSUMED, PodState.BOUND}:
                counts[state.queue_of(row)] += one.shape.gpu.count
        return counts


def backlog(name: str, pods: int, gpus: int = 1, *, first: int = 0, created_at_us: int = 0) -> list[Pod]:
    needs = shape(gpus, cpu_milli=10, memory_bytes=1)
    uids = [f"{name}-{number:05}" for number in range(first, first + pods)]
    return [pod(uid, needs, queue=name, created_at_us=created_at_us + at) for at, uid in enumerate(uids)]


def test_the_paper_of_dominant_resource_fairness_on_a_node() -> None:
    """Ghodsi et al. 2011, section 4.1: 9 CPUs, 18 GB; tasks <1, 4> of A and <3, 1> of B: three and two."""
    told = Shared()
    told.queues(queue("all", cpu=9000, memory=18 * GIB), queue("A", "all"), queue("B", "all"))
    told.nodes(node("n", cpu_milli=9000, memory_bytes=18 * GIB))
    needs = {"A": shape(cpu_milli=1000, memory_bytes=4 * GIB), "B": shape(cpu_milli=3000, memory_bytes=GIB)}
    uids = [(name, f"{name}{number}") for number in range(9) for name in "AB"]
    said = told.arrive(*(pod(uid, needs[name], queue=name) for name, uid in uids))
    assert [uid[0] for uid in placed(said)] == ["A", "B", "A", "B", "A"]


@pytest.mark.parametrize(("gang_size", "seed"), [(1, 0), (1, 1), (4, 0)])
def test_backlogged_queues_come_to_have_gpus_by_their_weights(gang_size: int, seed: int) -> None:
    """One queue has all of 48 GPUs; as its work ends, three with backlogs come to 8, 16 and 24."""
    chance = random.Random(seed)
    told = Shared()
    names = ("w1", "w2", "w3")
    told.queues(queue("root", gpu=48_000), *(queue(name, "root", weight=int(name[1])) for name in names))
    told.nodes(*(node(f"n{number}", 8) for number in range(6)))
    told.arrive(*backlog("w1", 48))
    told.wait_s(1)
    for name in names:
        if gang_size == 1:
            told.arrive(*backlog(name, 200, first=100, created_at_us=told.at_us))
        else:
            for number in range(50):
                told.gangs(gang(f"{name}g{number}", gang_size, queue=name))
                told.arrive(*members(f"{name}g{number}", gang_size, shape(1, cpu_milli=10)))
    ends: list[str] = sorted(told.binds)
    chance.shuffle(ends)
    for _ in range(100):
        told.wait_s(60)
        gone, ends = ends[:gang_size], ends[gang_size:]
        said = told.depart(*gone)
        ends += placed(said)
    running = told.running()
    assert running.total() == 48
    assert all(abs(running[name] - 8 * int(name[1])) <= gang_size for name in names), running
    per_weight = [Fraction(running[name], int(name[1])) for name in names]
    jain = sum(per_weight) ** 2 / (3 * sum(one * one for one in per_weight))
    assert jain > Fraction(95, 100)


def test_no_flood_starves_a_queue_with_quota() -> None:
    """A flood of urgent work, older and of a queue of high priority, in a fleet that is full: every GPU that
    comes free goes to the owner until it has its 4.
    """
    told = Shared()
    told.queues(queue("root", gpu=8000), queue("flood", "root", priority=9), queue("owner", "root", gpu=4000))
    told.nodes(node("n", 8))
    told.arrive(*(msgspec.structs.replace(one, priority=100) for one in backlog("flood", 300)))
    told.arrive(*backlog("owner", 6, created_at_us=10**9))
    running = sorted(told.binds)
    got = [placed(told.depart(uid))[0].split("-")[0] for uid in running]
    assert got == ["owner"] * 4 + ["flood"] * 4


def test_a_deep_queue_among_shallow_ones_starts_in_one_step() -> None:
    told = Shared()
    shallow = [f"s{number}" for number in range(20)]
    told.queues(queue("root", gpu=600_000), queue("deep", "root"), *(queue(name, "root") for name in shallow))
    told.nodes(*(node(f"n{number}", 8) for number in range(75)))
    waiting = [one for name in shallow for one in backlog(name, 2)]
    said = told.arrive(*backlog("deep", 500), *waiting)
    assert Counter(uid.split("-")[0] for uid in placed(said))["deep"] == 500


def test_work_that_names_no_queue_is_served_after_all_that_do() -> None:
    told = Shared()
    told.queues(queue("team", priority=-5, gpu=8000))
    said = told.arrive(
        pod("nobody's", shape(1), priority=9), pod("team's", shape(1), queue="team", created_at_us=7)
    )
    assert placed(said) == []
    assert placed(told.nodes(node("n", 2))) == ["team's", "nobody's"]


def test_what_is_asked_of_a_trial_is_as_if_it_had_happened() -> None:
    told = Shared()
    told.queues(queue("root", gpu=8000), queue("a", "root"), queue("b", "root"))
    told.nodes(node("n", 8))
    told.arrive(*backlog("a", 5), *backlog("b", 3))
    state = told.engine.state
    tree = state.queues.tree
    found = QueueShares(state.store, tree)
    a, b = (tree.row_by_name[QueueName(name)] for name in "ab")
    assert found.compare(a, b) == 1
    with state.trial() as trial:
        trial.release(PodUid("a-00000"))
        assert found.share(a) == (False, Fraction(4, 8))
        trial.release(PodUid("a-00001"))
        assert found.compare(a, b) == 0
    assert found.share(a) == (False, Fraction(5, 8))


def test_what_each_queue_is_owed_wants_and_has() -> None:
    """By hand: of 8 GPUs a owns 2 and wants 6, b of weight 2 wants 9, 6 are left over: 2 and 4. a came first
    and has 5: 3 borrowed of 8.
    """
    told = Shared()
    told.queues(queue("root", gpu=6000), queue("a", "root", gpu=2000), queue("b", "root", weight=2))
    told.nodes(node("n", 8))
    told.arrive(*backlog("a", 5))
    told.arrive(*backlog("b", 9))
    told.arrive(*backlog("a", 1, first=50))
    gpu = QuotaResource(GPU)
    assert told.engine.fair_shares() == (
        FairShare(QueueName("root"), None, 0, None, (OwedAmount(gpu, 15_000, 8000, 8000),)),
        FairShare(QueueName("a"), QueueName("root"), 375, gpu, (OwedAmount(gpu, 6000, 4000, 5000),)),
        FairShare(QueueName("b"), QueueName("root"), 187, gpu, (OwedAmount(gpu, 9000, 4000, 3000),)),
    )


def test_nothing_is_owed_where_no_queue_is_described() -> None:
    told = Shared()
    told.arrive(*backlog("a", 5))
    assert told.engine.fair_shares() == ()


def long_story(seed: int) -> Shared:
    """Queues in a tree, with pasts; work and gangs that come and go."""
    chance = random.Random(seed)
    told = Shared("gpufleet")
    told.queues(
        queue("root", gpu=24_000, cpu=60_000),
        queue("d1", "root", gpu=4000, half_life_us=HOUR_US),
        queue("d2", "root", weight=2, half_life_us=2 * HOUR_US),
        queue("a", "d1", half_life_us=HOUR_US // 2),
        queue("b", "d1", priority=1, strict=True),
        queue("c", "d2", half_life_us=HOUR_US),
        queue("d", "d2", weight=0),
    )
    told.nodes(*(node(f"n{number}", 8) for number in range(3)))
    for number in range(60):
        told.wait_s(chance.choice((0, 1, 30, 600)))
        name = chance.choice("abcd")
        needs = shape(chance.choice((0, 1, 1, 2, 4)), cpu_milli=chance.choice((100, 2000)))
        if number % 7 == 0:
            told.gangs(gang(f"g{number}", 2, queue=name))
            told.arrive(*members(f"g{number}", 3, needs))
        pods = [
            pod(f"p{number}-{at}", needs, queue=name, created_at_us=told.at_us + number * 10 + at)
            for at in range(3)
        ]
        told.arrive(*pods)
        running = sorted(told.binds)
        if running:
            told.depart(*chance.sample(running, min(len(running), 3)))
    return told


def test_a_log_of_fair_shares_replays_to_the_same_bytes() -> None:
    told = long_story(3)
    again = Shared("gpufleet")
    lines = [header_line("0", "gpufleet", 0, BY_QUEUES)]
    for at_us, events in told.told:
        lines.append(step_line(at_us, events, again.engine.step(at_us, events)))
    assert all(said == now for _, said, now in rerun(lines))
    assert [one for one in told.said if isinstance(one, Bind)]
    assert again.engine.past_use() == told.engine.past_use()
    assert again.engine.fair_shares() == told.engine.fair_shares()


def restarted(told: Shared) -> Shared:
    """Another engine that is told what the first one would be told after a restart: objects, and the past."""
    state = told.engine.state
    again = Shared("gpufleet")
    again.at_us = told.at_us
    recalled = msgspec.json.decode(msgspec.json.encode(told.engine.past_use()), type=event.PastUseRecalled)
    queues = [event.QueueSet(one) for one in state.queues.tree.described.values()]
    nodes = [event.NodeSet(state.fleet.node_at(row)) for row in state.fleet.row_by_name.values()]
    gangs = [event.GangSet(one.gang) for one in state.gangs.by_name.values() if one.gang is not None]
    pods: list[event.Event] = []
    rows = sorted(state.pods.row_by_uid.values(), key=lambda row: state.sequence_by_row[row])
    for row in rows:
        node_row = state.pods.node_row(row)
        one = state.pods.pod_at(row)
        if node_row is None or state.pods.state(row) is PodState.NOMINATED:
            pods.append(event.PodAdded(one))
        else:
            pods.append(event.PodBound(one, state.fleet.node_at(node_row).name, state.pods.device_ids(row)))
    reserved = event.ReservationsRecalled(told.engine.reservations())
    again.happen(recalled, *queues, *nodes, *gangs, *pods, reserved)
    return again


@pytest.mark.parametrize("seed", range(3))
def test_after_a_restart_turns_go_on_as_if_there_had_been_none(seed: int) -> None:
    told = long_story(seed)
    told.wait_s(HOUR_S / 7)
    again = restarted(told)
    assert again.engine.past_use() == told.engine.past_use()
    for number in range(30):
        for one in (told, again):
            one.wait_s(700)
            one.arrive(
                *(pod(f"n{number}{name}", shape(1), queue=name, created_at_us=one.at_us) for name in "acd")
            )
        uid = sorted(told.binds)[number * 3 % len(told.binds)]
        first, second = (placed(one.depart(uid)) for one in (told, again))
        assert first == second
        assert again.engine.fair_shares() == told.engine.fair_shares()


def test_a_past_that_makes_no_sense_is_refused_and_changes_nothing() -> None:
    told = Shared()
    told.queues(queue("root", gpu=8000), queue("a", "root", half_life_us=HOUR_US))
    good = event.PastUseOf(QueueName("a"), GPU, 0, 1000, "65536", "0")
    for bad in (
        msgspec.structs.replace(good, value="1.5"),
        msgspec.structs.replace(good, value=""),
        msgspec.structs.replace(good, area="9" * 41),
        msgspec.structs.replace(good, value="٣"),
        msgspec.structs.replace(good, used=-1),
        msgspec.structs.replace(good, at_us=-1),
    ):
        said = told.happen(event.PastUseRecalled((good, bad)))
        assert len(problems(said)) == 1
        assert "past use of a: gpu" in problems(said)[0]
    assert told.engine.past_use().uses == ()


def test_a_past_from_a_clock_that_was_ahead_counts_as_of_now() -> None:
    told = Shared()
    told.queues(queue("root", gpu=8000), queue("a", "root", half_life_us=HOUR_US))
    told.happen(
        event.PastUseRecalled((event.PastUseOf(QueueName("a"), GPU, 10**15, 8000, str(8000 << 16), "5"),))
    )
    told.wait_s(HOUR_S)
    (use,) = told.engine.past_use().uses
    assert (use.at_us, use.used) == (0, 0), "nothing runs, so it fades from now on"
    shares = {one.queue: one for one in told.engine.fair_shares()}
    assert 245 <= (shares[QueueName("a")].share_milli or 0) <= 255, (
        "8 of 8, half forgotten, and the mean with none now"
    )


def test_the_past_of_a_queue_goes_with_it() -> None:
    told = Shared()
    told.queues(queue("root", gpu=8000), queue("a", "root", half_life_us=HOUR_US), queue("b", "root"))
    told.nodes(node("n", 8))
    told.arrive(*backlog("a", 2), *backlog("b", 2))
    assert [use.queue for use in told.engine.past_use().uses] == ["a"]
    told.queues(queue("a", "root"))
    assert told.engine.past_use().uses == ()


def test_memory_of_a_whole_fleet_survives_the_trip_through_text() -> None:
    told = Shared()
    told.queues(queue("root", cpu=10**9, memory=1 << 55), queue("a", "root", half_life_us=24 * HOUR_US))
    told.nodes(node("n", cpu_milli=10**6, memory_bytes=1 << 44))
    told.arrive(pod("p", shape(cpu_milli=5, memory_bytes=1 << 43), queue="a"))
    told.wait_s(100)
    told.depart("p")
    sent = msgspec.json.encode(told.engine.past_use())
    assert msgspec.json.decode(sent, type=event.PastUseRecalled) == told.engine.past_use()
    by_resource = {use.resource: int(use.value) for use in told.engine.past_use().uses}
    assert by_resource[MEMORY] > 2**43
    assert by_resource[CPU] > 0


@pytest.mark.parametrize("least", [1, 2, 3])
def test_a_gang_that_ends_as_a_whole_while_it_waits_takes_its_undescribed_queue_along(least: int) -> None:
    told = Story()
    told.queues(queue("other"))
    told.gangs(gang("g", least))
    told.arrive(*members("g", 3, shape(1)))
    assert not told.depart("g-1", "g-2", "g-0")
    told.nodes(node("n", 8))
    assert placed(told.arrive(pod("late", shape(1)))) == ["late"]
