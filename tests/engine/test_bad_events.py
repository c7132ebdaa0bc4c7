"""One bad event harms only its owner: it is answered, changes nothing, and all else goes on."""

import pytest

from gpufleet.engine import event
from gpufleet.engine.engine_errors import EventError
from gpufleet.model.identifiers import NodeName
from gpufleet.model.shape import GpuRequest, Shape
from tests.engine.arrays.test_journal import snapshot
from tests.engine.fleet_builder import Story, device, gang, node, placed, pod, problems, shape

HUGE = 1 << 70

BAD = {
    "a device of another node": event.NodeSet(node("m", devices=(device("n/0"),))),
    "a device twice": event.NodeSet(node("m", devices=(device("x"), device("x")))),
    "too many devices": event.NodeSet(node("m", 257)),
    "more memory than a number holds": event.NodeSet(node("m", memory_bytes=HUGE)),
    "CPU below nothing": event.NodeSet(node("m", cpu_milli=-1)),
    "a known node that goes mad": event.NodeSet(node("n", 2, cpu_milli=HUGE)),
    "a device of huge memory": event.NodeSet(node("m", devices=(device("x", memory_mib=HUGE),))),
    "a device of negative memory": event.NodeSet(node("m", devices=(device("x", memory_mib=-1),))),
    "a link group beyond numbers": event.NodeSet(node("m", devices=(device("x", link_group=HUGE),))),
    "a device of no node": event.DeviceSet(NodeName("nowhere"), device("x")),
    "a device that its node has not": event.DeviceSet(NodeName("n"), device("x")),
    "a known device that goes mad": event.DeviceSet(NodeName("n"), device("n/0", memory_mib=HUGE)),
    "a gang of nobody": event.GangSet(gang("g", 0)),
    "more than a whole GPU": event.PodAdded(pod("bad", shape(1, milli=1001))),
    "less than nothing of a GPU": event.PodAdded(pod("bad", shape(1, milli=-1))),
    "GPUs below nothing": event.PodAdded(pod("bad", Shape(gpu=GpuRequest(-1, 1000)))),
    "milli of no GPU": event.PodAdded(pod("bad", Shape(gpu=GpuRequest(0, 500)))),
    "nothing of one GPU": event.PodAdded(pod("bad", Shape(gpu=GpuRequest(1, 0)))),
    "no memory of one GPU": event.PodAdded(pod("bad", Shape(gpu=GpuRequest(1, 0, 0)))),
    "a thousand million GPUs": event.PodAdded(pod("bad", shape(10**9))),
    "huge memory of a GPU": event.PodAdded(pod("bad", shape(1, memory_mib=HUGE))),
    "huge CPU": event.PodAdded(pod("bad", shape(cpu_milli=HUGE))),
    "negative memory": event.PodAdded(pod("bad", shape(memory_bytes=-1))),
    "a negative extended resource": event.PodAdded(pod("bad", shape(other=(("example.com/nic", -1),)))),
    "a fact of a huge pod": event.PodBound(pod("bad", shape(cpu_milli=HUGE)), NodeName("n")),
    "a target of negative weight": event.TargetWorkloadSet(((shape(1), -1),)),
    "a target of huge weight": event.TargetWorkloadSet(((shape(1), HUGE),)),
    "a target of impossible work": event.TargetWorkloadSet(((shape(1, milli=HUGE), 1),)),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_event_is_answered_and_changes_nothing(name: str) -> None:
    told, untroubled = Story("fgd"), Story("fgd")
    for story in (told, untroubled):
        story.happen(event.TargetWorkloadSet(((shape(1), 1),)))
        story.nodes(node("n", 2))
        story.arrive(pod("runs", shape(1)))
    said = told.happen(BAD[name], event.PodAdded(pod("good", shape(1))))
    assert len(problems(said)) == 1
    assert placed(said) == placed(untroubled.arrive(pod("good", shape(1)))) == ["good"]
    assert snapshot(told.engine.state.store.tables) == snapshot(untroubled.engine.state.store.tables)
    assert problems(told.arrive(pod("bad", shape(1)))) == []


def test_a_problem_names_the_field_and_what_was_expected() -> None:
    said = Story().arrive(pod("bad", shape(10**9)))
    assert problems(said) == ["gpu.count: out of range, found 1000000000; expected 0 to 256"]


def test_time_that_goes_back_is_refused_before_anything_is_taken_in() -> None:
    told = Story()
    told.wait_s(5)
    with pytest.raises(EventError, match="time goes back"):
        told.engine.step(0, [event.NodeSet(node("n"))])
    assert told.engine.state.fleet.row_by_name == {}


def test_events_that_come_twice_change_nothing_the_second_time() -> None:
    told = Story()
    told.nodes(node("n", 2, labels={"zone": "a"}))
    told.arrive(pod("p", shape(1)))
    told.run_on(pod("p", shape(1)), "n", "n/0")
    before = snapshot(told.engine.state.store.tables)
    told.nodes(node("n", 2, labels={"zone": "a"}))
    told.arrive(pod("p", shape(1)))
    told.run_on(pod("p", shape(1)), "n", "n/0")
    told.lose("nowhere")
    told.depart("nobody")
    assert snapshot(told.engine.state.store.tables) == before
