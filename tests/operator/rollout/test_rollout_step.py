"""A rollout over a small fleet, in virtual time."""

import pytest

from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.rollout_settings import NodeCount, Window
from gpufleet.operator.rollout.stamp import RolloutPhase, RolloutState
from gpufleet.operator.rollout.windows import US_PER_S
from tests.operator.rollout.fleet import NEW, NEWER, OLD, START_US, Fleet, node, pod, with_settings

BROKEN = frozenset({OLD})


def test_one_canary_goes_first_and_is_watched_before_the_others_follow() -> None:
    fleet = Fleet(
        node("a", pod("w")), node("b"), node("c"), settings=with_settings(nodes_at_once=NodeCount(2))
    )

    fleet.run()

    assert fleet.images() == {"a": NEW, "b": NEW, "c": NEW}
    assert fleet.states == ["Canary", "Soaking", "Rolling", "Done"]
    assert [name for name, phase in fleet.phases if phase is RolloutPhase.CORDONED] == ["a", "b", "c"]
    returned, begun = (NodeName("a"), RolloutPhase.RETURNED), (NodeName("b"), RolloutPhase.CORDONED)
    assert fleet.phases.index(returned) < fleet.phases.index(begun)
    assert not any(one.is_cordoned for one in fleet.nodes.values())
    assert fleet.evictions == {"w": 1}


def test_at_most_so_many_nodes_are_under_way() -> None:
    fleet = Fleet(
        *(node(f"n{number}") for number in range(9)),
        settings=with_settings(nodes_at_once=NodeCount(30, is_percent=True)),
    )

    fleet.run()

    assert set(fleet.images().values()) == {NEW}
    assert fleet.under_way_most == 3


def test_a_failed_canary_gets_its_driver_back_by_itself_and_no_other_node_begins() -> None:
    fleet = Fleet(node("a", works=BROKEN), node("b"), node("c"))

    fleet.run()

    assert fleet.images() == {"a": OLD, "b": OLD, "c": OLD}
    assert fleet.changed == [("a", NEW), ("a", OLD)]
    assert fleet.phase("a") is RolloutPhase.ROLLED_BACK
    assert (fleet.phase("b"), fleet.phase("c")) == (None, None)
    assert not fleet.nodes[NodeName("a")].is_cordoned
    assert fleet.progress is not None
    assert fleet.progress.state is RolloutState.STOPPED
    assert fleet.progress.reason == (
        "canary a: the driver did not run in time: modprobe: exec format error; "
        "another image in the policy begins anew"
    )


def test_the_canaries_that_had_returned_are_drained_again_and_turned_back_as_well() -> None:
    fleet = Fleet(node("a"), node("b", works=BROKEN), node("c"), settings=with_settings(canaries=2))
    fleet.pass_s(200)
    assert fleet.phase("a") is RolloutPhase.RETURNED
    fleet.nodes[NodeName("a")].pods.append(pod("came-later"))

    fleet.run()

    assert fleet.images() == {"a": OLD, "b": OLD, "c": OLD}
    assert fleet.evictions == {"came-later": 1}
    assert {fleet.phase("a"), fleet.phase("b")} == {RolloutPhase.ROLLED_BACK}


def test_a_canary_whose_driver_ends_while_it_is_watched_is_turned_back() -> None:
    fleet = Fleet(node("a"), node("b"), settings=with_settings(soak_s=600))
    fleet.pass_s(300)
    assert fleet.states[-1] == "Soaking"
    fleet.nodes[NodeName("a")].works = BROKEN

    fleet.run()

    assert fleet.images() == {"a": OLD, "b": OLD}
    assert fleet.states[-2:] == ["RollingBack", "Stopped"]


def test_another_image_begins_anew_after_a_stop() -> None:
    fleet = Fleet(node("a", works=frozenset({OLD, NEWER})), node("b"))
    fleet.run()
    fleet.target = NEWER

    fleet.run()

    assert fleet.images() == {"a": NEWER, "b": NEWER}
    assert fleet.states[-4:] == ["Canary", "Soaking", "Rolling", "Done"]


def test_a_node_that_fails_later_is_turned_back_and_named_and_the_others_go_on() -> None:
    fleet = Fleet(*(node(name) for name in "abcdef"))
    fleet.nodes[NodeName("c")].works = BROKEN

    fleet.run()

    assert fleet.images() == {"a": NEW, "b": NEW, "c": OLD, "d": NEW, "e": NEW, "f": NEW}
    assert fleet.progress is not None
    assert fleet.progress.state is RolloutState.DONE
    assert fleet.progress.reason == "c: the driver did not run in time: modprobe: exec format error"


