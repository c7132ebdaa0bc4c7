"""Which pods work outside of every queue evicts: those of lower priority, chosen as kube-scheduler chooses.

The first tables are the cases of kube-scheduler's own tests of preemption (kubernetes/kubernetes,
pkg/scheduler, TestSelectNodesForPreemption, TestPickOneNodeForPreemption and TestPreempt): nodes of five
units, and pods of one, two, three or five of them.
"""

from typing import NamedTuple

import pytest

from gpufleet.engine.event import DisruptionBudgetSet, NodeSet, PodBound
from gpufleet.engine.instruction import Evict
from gpufleet.engine.preempt.by_name import BY_QUEUES, find_search
from gpufleet.model.disruption_budget import DisruptionBudget
from gpufleet.model.identifiers import DEFAULT_QUEUE, DeviceId, NodeName, PodUid
from gpufleet.model.labels import LabelSelector
from gpufleet.model.pod import Pod
from tests.engine.fleet_builder import (
    SECOND_US,
    Story,
    device,
    evicted,
    gang,
    node,
    nominated,
    placed,
    pod,
    refused,
    shape,
    share,
)
from tests.engine.preempt.test_restart import restarted

SMALL, MEDIUM, LARGE, WHOLE = 1, 2, 3, 5
NEGATIVE, LOW, MID, HIGH, HIGHEST = -100, 0, 100, 1000, 10_000
DAY_US = 86_400 * SECOND_US


class Runs(NamedTuple):
    """A pod that runs on a node, of so many units, since the beginning of a day."""

    name: str
    node: int
    units: int
    priority: int
    day: int = 1


def of_units(uid: str, units: int, priority: int, *, preempts: bool = True) -> Pod:
    return pod(uid, shape(cpu_milli=units * 1000), priority=priority, preempts=preempts)


def cluster(*running: Runs, nodes: int) -> Story:
    """Nodes of five units with these pods, eight days after the first one started."""
    told = Story()
    told.nodes(*(node(f"n{number}", cpu_milli=5000) for number in range(1, nodes + 1)))
    for one in running:
        known = of_units(one.name, one.units, one.priority)
        told.happen(PodBound(known, NodeName(f"n{one.node}"), (), one.day * DAY_US))
    told.at_us = 8 * DAY_US
    return told


def chosen(told: Story, asking: Pod) -> tuple[str, set[str]]:
    """The node that is kept for a pod, or given to it, and the pods that end for it."""
    said = told.arrive(asking)
    kept = nominated(said).get(asking.uid) or told.binds.get(asking.uid) or ("", ())
    return kept[0], set(evicted(said))


