"""What may start on a node that is being drained: what ends by the last end that the drain waits for."""

import msgspec
import pytest

from gpufleet.engine.event import NodeSet
from gpufleet.model.pod import Pod
from tests.engine.fleet_builder import SECOND_US, Story, gang, members, node, pod, shape


def running(one: Pod, for_s: int) -> Pod:
    """A pod that says how long it runs."""
    return msgspec.structs.replace(one, run_time_us=for_s * SECOND_US)


def draining(*, until_s: int, old_s: int | None) -> Story:
    """One node of four GPUs, on which one is held."""
    story = Story()
    open_node = node("a", 4)
    story.nodes(open_node)
    old = pod("old", shape(1))
    if old_s is not None:
        old = running(old, old_s)
    story.run_on(old, "a", "a/0")
    closed = msgspec.structs.replace(open_node, unschedulable=True, draining_until_us=until_s * SECOND_US)
    story.happen(NodeSet(closed))
    return story


@pytest.mark.parametrize(
    ("until_s", "old_s", "for_s", "starts"),
    [
        (3600, 600, 600, True),
        (3600, 600, 601, False),
        # The drain does not wait for what ends after its moment, nor for what says no end.
        (500, 600, 100, False),
        (3600, None, 100, False),
    ],
)
def test_it_has_to_end_by_the_last_end_that_is_waited_for(
    *, until_s: int, old_s: int | None, for_s: int, starts: bool
) -> None:
    story = draining(until_s=until_s, old_s=old_s)
    story.arrive(running(pod("new", shape(1)), for_s))
    assert ("new" in story.binds) == starts


def test_work_whose_end_is_not_known_stays_off() -> None:
    story = draining(until_s=3600, old_s=600)
    story.arrive(pod("new", shape(1)))
    assert "new" not in story.binds


def test_a_gang_starts_whole_or_not_at_all() -> None:
    story = draining(until_s=3600, old_s=600)
    for name, size in (("fits", 2), ("large", 4)):
        story.gangs(gang(name, size))
        story.arrive(*(running(one, 60) for one in members(name, size, shape(1))))
    assert sorted(story.binds) == ["fits-0", "fits-1"]


def test_the_node_is_closed_to_others_afterwards() -> None:
    story = draining(until_s=3600, old_s=600)
    story.arrive(running(pod("new", shape(1)), 60), pod("unknown", shape(1)))
    assert "unknown" not in story.binds