def test_more_failures_than_the_policy_allows_stop_the_rollout() -> None:
    fleet = Fleet(*(node(name) for name in "abcdef"), settings=with_settings(failures_most=NodeCount(1)))
    for name in "bcde":
        fleet.nodes[NodeName(name)].works = BROKEN

    fleet.run()

    assert [name for name, image in fleet.changed if image == NEW] == ["a", "b", "c"]
    assert fleet.progress is not None
    assert fleet.progress.reason == "2 nodes failed and the policy allows 1: b, c"


def test_a_node_whose_way_back_fails_stays_cordoned_and_says_both() -> None:
    fleet = Fleet(node("a"), node("b", works=frozenset()), settings=with_settings(failures_most=NodeCount(1)))

    fleet.run()

    stamp = fleet.nodes[NodeName("b")].stamp
    assert stamp is not None
    assert stamp.phase is RolloutPhase.FAILED
    assert stamp.reason == (
        "the driver did not run in time: modprobe: exec format error; "
        "then with the driver of before: the driver did not run in time: modprobe: exec format error"
    )
    assert fleet.nodes[NodeName("b")].is_cordoned


def test_work_that_does_not_end_keeps_its_node_as_it_is_and_another_canary_is_taken() -> None:
    fleet = Fleet(node("a", pod("kept", is_guarded=True)), node("b"), node("c"))

    fleet.run()

    assert fleet.images() == {"a": OLD, "b": NEW, "c": NEW}
    assert fleet.evictions == {}
    assert not fleet.nodes[NodeName("a")].is_cordoned
    assert fleet.progress is not None
    assert fleet.progress.reason == "a: 1 pod did not end in time: the budget of kept"


def test_what_refuses_is_named_while_it_does() -> None:
    fleet = Fleet(node("a", pod("kept", is_guarded=True)))

    fleet.pass_s(60)

    stamp = fleet.nodes[NodeName("a")].stamp
    assert stamp is not None
    assert (stamp.phase, stamp.reason) == (RolloutPhase.STUCK, "the budget of kept")


def test_ends_that_come_soon_are_waited_for_and_nothing_is_evicted() -> None:
    work = pod("ends-by-itself")
    work.ends_us = None
    fleet = Fleet(node("a", work, wait_until_us=START_US + 300 * US_PER_S))
    fleet.pass_s(200)
    assert fleet.phase("a") is RolloutPhase.WAITING
    fleet.nodes[NodeName("a")].pods.clear()

    fleet.run()

    assert fleet.images() == {"a": NEW}
    assert fleet.evictions == {}


def test_a_checkpoint_is_asked_for_once_with_one_end_and_then_the_work_is_evicted() -> None:
    fleet = Fleet(node("a", pod("trains", writes_checkpoints=True)))

    fleet.pass_s(50)
    assert fleet.evictions == {}
    fleet.run()

    (ends_us,) = fleet.asked[PodUid("trains")]
    assert ends_us == START_US + 60 * US_PER_S
    assert fleet.evictions == {"trains": 1}


def test_an_answered_checkpoint_is_not_waited_for_any_longer() -> None:
    work = pod("trains", writes_checkpoints=True)
    fleet = Fleet(node("a", work))
    fleet.pass_s(10)
    work.writes_checkpoints = False

    fleet.pass_s(10)

    assert fleet.evictions == {"trains": 1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"is_ready": False}, "b: not ready"),
        ({"is_ready": None}, "b: not ready"),
        ({"is_cordoned": True}, "b: cordoned by others"),
        ({"blocker": "nouveau is loaded"}, "b: nouveau is loaded"),
    ],
)
def test_a_node_that_cannot_begin_is_named_and_stops_no_other(changes: dict[str, object], words: str) -> None:
    fleet = Fleet(node("a"), node("b", **changes), node("c"))

    fleet.pass_s(2000)

    assert fleet.images() == {"a": NEW, "b": OLD, "c": NEW}
    assert fleet.progress is not None
    assert (fleet.progress.state, fleet.progress.reason) == (RolloutState.ROLLING, words)
    assert fleet.nodes[NodeName("b")].is_cordoned == bool(changes.get("is_cordoned"))


def test_a_node_that_others_cordoned_begins_when_they_are_done() -> None:
    fleet = Fleet(node("a"), node("b", is_cordoned=True))
    fleet.pass_s(1000)
    fleet.nodes[NodeName("b")].is_cordoned = False

    fleet.run()

    assert fleet.images() == {"a": NEW, "b": NEW}


def test_a_cordon_that_somebody_takes_off_under_way_is_put_on_again() -> None:
    fleet = Fleet(node("a", pod("kept", is_guarded=True)))
    fleet.pass_s(60)
    fleet.nodes[NodeName("a")].is_cordoned = False

    fleet.step()

    assert fleet.nodes[NodeName("a")].is_cordoned