@pytest.mark.parametrize(
    ("running", "asking", "expected"),
    [
        pytest.param(
            (Runs("a", 1, LARGE, MID), Runs("b", 2, LARGE, MID)),
            (LARGE, LOW),
            [("", set())],
            id="those that run have a higher priority",
        ),
        pytest.param(
            (Runs("a", 1, LARGE, MID), Runs("b", 2, LARGE, MID)),
            (LARGE, HIGH),
            [("n1", {"a"}), ("n2", {"b"})],
            id="either node would do",
        ),
        pytest.param(
            (Runs("a", 1, SMALL, LOW), Runs("b", 1, LARGE, MID), Runs("c", 2, WHOLE, HIGH)),
            (LARGE, HIGH),
            [("n1", {"b"})],
            id="a lower priority that is too small to help stays",
        ),
        pytest.param(
            (
                Runs("a", 1, SMALL, MID),
                Runs("b", 1, SMALL, LOW),
                Runs("c", 1, MEDIUM, MID),
                Runs("d", 1, SMALL, HIGH),
                Runs("e", 2, LARGE, HIGH),
            ),
            (LARGE, HIGH),
            [("n1", {"b", "c"})],
            id="of mixed priorities the low one goes with the one that is large enough",
        ),
        pytest.param(
            (
                Runs("a", 1, SMALL, LOW, 7),
                Runs("b", 1, SMALL, LOW, 6),
                Runs("c", 1, MEDIUM, MID, 5),
                Runs("d", 1, SMALL, HIGH, 4),
                Runs("e", 2, LARGE, HIGH, 3),
            ),
            (LARGE, HIGH),
            [("n1", {"a", "c"})],
            id="of equals the one that started later goes",
        ),
    ],
)
def test_victims_on_a_node(
    running: tuple[Runs, ...], asking: tuple[int, int], expected: list[tuple[str, set[str]]]
) -> None:
    assert chosen(cluster(*running, nodes=2), of_units("new", *asking)) in expected


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        pytest.param((Runs("1", 1, LARGE, MID), Runs("2", 2, LARGE, MID)), "n3", id="no eviction is needed"),
        pytest.param(
            (
                Runs("1a", 1, MEDIUM, MID),
                Runs("1b", 1, LARGE, MID),
                Runs("2a", 2, MEDIUM, MID),
                Runs("2b", 2, MEDIUM, LOW),
                Runs("3a", 3, MEDIUM, LOW),
                Runs("3b", 3, MEDIUM, LOW),
            ),
            "n3",
            id="the lowest highest priority",
        ),
        pytest.param(
            (
                Runs("1a", 1, MEDIUM, MID),
                Runs("1b", 1, LARGE, MID),
                Runs("2a", 2, LARGE, MID),
                Runs("2b", 2, MEDIUM, LOW),
                Runs("3a", 3, MEDIUM, MID),
                Runs("3b", 3, MEDIUM, MID),
            ),
            "n2",
            id="the smallest sum of priorities",
        ),
        pytest.param(
            (
                Runs("1a", 1, SMALL, MID),
                Runs("1b", 1, SMALL, NEGATIVE),
                Runs("1c", 1, SMALL, MID),
                Runs("1d", 1, SMALL, NEGATIVE),
                Runs("2a", 2, LARGE, MID),
                Runs("2b", 2, MEDIUM, NEGATIVE),
                Runs("3a", 3, MEDIUM, MID),
                Runs("3b", 3, SMALL, NEGATIVE),
                Runs("3c", 3, SMALL, LOW),
            ),
            "n2",
            id="the fewest pods",
        ),
        pytest.param(
            (
                Runs("1a", 1, SMALL, MID),
                Runs("1b", 1, SMALL, NEGATIVE),
                Runs("1c", 1, SMALL, NEGATIVE),
                Runs("2a", 2, LARGE, MID),
                Runs("2b", 2, MEDIUM, NEGATIVE),
                Runs("3a", 3, MEDIUM, MID),
                Runs("3b", 3, SMALL, NEGATIVE),
                Runs("3c", 3, SMALL, LOW),
            ),
            "n2",
            id="few pods before a sum that negative priorities make small",
        ),
        pytest.param(
            (
                Runs("1a", 1, MEDIUM, MID, 3),
                Runs("1b", 1, MEDIUM, MID, 3),
                Runs("2a", 2, MEDIUM, MID, 4),
                Runs("2b", 2, MEDIUM, MID, 4),
                Runs("3a", 3, MEDIUM, MID, 2),
                Runs("3b", 3, MEDIUM, MID, 2),
            ),
            "n2",
            id="the node whose pods started last",
        ),
        pytest.param(
            (
                Runs("1a", 1, MEDIUM, MID, 5),
                Runs("1b", 1, MEDIUM, MID, 3),
                Runs("2a", 2, MEDIUM, MID, 6),
                Runs("2b", 2, MEDIUM, MID, 2),
                Runs("3a", 3, MEDIUM, MID, 4),
                Runs("3b", 3, MEDIUM, MID, 7),
            ),
            "n3",
            id="the node whose pods started last of pods that all started at different times",
        ),
    ],
)
def test_the_node(running: tuple[Runs, ...], expected: str) -> None:
    node_kept, victims = chosen(cluster(*running, nodes=3), of_units("new", WHOLE, HIGH))
    assert node_kept == expected
    assert victims == {one.name for one in running if f"n{one.node}" == expected}


