"""Work that starts on a node while a rollout waits for other work there: who may, and until when."""

from gpufleet.operator.rollout.stamp import RolloutPhase
from gpufleet.operator.rollout.windows import US_PER_S
from tests.operator.rollout.fleet import NEW, Fleet, node, pod, with_settings


def test_others_start_beside_work_that_is_waited_for_and_none_of_them_is_evicted() -> None:
    """After 30 minutes the node can be empty: 10 and 15 minutes fit before that, and 40 do not."""
    first = node("a", pod("ends", left_s=1800), waiting_s=[600, 900, 2400], late_s=40)
    fleet = Fleet(first, settings=with_settings(drain_s=3600))
    fleet.pass_s(60)
    assert first.stamp is not None
    assert first.open_until_us == first.stamp.deadline_us - 300 * US_PER_S
    assert fleet.backfilled == 2

    fleet.run()

    # One was bound when the node was closed to all already: the change waited for it too.
    assert (fleet.backfilled, fleet.images(), fleet.evictions) == (3, {"a": NEW}, {})
    assert not first.open_until_us


def test_nothing_starts_any_more_once_no_end_is_waited_for() -> None:
    first = node("a", pod("ends", left_s=60), pod("guarded", is_guarded=True), waiting_s=[3000])
    fleet = Fleet(first, settings=with_settings(drain_s=3600))
    fleet.pass_s(40)
    assert first.open_until_us
    fleet.pass_s(60)
    assert not first.open_until_us
    assert fleet.phase("a") is RolloutPhase.STUCK

    first.pods.append(pod("known", left_s=600))
    fleet.pass_s(60)
    assert not first.open_until_us, "a node is opened to others once in a drain"


def test_a_drain_that_is_too_short_for_others_takes_none() -> None:
    first = node("a", pod("ends", left_s=200), waiting_s=[60])
    fleet = Fleet(first, settings=with_settings(drain_s=300))
    fleet.run()
    assert (fleet.backfilled, fleet.images()) == (0, {"a": NEW})