def test_a_node_that_is_deleted_under_way_stops_nothing() -> None:
    fleet = Fleet(node("a"), node("b", pod("kept", is_guarded=True)), node("c"))
    fleet.pass_s(600)
    assert fleet.phase("b") is RolloutPhase.STUCK
    del fleet.nodes[NodeName("b")]

    fleet.run()

    assert fleet.images() == {"a": NEW, "c": NEW}


def test_a_node_that_comes_later_gets_the_image_without_another_canary() -> None:
    fleet = Fleet(node("a"))
    fleet.run()
    fleet.nodes[NodeName("late")] = node("late")

    fleet.run()

    assert fleet.images() == {"a": NEW, "late": NEW}
    assert fleet.states == ["Canary", "Soaking", "Done", "Rolling", "Done"]


def test_a_node_that_opts_out_while_it_drains_is_let_go_as_it_was() -> None:
    fleet = Fleet(node("a", pod("kept", is_guarded=True)), node("b"))
    fleet.pass_s(60)
    fleet.nodes[NodeName("a")].has_opted_out = True

    fleet.run()

    assert fleet.images() == {"a": OLD, "b": NEW}
    assert fleet.phase("a") is None
    assert not fleet.nodes[NodeName("a")].is_cordoned


def test_a_node_whose_driver_is_skipped_keeps_it_and_the_rollout_is_done_without_it() -> None:
    fleet = Fleet(node("a", is_skipped=True), node("b"))

    fleet.run()

    assert fleet.images() == {"a": OLD, "b": NEW}
    assert fleet.states[-1] == "Done"


def test_a_node_that_is_skipped_under_way_goes_on() -> None:
    fleet = Fleet(node("a"), node("b"))
    fleet.pass_s(60)
    fleet.nodes[NodeName("a")].is_skipped = True

    fleet.run()

    assert fleet.images() == {"a": NEW, "b": NEW}


def test_nodes_under_way_go_on_to_an_image_that_the_policy_names_meanwhile() -> None:
    fleet = Fleet(node("a"), node("b"))
    fleet.pass_s(60)
    fleet.target = NEWER

    fleet.run()

    assert fleet.images() == {"a": NEWER, "b": NEWER}
    assert fleet.changed == [("a", NEW), ("a", NEWER), ("b", NEWER)]


def test_a_first_driver_that_comes_late_is_taken_when_it_runs() -> None:
    fleet = Fleet(node("a", image="", driver_s=1000))
    fleet.pass_s(400)
    assert fleet.phase("a") is RolloutPhase.FAILED

    fleet.pass_s(1000)

    assert fleet.phase("a") is RolloutPhase.RETURNED
    assert not fleet.nodes[NodeName("a")].is_cordoned


def test_a_first_driver_that_does_not_work_says_that_there_is_no_way_back_and_keeps_no_slot() -> None:
    """The other canary works with it, keeps it, and is named too. Another image goes on from there."""
    works = frozenset({NEWER})
    nodes = [node("a", image="", works=works), node("b", image=""), node("c", image="")]
    fleet = Fleet(*nodes, settings=with_settings(canaries=2))

    fleet.run()

    no_way_back = "there is no way back, as the node had no driver of a rollout before"
    assert fleet.images() == {"a": NEW, "b": NEW, "c": ""}
    assert (fleet.phase("a"), fleet.phase("b")) == (RolloutPhase.FAILED, RolloutPhase.RETURNED)
    assert fleet.progress is not None
    assert fleet.progress.state is RolloutState.STOPPED
    assert fleet.progress.reason == (
        f"canary a: the driver did not run in time: modprobe: exec format error; {no_way_back}; "
        f"canary b keeps the image: {no_way_back}; another image in the policy begins anew"
    )

    fleet.target = NEWER
    fleet.run()

    assert fleet.images() == {"a": NEWER, "b": NEWER, "c": NEWER}
    assert not any(one.is_cordoned for one in fleet.nodes.values())


TOOLKIT = f"toolkit {NEW}"


def test_a_first_toolkit_that_does_not_work_leaves_and_the_node_is_as_it_was_before() -> None:
    fleet = Fleet(node("a", image="", works=BROKEN), node("b", image=""), target=TOOLKIT)

    fleet.run()

    assert fleet.images() == {"a": "", "b": ""}
    assert fleet.changed == [("a", TOOLKIT), ("a", "")]
    assert fleet.phase("a") is RolloutPhase.ROLLED_BACK
    assert not fleet.nodes[NodeName("a")].is_cordoned
    assert fleet.progress is not None
    assert fleet.progress.state is RolloutState.STOPPED


def test_a_canary_gives_its_first_toolkit_back_when_another_canary_fails() -> None:
    well = node("a", pod("w"), image="", works=frozenset({TOOLKIT}))
    broken = node("b", image="", works=BROKEN)
    fleet = Fleet(well, broken, settings=with_settings(canaries=2), target=TOOLKIT)
    fleet.pass_s(200)
    assert fleet.phase("a") is RolloutPhase.RETURNED

    fleet.run()

    assert fleet.images() == {"a": "", "b": ""}
    assert {fleet.phase("a"), fleet.phase("b")} == {RolloutPhase.ROLLED_BACK}


