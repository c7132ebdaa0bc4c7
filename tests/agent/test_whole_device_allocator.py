"""Each pod gets what it was granted; who was granted nothing gets what is free, or a sentence."""

from collections.abc import Sequence

import msgspec
import pytest

from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.devices.sharing.plan import TimeSlice
from tests.agent.plugin_world import PluginWorld, a_gpu, a_node, a_pod, answered, cut, held, instance
from tests.agent.set_clock import SetClock

FOUR = a_node(*(a_gpu(index) for index in range(4)))
ALL = ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]


def given(world: PluginWorld, available: Sequence[str], size: int = 1) -> list[str]:
    """What a container gets from a kubelet that follows our preference."""
    allocator = world.allocator()
    units = answered(allocator.prefer(available, [], size))
    answer = answered(allocator.allocate(units))
    assert answer.environment["GPUFLEET_DEVICES"] == ",".join(units)
    return units


def refusal(world: PluginWorld, units: Sequence[str]) -> str:
    with pytest.raises(RefusedError) as refused:
        answered(world.allocator().allocate(units))
    return str(refused.value)


def test_a_granted_pod_gets_its_grant() -> None:
    world = PluginWorld(FOUR, a_pod("a", 2, grant=["GPU-1", "GPU-3"]))
    assert given(world, ALL, 2) == ["GPU-1", "GPU-3"]


def test_a_pod_of_which_only_the_api_server_knows_gets_its_grant() -> None:
    world = PluginWorld(FOUR)
    world.add(a_pod("a", 1, grant=["GPU-2"]))
    assert given(world, ALL) == ["GPU-2"]


def test_a_pod_without_a_grant_gets_what_is_free_and_never_what_is_granted() -> None:
    world = PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-0"]), a_pod("stranger", 1))
    assert given(world, ALL) == ["GPU-1"]
    with pytest.raises(RefusedError, match="granted to team/a"):
        answered(world.allocator().prefer(["GPU-0"], [], 1))
    assert "team/stranger, which has no grant" in refusal(world, ["GPU-0"])


def test_a_stranger_that_asks_for_another_number_is_in_nobodys_way() -> None:
    world = PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-3"]), a_pod("stranger", 2))
    assert given(world, ALL) == ["GPU-3"]


def test_a_stranger_that_was_served_a_moment_ago_is_in_nobodys_way() -> None:
    world = PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-3"]), a_pod("stranger", 1))
    world.holders = (held("stranger", "GPU-0"),)
    assert given(world, ["GPU-1", "GPU-2", "GPU-3"]) == ["GPU-3"]


def test_a_stranger_that_was_refused_a_moment_ago_is_waited_for() -> None:
    world = PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-0"]), a_pod("stranger", 1))

    clock = SetClock(world, lambda: world.add(a_pod("stranger", 1, finished=True)))
    world.known = msgspec.structs.replace(world.known, clock=clock)
    assert given(world, ["GPU-0"]) == ["GPU-0"]


def test_what_twins_in_swapped_order_left_behind_is_no_strangers() -> None:
    twins = (a_pod("a", 1, grant=["GPU-0"]), a_pod("b", 1, grant=["GPU-1"]))
    world = PluginWorld(FOUR, *twins, a_pod("stranger", 1), holders=(held("a", "GPU-1"),))
    with pytest.raises(RefusedError, match="granted to team/b"):
        answered(world.allocator().prefer(["GPU-0"], [], 1))
    world.hold(held("stranger", "GPU-2"))
    assert given(world, ["GPU-0", "GPU-3"]) == ["GPU-0"]


def test_a_part_of_a_grant_is_refused_by_name() -> None:
    world = PluginWorld(FOUR, a_pod("a", 2, grant=["GPU-0", "GPU-1"]), a_pod("stranger", 1))
    assert "granted to team/a" in refusal(world, ["GPU-0"])


def test_what_init_containers_held_is_used_again_though_somebody_else_waits() -> None:
    pod = a_pod("a", 2, grant=["GPU-0", "GPU-1"], init=(1, ["GPU-0"]))
    world = PluginWorld(FOUR, pod)
    allocator = world.allocator()
    assert answered(allocator.prefer(ALL, [], 1)) == ["GPU-0"]
    answered(allocator.allocate(["GPU-0"]))
    world.add(a_pod("stranger", 2))
    assert answered(allocator.prefer(ALL, ["GPU-0"], 2)) == ["GPU-0", "GPU-1"]
    answered(allocator.allocate(["GPU-0", "GPU-1"]))


def test_of_a_larger_init_container_the_kubelet_may_leave_any_to_the_next() -> None:
    pod = a_pod("a", 1, grant=["GPU-0"], init=(2, ["GPU-0", "GPU-1"]))
    allocator = PluginWorld(FOUR, pod, a_pod("stranger", 1)).allocator()
    assert answered(allocator.prefer(ALL, [], 2)) == ["GPU-0", "GPU-1"]
    answered(allocator.allocate(["GPU-0", "GPU-1"]))
    answered(allocator.allocate(["GPU-1"]))