def test_the_lowest_highest_priority_comes_before_the_number_of_pods() -> None:
    told = cluster(
        Runs("1a", 1, SMALL, MID),
        Runs("1b", 1, SMALL, LOW),
        Runs("1c", 1, SMALL, LOW),
        Runs("2", 2, LARGE, HIGH),
        Runs("3a", 3, MEDIUM, MID),
        *(Runs(f"3{name}", 3, SMALL, LOW) for name in "bcd"),
        Runs("4a", 4, MEDIUM, MID),
        *(Runs(f"4{name}", 4, SMALL, MID) for name in "bc"),
        Runs("4d", 4, SMALL, NEGATIVE),
        nodes=4,
    )
    assert chosen(told, of_units("new", WHOLE, HIGHEST)) == ("n1", {"1a", "1b", "1c"})


@pytest.mark.parametrize(("preempts", "node_kept", "victims"), [(True, "n1", {"a", "b"}), (False, "", set())])
def test_no_pod_is_evicted_for_one_with_preemption_policy_never(
    preempts: bool, node_kept: str, victims: set[str]
) -> None:
    told = cluster(
        Runs("a", 1, SMALL, LOW),
        Runs("b", 1, SMALL, LOW),
        Runs("c", 2, LARGE, HIGH),
        Runs("d", 3, MEDIUM, MID),
        nodes=3,
    )
    asking = of_units("new", WHOLE, HIGH, preempts=preempts)
    assert chosen(told, asking) == (node_kept, victims)


# What kube-scheduler's tables do not ask about.


def on_gpus(told: Story, uid: str, number: int, priority: int, queue: str = DEFAULT_QUEUE) -> None:
    """A pod that runs on one GPU of a node."""
    told.run_on(pod(uid, shape(1), priority=priority, queue=queue), "n", f"n/{number}")


def one_node(gpus: int, **settings: bool) -> Story:
    told = Story(victims=None if settings.get("by_priority", True) else find_search(BY_QUEUES))
    told.nodes(node("n", gpus))
    return told


def test_a_pod_waits_for_its_victim_and_no_other_gets_the_room() -> None:
    told = one_node(1)
    on_gpus(told, "low", 0, 0)
    assert evicted(told.arrive(pod("high", shape(1), priority=10))) == {"low": "high"}
    assert placed(told.arrive(pod("late", shape(1), priority=5))) == []
    assert placed(told.depart("low")) == ["high"]


def test_a_place_that_is_kept_is_given_up_for_no_lower_priority_and_nobody_is_evicted_twice() -> None:
    told = one_node(2)
    on_gpus(told, "a", 0, 0)
    on_gpus(told, "b", 1, 1)
    assert evicted(told.arrive(pod("high", shape(1), priority=10))) == {"a": "high"}
    assert evicted(told.arrive(pod("higher", shape(1), priority=20))) == {"b": "higher"}
    assert evicted(told.arrive(pod("highest", shape(1), priority=30))) == {}
    assert placed(told.depart("a", "b")) == ["high", "higher"]
    said = told.wait_s(1)
    assert evicted(said) == {"high": "highest"}


def test_an_administrator_may_turn_it_off() -> None:
    told = one_node(1, by_priority=False)
    on_gpus(told, "low", 0, 0)
    assert evicted(told.arrive(pod("high", shape(1), priority=10))) == {}


def test_what_cannot_go_stays() -> None:
    told = one_node(3)
    on_gpus(told, "equal", 0, 10)
    told.run_on(pod("safe", shape(1), preemptible=False), "n", "n/1")
    told.run_on(pod("kept", shape(1), namespace="x"), "n", "n/2")
    told.happen(DisruptionBudgetSet(DisruptionBudget("web", "x", LabelSelector(), 0)))
    assert evicted(told.arrive(pod("high", shape(1), priority=10))) == {}
    told.happen(DisruptionBudgetSet(DisruptionBudget("web", "x", LabelSelector(), 1)))
    assert [one.uid for one in told.said if isinstance(one, Evict)] == ["kept"]