def test_a_node_that_is_not_ready_without_its_first_toolkit_stays_cordoned_and_says_so() -> None:
    fleet = Fleet(node("a", image="", works=BROKEN), target=TOOLKIT)
    fleet.pass_s(100)
    fleet.nodes[NodeName("a")].is_ready = False

    fleet.run()

    stamp = fleet.nodes[NodeName("a")].stamp
    assert stamp is not None
    assert (stamp.phase, stamp.is_cordon_ours) == (RolloutPhase.FAILED, True)
    assert "it did not leave in time" in stamp.reason
    assert fleet.nodes[NodeName("a")].is_cordoned


def test_no_node_begins_while_the_policy_is_paused_and_those_under_way_go_on() -> None:
    fleet = Fleet(node("a"), node("b"))
    fleet.pass_s(20)
    fleet.settings = with_settings(is_paused=True)

    fleet.pass_s(2000)

    assert fleet.images() == {"a": NEW, "b": OLD}


def test_nodes_begin_in_windows_alone_and_end_outside_of_them() -> None:
    # A window of one minute each hour; draining, changing and validating takes longer.
    settings = with_settings(soak_s=0, windows=(Window("30 * * * *", 60),))
    fleet = Fleet(node("a", pod("w")), node("b"), settings=settings)

    fleet.pass_s(29 * 60)
    assert fleet.phases == []
    fleet.pass_s(15 * 60)
    assert fleet.images() == {"a": NEW, "b": OLD}
    fleet.run()

    assert fleet.images() == {"a": NEW, "b": NEW}


def test_no_node_begins_before_it_is_known_which_is_best() -> None:
    fleet = Fleet(node("a"), node("b"))
    fleet.order = None

    found = fleet.step()

    assert (found.able, found.places, fleet.phases) == (("a", "b"), 1, [])
    fleet.order = (NodeName("b"),)
    fleet.run()
    assert [name for name, image in fleet.changed] == ["b", "a"]


def test_work_with_a_place_elsewhere_is_asked_to_save_itself_and_moves() -> None:
    fleet = Fleet(node("a", pod("trains", writes_checkpoints=True, place="b")))

    fleet.pass_s(50)
    assert fleet.phase("a") is RolloutPhase.ASKING
    fleet.run()

    assert fleet.evictions == {"trains": 1}
    assert fleet.images() == {"a": NEW}


def test_work_that_did_not_move_in_time_is_not_to_move_any_more() -> None:
    fleet = Fleet(node("a", pod("kept", is_guarded=True, place="b")))

    def to_move() -> list[bool]:
        return [one.is_asked_to_move for one in fleet.nodes[NodeName("a")].pods]

    fleet.pass_s(60)
    assert to_move() == [True]

    fleet.run()

    assert to_move() == [False]
    assert fleet.images() == {"a": OLD}


def test_a_node_whose_driver_does_not_work_is_named_within_ten_seconds() -> None:
    fleet = Fleet(node("a"), node("b", works=BROKEN), node("c"), settings=with_settings(soak_s=0))
    named_us = failed_us = None
    while named_us is None:
        stamp = fleet.nodes[NodeName("b")].stamp
        if stamp is not None and stamp.phase is RolloutPhase.CHANGING and not stamp.is_rollback:
            failed_us = stamp.deadline_us
        found = fleet.step()
        if fleet.progress is not None and "b: the driver did not run in time" in fleet.progress.reason:
            named_us = fleet.now_us
        # As the operator does: it looks again at once after a write, and else when the step says.
        if not found.actions and found.wake_at_us is not None:
            fleet.now_us = max(found.wake_at_us, fleet.now_us)
        elif not found.actions:
            fleet.now_us += US_PER_S

    assert failed_us is not None
    assert named_us - failed_us <= 10 * US_PER_S


def test_nodes_that_cannot_begin_keep_a_rollout_from_going_on_and_others_do_not() -> None:
    fleet = Fleet(node("a"), node("b", is_ready=False), node("c", is_cordoned=True))

    assert fleet.step().blocked == (), "the first is about to begin"
    fleet.pass_s(2000)

    assert set(fleet.step().blocked) == {"b", "c"}
    fleet.settings = with_settings(is_paused=True)
    assert fleet.step().blocked == ()


def test_nodes_go_in_the_order_in_which_they_are_best_drained() -> None:
    fleet = Fleet(node("a"), node("b"), node("c"))
    fleet.order = (NodeName("c"), NodeName("b"))

    fleet.run()

    assert [name for name, image in fleet.changed] == ["c", "b", "a"]
