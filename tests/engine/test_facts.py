"""Facts the engine did not decide: refused binds, vanished nodes, unknown devices, sharing modes."""

import pytest

from gpufleet.engine.event import BindRefused, DeviceSet
from gpufleet.engine.instruction import RequeueAfter
from gpufleet.model.device import Serves
from gpufleet.model.identifiers import NodeName, PodUid
from tests.engine.fleet_builder import SECOND_US, Story, device, node, placed, pod, shape, share


def wake_s(told: Story) -> list[float]:
    """When the engine wants to be asked again, from the last step."""
    said = told.happen()
    return [one.at_us / SECOND_US for one in said if isinstance(one, RequeueAfter)]


def test_a_refused_bind_pauses_twice_as_long_each_time_and_a_minute_at_most() -> None:
    told = Story()
    told.nodes(node("n", 1))
    told.arrive(pod("p", shape(1)))
    for pause_s in (1, 2, 4, 8, 16, 32, 60, 60):
        started_s = told.at_us / SECOND_US
        told.refuse("p")
        assert wake_s(told) == [started_s + pause_s]
        assert placed(told.wait_s(pause_s - 0.000001)) == []
        assert placed(told.wait_s(0.000001)) == ["p"]


def test_during_the_pause_others_may_take_the_place() -> None:
    told = Story()
    told.nodes(node("n", 1))
    told.arrive(pod("p", shape(1)), pod("q", shape(1)))
    assert placed(told.refuse("p")) == ["q"]
    assert placed(told.wait_s(1)) == []
    assert placed(told.depart("q")) == ["p"]


def test_only_an_assumed_bind_can_be_refused() -> None:
    told = Story()
    told.nodes(node("n", 1))
    told.run_on(pod("p", shape(1)), "n", "n/0")
    assert told.happen(BindRefused(PodUid("p")), BindRefused(PodUid("nobody"))) == []
    assert placed(told.arrive(pod("q", shape(1)))) == []


def test_a_node_that_vanishes_keeps_its_pods_booked_until_it_is_back() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.arrive(pod("p", shape(1)))
    told.lose("n")
    assert told.engine.explain(PodUid("p")) is None
    assert placed(told.arrive(pod("q", shape(2)))) == []
    assert placed(told.nodes(node("n", 2))) == []
    assert placed(told.depart("p")) == ["q"]


def test_a_pod_removed_while_its_node_was_away_holds_nothing_afterwards() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.arrive(pod("p", shape(1)))
    told.lose("n")
    told.depart("p")
    told.nodes(node("n", 2))
    assert placed(told.arrive(pod("q", shape(2)))) == ["q"]


def test_a_bind_on_its_way_holds_a_gpu_of_a_node_that_names_them_only_now() -> None:
    told = Story()
    told.nodes(node("n", devices=(device("some-gpu"),)))
    told.arrive(pod("p", shape(1)))
    told.nodes(node("n", 1))
    assert placed(told.arrive(pod("q", shape(1)))) == []
    assert placed(told.run_on(pod("p", shape(1)), "n", None)) == []
    assert placed(told.depart("p")) == ["q"]


def test_a_bind_on_its_way_that_is_refused_gives_the_gpu_back_that_was_named_since() -> None:
    told = Story()
    told.nodes(node("n", devices=(device("some-gpu"),)))
    told.arrive(pod("p", shape(1)))
    told.nodes(node("n", 1))
    told.arrive(pod("q", shape(1)))
    assert placed(told.refuse("p")) == ["q"]


def test_a_bind_on_its_way_holds_its_own_gpu_again_when_the_node_shows_it_again() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.arrive(pod("p", shape(1)), pod("q", shape(1)))
    given = told.binds["p"][1][0]
    told.depart("q")
    told.nodes(node("n", devices=(device("some-gpu"), device("another-gpu"))))
    told.nodes(node("n", 2))
    told.arrive(pod("r", shape(1)))
    assert {given, told.binds["r"][1][0]} == {"n/0", "n/1"}


def test_a_bind_that_turns_out_to_hold_a_gpu_that_is_gone_holds_no_other_instead() -> None:
    told = Story()
    told.nodes(node("n", devices=(device("some-gpu"),)))
    told.arrive(pod("p", shape(1)))
    told.nodes(node("n", 1))
    told.arrive(pod("q", shape(1)))
    assert placed(told.run_on(pod("p", shape(1)), "n", "some-gpu")) == ["q"]


def test_what_stands_in_for_a_gpu_is_never_one_that_somebody_else_holds_by_name() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.arrive(pod("p", shape(1)))
    other = "n/1" if told.binds["p"] == ("n", ("n/0",)) else "n/0"
    told.run_on(pod("named", shape(1)), "n", other)
    told.nodes(node("n", devices=(device(other), device("x"))))
    assert placed(told.arrive(pod("q", shape(1)))) == []


def test_a_pod_on_a_node_nobody_has_seen_yet_is_counted_when_it_appears() -> None:
    told = Story()
    told.run_on(pod("p", shape(1)), "n", "n/1")
    told.run_on(pod("p", shape(1)), "n")
    told.nodes(node("n", 2))
    told.arrive(pod("q", shape(1)), pod("r", shape(1)))
    assert told.binds == {"q": ("n", ("n/0",))}