def test_names_of_queues_set_nobody_apart_while_no_queue_is_described() -> None:
    told = one_node(1)
    on_gpus(told, "low", 0, 0, queue="a")
    said = told.arrive(pod("high", shape(1), priority=10, queue="b"))
    assert evicted(said) == {"low": "high"}
    assert [one.reason for one in said if isinstance(one, Evict)] == ["preempted"]


def test_work_of_a_queue_is_not_evicted_for_work_outside_of_all_queues() -> None:
    told = one_node(2)
    told.queue("team")
    on_gpus(told, "theirs", 0, 0, queue="team")
    on_gpus(told, "free", 1, 1)
    assert evicted(told.arrive(pod("high", shape(1), priority=10))) == {"free": "high"}
    assert evicted(told.arrive(pod("higher", shape(1), priority=20))) == {}


def test_a_gang_makes_room_for_all_that_it_lacks_or_for_none() -> None:
    told = one_node(3)
    for number in range(3):
        on_gpus(told, f"low-{number}", number, 0 if number < 2 else 50)
    told.gangs(gang("train", 3, priority=10))
    assert evicted(told.arrive(*(pod(f"m{n}", shape(1), gang="train", priority=10) for n in range(3)))) == {}
    told.gangs(gang("pair", 2, priority=10))
    said = told.arrive(*(pod(f"p{n}", shape(1), gang="pair", priority=10) for n in range(2)))
    assert evicted(said) == {"low-0": "pair", "low-1": "pair"}


def test_a_gang_that_cannot_keep_its_minimum_goes_as_a_whole() -> None:
    told = one_node(3)
    told.gangs(gang("train", 2))
    for number in range(3):
        told.run_on(pod(f"m{number}", shape(1), gang="train"), "n", f"n/{number}")
    assert len(evicted(told.arrive(pod("one", shape(1), priority=5)))) == 1
    told = one_node(2)
    told.gangs(gang("train", 2))
    for number in range(2):
        told.run_on(pod(f"m{number}", shape(1), gang="train"), "n", f"n/{number}")
    assert evicted(told.arrive(pod("one", shape(1), priority=5))) == {"m0": "one", "m1": "one"}


def test_shares_are_freed_on_one_card() -> None:
    told = Story()
    told.nodes(node("n", devices=(device("n/0"), device("n/1"))))
    for card in range(2):
        for number in range(2):
            priority = 1 if card else number
            told.run_on(pod(f"s{card}{number}", share(500), priority=priority), "n", f"n/{card}")
    # Half of each card would come free with s00 and any other; a whole card only with both of one.
    said = told.arrive(pod("high", share(1000), priority=5))
    assert set(evicted(said)) == {"s00", "s01"}


def test_what_starts_in_a_step_is_not_evicted_in_that_step() -> None:
    told = one_node(1)
    said = told.arrive(pod("low", shape(1)), pod("high", shape(1), priority=10, created_at_us=5))
    assert placed(said) == ["high"]
    assert evicted(said) == {}


def test_a_low_priority_that_comes_later_is_found_by_work_that_found_none() -> None:
    told = one_node(2)
    on_gpus(told, "equal", 0, 10)
    assert refused(told.arrive(pod("high", shape(2), priority=10))) == ["high"]
    told.depart("equal")
    assert placed(told.said) == ["high"]
    told = one_node(2)
    on_gpus(told, "a", 0, 10)
    assert refused(told.arrive(pod("wants-two", shape(2), priority=10))) == ["wants-two"]
    on_gpus(told, "lower", 1, 3)
    assert [one.uid for one in told.said if isinstance(one, Evict)] == []
    told.depart("a")
    told.wait_s(1)
    assert [one.uid for one in told.said if isinstance(one, Evict)] == ["lower"]


LOWER_ON_M = (
    NodeSet(node("m", 1)),
    PodBound(pod("lower", shape(1), priority=1), NodeName("m"), (DeviceId("m/0"),)),
)


