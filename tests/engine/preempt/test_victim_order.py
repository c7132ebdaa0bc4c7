"""With ``victimOrder: WorkLostFirst`` the work goes first that loses the least of all that was borrowed."""

from itertools import count

import pytest

from gpufleet.engine import event
from gpufleet.model.identifiers import DeviceId, NodeName, QueueName
from gpufleet.model.pod import Pod
from gpufleet.model.queue import PreemptionPolicy, VictimOrder, VictimScope
from tests.engine.fleet_builder import SECOND_US, Story, evicted, gang, node, pod, shape
from tests.engine.preempt.test_reclaim import queue, work

WORK_LOST_FIRST = PreemptionPolicy(victim_order=VictimOrder.WORK_LOST_FIRST)
NOW_US = 3600 * SECOND_US


def fleet(policy: PreemptionPolicy, *running: tuple[Pod, int], c_owns: int = 0, root: int = 0) -> Story:
    """A full node of pods that have run for so many minutes each. Team a owns what ``root`` does not, b
    nothing, c so many.
    """
    gpus = sum(one.shape.gpu.count for one, _ in running)
    told = Story()
    told.happen(
        *(queue("all", root, parent=None), queue("a", 0 if root else gpus - c_owns, preemption=policy)),
        *(queue("b", 0), queue("c", c_owns)),
    )
    told.nodes(node("n0", gpus))
    told.at_us, devices = NOW_US, count()
    for one, minutes in running:
        held = tuple(DeviceId(f"n0/{next(devices)}") for _ in range(one.shape.gpu.count))
        told.happen(event.PodBound(one, NodeName("n0"), held, NOW_US - minutes * 60 * SECOND_US))
    return told


def of(team: str, number: int, gpus: int = 1, *, priority: int = 0) -> Pod:
    """A pod of a team."""
    return work(team, 1, shape(gpus), first=number, priority=priority)[0]


def victims(told: Story, *asking: Pod) -> list[str]:
    """Which pods go as these come one after the other."""
    return [uid for one in asking for uid in evicted(told.arrive(one))]


THREE_OF_B_AND_ONE_OF_C = [(of("b", 0), 3), (of("b", 1), 5), (of("b", 2), 4), (of("c", 0), 1)]


@pytest.mark.parametrize(
    ("order", "goes"),
    [("share-first", ["b0", "b2", "c0"]), ("work-lost-first", ["c0", "b0", "b2"])],
)
def test_the_queue_that_borrowed_the_most_or_the_work_that_ran_the_least_goes_first(
    order: str, goes: list[str]
) -> None:
    """By hand: b has borrowed 3, so two of it go before the one of c; by minutes it is 1, 3, 4, 5."""
    told = fleet(PreemptionPolicy(victim_order=VictimOrder(order)), *THREE_OF_B_AND_ONE_OF_C)
    assert victims(told, of("a", 0), of("a", 1), of("a", 2)) == goes


def test_nothing_goes_that_its_queue_owns_however_little_it_loses() -> None:
    """By hand: of the two that c runs it owns one, so it loses the newest and then no more."""
    running = [(of("b", 0), 8), (of("b", 1), 9), (of("c", 0), 1), (of("c", 1), 2)]
    told = fleet(WORK_LOST_FIRST, *running, c_owns=1)
    assert victims(told, *(of("a", number) for number in range(4))) == ["c0", "b0", "b1"]


def test_fewer_pods_and_lower_priorities_come_before_less_work_lost() -> None:
    """By hand: one pod of b with two GPUs, and not two of one; then b, as c is more important."""
    running = [(of("b", 0, 2), 50), (of("b", 1), 41), (of("b", 2), 40), (of("c", 0, priority=1), 1)]
    told = fleet(WORK_LOST_FIRST, *running)
    assert victims(told, of("a", 0, 2), of("a", 1)) == ["b0", "b2"]


def test_a_gang_takes_what_loses_the_least_whichever_queue_has_it() -> None:
    """By hand: above a quarter of a GPU hour minutes count for a gang, and c has run for the fewest."""
    running = [(of("b", 0), 20), (of("b", 1), 50), (of("b", 2), 50), (of("c", 0), 5)]
    told = fleet(WORK_LOST_FIRST, *running)
    told.gangs(gang("g", 2, queue="a"))
    said = told.arrive(*(pod(f"g{number}", shape(1), queue="a", gang="g") for number in range(2)))
    assert set(evicted(said)) == {"b0", "c0"}


def test_what_a_deleted_queue_left_running_goes_first_all_the_same() -> None:
    """docs/queues.md, "Who may use a queue": also work below it."""
    told = fleet(WORK_LOST_FIRST, *THREE_OF_B_AND_ONE_OF_C)
    told.happen(event.QueueRemoved(QueueName("b")))
    assert victims(told, *(of("a", number) for number in range(4))) == ["b0", "b2", "b1", "c0"]


def test_what_is_owed_goes_before_own_work_however_much_it_loses() -> None:
    told = fleet(WORK_LOST_FIRST, (of("a", 9), 1), (of("b", 0), 50), (of("b", 1), 40))
    assert victims(told, of("a", 0, priority=5)) == ["b1"]


def test_who_would_borrow_takes_only_where_it_is_its_turn() -> None:
    """By hand: of the root's 4 GPUs b has 3 and c 1. What a takes of b is its turn once, at 1 to 2; of c
    nothing is, though that has run for the shortest.
    """
    policy = PreemptionPolicy(borrowing=VictimScope.ANY, victim_order=VictimOrder.WORK_LOST_FIRST)
    told = fleet(policy, *THREE_OF_B_AND_ONE_OF_C, root=4)
    assert victims(told, of("a", 0), of("a", 1)) == ["b0"]