def test_without_the_api_server_only_known_grants_are_given() -> None:
    world = PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-0"]))
    world.silent = True
    assert given(world, ALL) == ["GPU-0"]
    world.hold(held("a", "GPU-0"))
    assert "API server does not answer" in refusal(world, ["GPU-1"])
    with pytest.raises(RefusedError, match="API server does not answer"):
        answered(world.allocator().prefer(ALL, [], 1))


def test_allocate_of_what_was_proposed_asks_the_api_server_only_once() -> None:
    world = PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-0"]))
    given(world, ALL)
    assert world.asked == 1
    allocator = world.allocator()
    answered(allocator.prefer(ALL, [], 1))
    world.now_s += 60
    answered(allocator.allocate(["GPU-0"]))
    assert world.asked == 3


def test_a_granted_instance_is_given_whatever_its_id_is_now() -> None:
    name = "nvidia.com/mig-1g.5gb"
    pod = a_pod("a", 1, grant=[instance("GPU-0", "1g.5gb", 1)], resource=name)
    allocator = PluginWorld(a_node(cut(0, "1g.5gb", "1g.5gb")), pod).allocator(name)
    assert answered(allocator.prefer(["MIG-0-0", "MIG-0-1"], [], 1)) == ["MIG-0-1"]
    assert answered(allocator.allocate(["MIG-0-1"])).cdi_devices == ("gpufleet.io/gpu=MIG-0-1",)


def test_more_than_one_replica_is_refused_where_that_is_configured() -> None:
    world = PluginWorld(a_node(a_gpu(0, TimeSlice(4), one_at_most=True)))
    replicas = ["GPU-0::0", "GPU-0::1", "GPU-0::2"]
    assert "failRequestsGreaterThanOne" in refusal(world, replicas[:2])
    with pytest.raises(RefusedError, match="failRequestsGreaterThanOne"):
        answered(world.allocator().prefer(replicas, [], 2))
    assert given(world, replicas) == ["GPU-0::0"]


def test_a_card_that_is_held_as_something_else_is_not_given() -> None:
    before = held("a", "GPU-0::1", resource="nvidia.com/gpu.shared")
    world = PluginWorld(FOUR, holders=(before,))
    assert "GPU-0 is still held by team/a as nvidia.com/gpu.shared" in refusal(world, ["GPU-0"])
    assert given(world, ALL) == ["GPU-1"]


def test_an_instance_of_a_card_that_is_held_whole_is_not_given() -> None:
    world = PluginWorld(a_node(cut(0, "1g.5gb")), holders=(held("a", "GPU-0"),))
    with pytest.raises(RefusedError, match="still held by team/a"):
        answered(world.allocator("nvidia.com/mig-1g.5gb").allocate(["MIG-0-0"]))


def test_replicas_of_one_card_do_not_stand_in_each_others_way() -> None:
    world = PluginWorld(a_node(a_gpu(0, TimeSlice(2))), holders=(held("a", "GPU-0::0"),))
    assert given(world, ["GPU-0::1"]) == ["GPU-0::1"]


def test_what_is_not_offered_any_more_is_refused() -> None:
    assert "not offered as nvidia.com/gpu" in refusal(PluginWorld(FOUR), ["GPU-9"])


def test_whoever_keeps_the_holders_is_told_that_something_was_given() -> None:
    told: list[bool] = []
    world = PluginWorld(FOUR)
    world.known = msgspec.structs.replace(world.known, gave=lambda: told.append(True))
    given(world, ALL)
    assert told


RUNS = a_pod("a", 1, grant=["GPU-0"], running=True)


def test_what_a_running_pod_has_is_given_to_no_other_though_the_kubelet_forgot_it() -> None:
    world = PluginWorld(FOUR, RUNS, a_pod("b", 1, grant=["GPU-1"], since_s=5))
    world.catch_up()
    assert given(world, ALL) == ["GPU-1"]
    assert "GPU-0 belongs to container main of team/a" in refusal(world, ["GPU-0"])
    with pytest.raises(RefusedError, match="belongs to container main of team/a"):
        answered(world.allocator().prefer(["GPU-0"], [], 1))


def test_a_stranger_gets_nothing_that_a_running_pod_has() -> None:
    world = PluginWorld(FOUR, RUNS, a_pod("s", 1))
    world.catch_up()
    assert given(world, ALL) == ["GPU-1"]
    assert "belongs to container main of team/a" in refusal(world, ["GPU-0"])