def test_a_device_that_is_not_seen_for_a_while_is_not_given_away_twice() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.run_on(pod("p", shape(1)), "n", "n/1")
    told.nodes(node("n", 1))
    told.arrive(pod("q", shape(1)))
    assert told.binds["q"] == ("n", ("n/0",)), "the pod on the hidden device takes no other instead"
    told.nodes(node("n", 2))
    assert placed(told.arrive(pod("r", shape(1)))) == []
    assert placed(told.depart("p")) == ["r"]


def test_a_device_without_known_id_takes_a_free_one_from_the_rest() -> None:
    told = Story()
    told.nodes(node("n", 3))
    told.run_on(pod("p", shape(2)), "n", None, "n/0")
    told.arrive(pod("q", shape(1)), pod("r", shape(1)))
    assert told.binds == {"q": ("n", ("n/2",))}
    told.depart("p")
    assert told.binds["r"] == ("n", ("n/0",))


def test_unknown_devices_never_stand_where_a_known_one_is() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.run_on(pod("unknown", shape(1)), "n", None)
    told.run_on(pod("known", shape(1)), "n", "n/1")
    told.lose("n")
    told.nodes(node("n", 2))
    told.nodes(node("n", 2, cpu_milli=32_000))
    held = told.engine.state.pods
    assert held.device_ids(held.row_by_uid[PodUid("known")]) == ("n/1",)
    assert held.device_ids(held.row_by_uid[PodUid("unknown")]) == ("n/0",)


def test_a_fact_over_commits_and_nothing_more_is_placed_there() -> None:
    told = Story()
    told.nodes(node("n", 1, cpu_milli=1000))
    told.run_on(pod("p", shape(1)), "n", "n/0")
    told.run_on(pod("q", shape(1)), "n", "n/0")
    told.depart("p")
    assert placed(told.arrive(pod("r", share(100, cpu_milli=0)))) == []
    assert placed(told.depart("q")) == ["r"]


def test_memory_shares_and_milli_shares_count_against_each_other() -> None:
    told = Story()
    told.nodes(node("n", 1))
    told.arrive(pod("memory", shape(1, milli=0, memory_mib=30_000)))
    # 10,000 of 40,000 MiB are left: a quarter in proportion fits, and a milli more does not.
    told.arrive(pod("more", share(251)), pod("quarter", share(250)))
    assert set(told.binds) == {"memory", "quarter"}
    assert placed(told.arrive(pod("whole", shape(1)))) == []
    told.depart("memory")
    assert "more" in told.binds


def test_a_share_with_its_own_memory_takes_both() -> None:
    told = Story()
    told.nodes(node("n", 1))
    told.arrive(pod("a", share(100, memory_mib=39_000)), pod("b", share(100, memory_mib=1001)))
    assert set(told.binds) == {"a"}
    told.arrive(pod("c", share(25)))
    assert "c" in told.binds, "25 thousandths of 40,000 MiB are the 1,000 that are left"
    assert placed(told.arrive(pod("d", share(1)))) == []


def test_a_device_that_does_not_tell_its_memory_takes_shares_by_milli_only() -> None:
    told = Story()
    told.nodes(node("n", 1, gpu_memory_mib=None))
    told.arrive(pod("a", share(500)), pod("b", share(100, memory_mib=1)))
    assert set(told.binds) == {"a"}


@pytest.mark.parametrize(
    ("serves", "expected"),
    [
        (Serves.ANY, {"share", "whole"}),
        (Serves.WHOLE, {"whole"}),
        (Serves.SHARE, {"share"}),
        (Serves.NOTHING, set()),
    ],
)
def test_a_device_serves_only_what_its_sharing_mode_says(serves: Serves, expected: set[str]) -> None:
    told = Story()
    told.nodes(node("n", 2, serves=serves))
    told.arrive(pod("share", share(500)), pod("whole", shape(1)))
    assert set(told.binds) == expected


def test_a_sick_device_gets_nothing_new_and_its_pod_stays() -> None:
    told = Story()
    told.nodes(node("n", 2))
    told.arrive(pod("p", share(500)))
    told.happen(DeviceSet(NodeName("n"), device("n/0", healthy=False)))
    told.arrive(pod("q", share(500)))
    assert told.binds == {"p": ("n", ("n/0",)), "q": ("n", ("n/1",))}
    told.arrive(pod("r", share(600)))
    said = told.happen(DeviceSet(NodeName("n"), device("n/0")))
    assert placed(said) == [], "healthy again, and still half taken"
    assert placed(told.depart("p")) == ["r"]


def test_a_node_that_shrinks_keeps_what_runs_and_takes_nothing_until_it_fits() -> None:
    told = Story()
    told.nodes(node("n", cpu_milli=4000))
    told.arrive(pod("a", shape(cpu_milli=2000)), pod("b", shape(cpu_milli=2000)))
    told.nodes(node("n", cpu_milli=3000))
    assert placed(told.arrive(pod("c", shape(cpu_milli=1000)))) == []
    assert placed(told.depart("a")) == ["c"]
