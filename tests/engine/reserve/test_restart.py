"""What was reserved before a restart is reserved after it."""

import msgspec
import pytest

from gpufleet.engine.event import Event, NodeSet, PodAdded, PodBound, QueueSet, ReservationsRecalled
from gpufleet.engine.instruction import ReservedPlace
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid
from gpufleet.model.pod import Pod
from tests.engine.fleet_builder import SECOND_US, Story, node, placed, pod, shape
from tests.engine.reserve.holders import holders, running, team

HALF_A_MINUTE = running("half-a-minute", shape(2), for_s=30)
MINUTE = running("minute", shape(2), for_s=60)
LONG = running("long", shape(2), for_s=300)
ENDLESS = pod("endless", shape(1), queue="team")


def before_the_restart(gpus: int = 2) -> Story:
    """The place on node b falls free first; a third GPU there is somebody's for ever."""
    story = Story()
    story.nodes(node("a", 2), node("b", 3))
    story.queues(team())
    story.run_on(MINUTE, "b", "b/0", "b/1")
    story.run_on(ENDLESS, "b", "b/2")
    story.run_on(LONG, "a", "a/0", "a/1")
    story.arrive(pod("waits", shape(gpus), queue="team"))
    return story


def facts(on_a: Pod = LONG, gpus: int = 2) -> list[Event]:
    """What a cluster tells a scheduler that starts anew."""
    return [
        QueueSet(team()),
        NodeSet(node("a", 2)),
        NodeSet(node("b", 3)),
        PodBound(MINUTE, NodeName("b"), (DeviceId("b/0"), DeviceId("b/1")), 0),
        PodBound(ENDLESS, NodeName("b"), (DeviceId("b/2"),), 0),
        PodBound(on_a, NodeName("a"), (DeviceId("a/0"), DeviceId("a/1")), 0),
        PodAdded(pod("waits", shape(gpus), queue="team")),
    ]


def test_a_holder_keeps_its_place_although_another_would_fall_free_first() -> None:
    before = before_the_restart()
    held = before.engine.reservations()
    assert [place.node for place in held[0].places] == ["b"]
    again = Story()
    again.happen(*facts(on_a=HALF_A_MINUTE), ReservationsRecalled(held))
    assert again.engine.reservations() == held


def test_what_comes_after_a_restart_is_decided_as_if_there_had_been_none() -> None:
    before = before_the_restart(gpus=3)
    again = Story()
    again.happen(*facts(gpus=3), ReservationsRecalled(before.engine.reservations()))
    for story in (before, again):
        story.depart("endless")
        story.arrive(running("brief", shape(1), for_s=60), running("lengthy", shape(1), for_s=61))
        story.wait_s(30)
        story.depart("brief")
    assert placed(before.said) == placed(again.said) == ["brief"]
    assert again.engine.reservations() == before.engine.reservations()


def test_what_was_reserved_on_a_node_that_is_gone_is_sought_anew() -> None:
    held = before_the_restart().engine.reservations()
    again = Story()
    set_a, bound_on_a = NodeSet(node("a", 2)), facts()[-2]
    waits = PodAdded(pod("waits", shape(2), queue="team"))
    again.happen(QueueSet(team()), set_a, bound_on_a, waits, ReservationsRecalled(held))
    assert [one.places[0].node for one in again.engine.reservations()] == ["a"]


def test_where_nobody_is_left_to_wait_for_another_place_is_sought() -> None:
    (held,) = before_the_restart().engine.reservations()
    told = msgspec.structs.replace(held, waits_for=(PodUid("long-gone"),))
    again = Story()
    again.happen(*facts(on_a=HALF_A_MINUTE), ReservationsRecalled((told,)))
    assert [(one.places[0].node, one.since_us) for one in again.engine.reservations()] == [("a", 0)]


def place(node: str, *devices: str, uid: str = "waits") -> ReservedPlace:
    return ReservedPlace(PodUid(uid), NodeName(node), tuple(map(DeviceId, devices)))


@pytest.mark.parametrize(
    "places",
    [
        (),
        (place("b", "b/0", "b/0"),),
        (place("b", "b/0"),),
        (place("b", "b/0", "b/1", "b/2"),),
        (place("b", "a/0", "a/1"),),
        (place("b", "b/0", "no-such-device"),),
        (place("no-such-node", "b/0", "b/1"),),
        (place("b", "b/0", "b/1", uid="nobody"),),
        (place("b", "b/0", "b/1", uid="minute"),),
        (place("b", "b/0", "b/1"), place("a", "a/0", "a/1")),
    ],
    ids=str,
)
def test_what_cannot_have_been_reserved_is_sought_anew(places: tuple[ReservedPlace, ...]) -> None:
    (held,) = before_the_restart().engine.reservations()
    again = Story()
    told = msgspec.structs.replace(held, since_us=-SECOND_US, places=places)
    again.happen(*facts(on_a=HALF_A_MINUTE), ReservationsRecalled((told,)))
    assert holders(again) == ["waits"]
    assert [(one.places[0].node, one.since_us) for one in again.engine.reservations()] == [("a", 0)]