def test_a_kubelet_that_forgot_a_moment_ago_is_asked_before_a_refusal() -> None:
    """Our copy still says that it lists the pod that has ended since."""
    world = PluginWorld(FOUR, a_pod("old", 1), holders=(held("old", "GPU-0"),))
    world.pods, world.holders, world.ended = {}, (), {"uid-old"}
    world.add(a_pod("b", 1, grant=["GPU-0"]))
    assert given(world, ALL) == ["GPU-0"]


def test_a_pod_that_was_deleted_by_force_has_its_devices_until_its_containers_must_have_ended() -> None:
    """The kubelet drops it at once and offers its devices while its containers take their grace."""
    world = PluginWorld(FOUR, RUNS, holders=(held("a", "GPU-0"),))
    world.catch_up()
    world.pods, world.holders = {}, ()
    world.add(a_pod("b", 1, grant=["GPU-0"]))
    assert "team/a, which went from the API before it was finished" in refusal(world, ["GPU-0"])
    world.catch_up()
    assert [one.units for one in world.joined()] == [("GPU-0",)]
    world.ended = {"uid-a"}
    assert given(world, ALL) == ["GPU-0"]


def lost(pod: str, unit: str) -> PluginWorld:
    """A container ended whose kubelet listed it once and forgot it."""
    world = PluginWorld(FOUR, a_pod(pod, 1, grant=["GPU-0"], running=True), holders=(held(pod, unit),))
    world.catch_up()
    world.holders = ()
    world.add(msgspec.structs.replace(world.pods[f"uid-{pod}"], running=frozenset()))
    world.catch_up()
    return world


def test_a_container_that_starts_anew_has_its_own_back_also_as_a_twin() -> None:
    assert given(lost("a", "GPU-0"), ALL) == ["GPU-0"]
    assert given(lost("a", "GPU-2"), ALL) == ["GPU-2"]
    assert "GPU-2" in refusal(lost("a", "GPU-2"), ["GPU-0", "GPU-2"])


def forgotten(pod: str, unit: str) -> PluginWorld:
    """A container runs as the API server knows, and its kubelet listed it once and forgot it."""
    world = PluginWorld(FOUR, a_pod(pod, 1, grant=["GPU-0"], running=True), holders=(held(pod, unit),))
    world.catch_up()
    world.holders = ()
    world.catch_up()
    return world


def test_a_container_of_whose_end_the_api_server_has_not_heard_gets_no_other_device() -> None:
    """A container that ends is started again at once, often before its pod's status is written."""
    world = forgotten("a", "GPU-2")
    with pytest.raises(RefusedError, match="lost what container main of team/a has"):
        answered(world.allocator().prefer(ALL, [], 1))
    assert "when the API server knows that it ended" in refusal(world, ["GPU-1"])
    world.add(msgspec.structs.replace(world.pods["uid-a"], running=frozenset()))
    assert given(world, ALL) == ["GPU-2"]


def test_a_pod_that_is_known_to_ask_is_served_beside_a_container_that_the_kubelet_forgot() -> None:
    world = forgotten("a", "GPU-0")
    world.add(a_pod("b", 1, grant=["GPU-1"]))
    assert given(world, ALL) == ["GPU-1"]


def test_where_another_pod_may_be_asking_it_is_not_given_back() -> None:
    world = lost("a", "GPU-0")
    world.add(a_pod("b", 1, grant=["GPU-1"]))
    assert "team/b may ask for as many now" in refusal(world, ["GPU-0"])
    assert given(world, ALL) == ["GPU-1"]


def test_two_pods_that_may_both_be_asking_are_told_so() -> None:
    world = lost("a", "GPU-0")
    other = msgspec.structs.replace(a_pod("c", 1, grant=["GPU-3"]), started=frozenset({"main"}))
    world.add(other)
    world.catch_up()
    with pytest.raises(RefusedError, match="cannot be told which of them asks"):
        answered(world.allocator().prefer(ALL, [], 1))


def test_an_answer_that_a_dying_kubelet_may_have_taken_up_is_kept_from_others() -> None:
    twins = (a_pod("a", 1, grant=["GPU-0"]), a_pod("b", 1, grant=["GPU-1"], since_s=1))
    world = PluginWorld(FOUR, *twins)
    allocator = world.allocator()
    assert answered(allocator.prefer(ALL, [], 1)) == ["GPU-0"]
    answered(allocator.allocate(["GPU-0"]))
    assert "perhaps to container main of team/b" in refusal(world, ["GPU-0"])
    world.hold(held("b", "GPU-0"))
    assert given(world, ALL[1:]) == ["GPU-1"]


def test_a_pod_that_runs_on_a_device_that_nothing_knows_lets_none_be_given() -> None:
    world = PluginWorld(FOUR, a_pod("s", 1, running=True), a_pod("b", 1, grant=["GPU-1"]))
    world.catch_up()
    assert "container main of team/s runs on a device that neither" in refusal(world, ["GPU-1"])