def evicted_for_another() -> Story:
    """A pod of two GPUs is evicted for one that needs a single GPU, and does not end yet."""
    told = one_node(2)
    told.run_on(pod("large", shape(2), priority=5), "n", "n/0", "n/1")
    told.nodes(node("without-gpus"))
    told.run_on(pod("least"), "without-gpus")
    assert evicted(told.arrive(pod("high", shape(1), priority=10))) == {"large": "high"}
    return told


@pytest.mark.parametrize(
    "waits",
    [
        pytest.param(pod("waits", shape(1), priority=5), id="of equal priority"),
        pytest.param(pod("waits", shape(1), priority=9, preempts=False), id="of one that evicts none"),
    ],
)
def test_work_that_could_not_evict_a_pod_waits_for_it_once_it_really_ends(waits: Pod) -> None:
    told = evicted_for_another()
    told.arrive(waits)
    told.wait_s(0)
    assert "waits" not in nominated(told.said)
    assert nominated(told.told_to_end("large")) == {"waits": ("n", ("large",))}
    assert placed(told.depart("large")) == ["high", "waits"]


def test_meanwhile_no_other_pod_is_evicted_for_it() -> None:
    told = evicted_for_another()
    told.happen(*LOWER_ON_M)
    assert evicted(told.arrive(pod("waits", shape(1), priority=5))) == {}
    assert nominated(told.told_to_end("large")) == {"waits": ("n", ("large",))}


def test_when_the_workload_that_evicted_starts_elsewhere_another_pod_is_evicted_for_it() -> None:
    told = evicted_for_another()
    told.happen(*LOWER_ON_M)
    told.arrive(pod("waits", shape(1), priority=5))
    said = told.nodes(node("free", 1))
    assert (placed(said), evicted(said)) == (["high"], {"lower": "waits"})


def test_work_that_could_evict_a_pod_too_waits_for_it_at_once() -> None:
    said = evicted_for_another().arrive(pod("waits", shape(1), priority=9))
    assert (nominated(said), evicted(said)) == ({"waits": ("n", ("large",))}, {})


def test_a_gang_that_is_evicted_for_another_is_waited_for_by_its_own_priority() -> None:
    told = one_node(2)
    told.gangs(gang("jobs", 2, priority=5))
    told.arrive(*(pod(f"m{number}", shape(1), gang="jobs") for number in range(2)))
    assert set(evicted(told.arrive(pod("high", shape(1), priority=10)))) == {"m0", "m1"}
    assert nominated(told.arrive(pod("equal", shape(1), priority=5))) == {}
    assert list(nominated(told.arrive(pod("above", shape(1), priority=6)))) == ["above"]


def test_the_next_engine_and_the_one_that_lives_say_the_same_when_who_evicted_starts_elsewhere() -> None:
    told = evicted_for_another()
    told.arrive(pod("waits", shape(1), priority=9, preempts=False))
    assert placed(told.nodes(node("free", 1))) == ["high"]
    again = restarted(told, "best-fit", frozenset({PodUid("large")}))
    assert told.engine.kept_places() == again.engine.kept_places() == ()


@pytest.mark.parametrize("needs", [1, 2, 3])
@pytest.mark.parametrize("nodes", [1, 2])
def test_of_equals_the_same_go_in_whatever_order_they_were_heard_of(needs: int, nodes: int) -> None:
    def went(uids: list[str]) -> dict[str, str | None]:
        told = Story()
        told.nodes(*(node(f"n{number}", 4) for number in range(nodes)))
        for uid in uids:
            told.run_on(
                pod(uid, shape(1)),
                f"n{int(uid[-1]) % nodes}",
                f"n{int(uid[-1]) % nodes}/{int(uid[-1]) // nodes}",
            )
        return evicted(told.arrive(pod("urgent", shape(needs), priority=9)))

    uids = [f"{number * 7 % 11:08x}-0000-4000-8000-00000000000{number}" for number in range(4 * nodes)]
    assert went(uids) == went(uids[::-1])
