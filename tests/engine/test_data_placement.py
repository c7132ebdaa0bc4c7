"""Pods go where their data is, at a stated price in packing, and wait for it only where they say so."""

import msgspec

from gpufleet.engine import event
from gpufleet.engine.event_log import read_step, step_line
from gpufleet.model.data import DataAsk, DataCopy, DataNeeds, DataPolicy
from gpufleet.model.node import Node
from gpufleet.model.pod import Pod
from gpufleet.model.relations import Relations
from tests.engine.fleet_builder import Story, node, nominated, placed, pod, shape
from tests.engine.relation_builder import place_of

GB = 10**9
LLAMA = "model/meta-llama/Llama-3.1-70B"
BYTES = 141 * GB


def copy(*, complete: bool = True, size: int = BYTES, revision: str = "r1", name: str = LLAMA) -> DataCopy:
    """A copy of the weights in BF16."""
    return DataCopy(name, size, complete, revision, ("main",))


def holding(one: Node, *copies: DataCopy) -> Node:
    """The node with these copies in its folders."""
    return msgspec.structs.replace(one, data=copies)


def reading(
    uid: str, *asks: DataAsk, gpus: int = 1, policy: DataPolicy = DataPolicy.PREFER, milli: int = 1000
) -> Pod:
    """A pod that reads this data."""
    needs = DataNeeds(asks or (DataAsk(LLAMA),), policy)
    return pod(uid, shape(gpus, milli=milli, relations=Relations(data=needs)))


def test_a_pod_goes_where_its_model_is_though_another_node_is_fuller() -> None:
    told = Story("gpufleet")
    told.nodes(node("a", 8), holding(node("b", 8), copy()))
    told.run_on(pod("there", shape(1)), "a", "a/0")
    told.arrive(pod("packs", shape(1)), reading("p"))
    assert (place_of(told, "packs"), place_of(told, "p")) == ("a", "b")


def test_what_matters_is_the_time_that_a_copy_takes() -> None:
    told = Story()
    told.nodes(node("none", 8), holding(node("most", 8), copy(complete=False, size=100 * GB)))
    told.nodes(holding(node("some", 8), copy(complete=False, size=10 * GB)))
    told.arrive(reading("p", DataAsk(LLAMA, size_bytes=BYTES)))
    assert place_of(told, "p") == "most"


def test_another_revision_is_no_use_and_a_branch_is_one() -> None:
    told = Story()
    told.nodes(holding(node("old", 1), copy(revision="r0")), holding(node("new", 1), copy(revision="r2")))
    told.arrive(reading("p", DataAsk(LLAMA, "r2")))
    assert place_of(told, "p") == "new"
    told.arrive(reading("q", DataAsk(LLAMA, "main")))
    assert place_of(told, "q") == "old"


def test_a_model_of_no_importance_does_not_break_a_whole_node() -> None:
    """15 GB are 14 s at 1.1 GB/s, and ten minutes would be worth the whole GPU: 0.02 of it."""
    told = Story("gpufleet")
    small = copy(size=15 * GB)
    told.nodes(holding(node("whole", 8), small), node("begun", 8))
    told.run_on(pod("there", shape(4)), "begun", *(f"begun/{index}" for index in range(4)))
    # What is typical is learned from what arrives: work that needs whole nodes.
    for round_number in range(8):
        told.arrive(*(pod(f"w{round_number}-{index}", shape(8)) for index in range(4)))
        told.depart(*(f"w{round_number}-{index}" for index in range(4)))
    told.arrive(reading("p"))
    assert place_of(told, "p") == "begun"


def test_a_policy_without_a_worth_of_gpus_takes_the_node_that_is_ready_first() -> None:
    told = Story("best-fit")
    told.nodes(node("a", 8), holding(node("b", 8), copy()))
    told.run_on(pod("there", shape(7)), "a", *(f"a/{index}" for index in range(7)))
    told.arrive(reading("p"))
    assert place_of(told, "p") == "b"


def test_a_full_node_with_the_data_is_not_waited_for() -> None:
    told = Story()
    told.nodes(node("a", 1), holding(node("b", 1), copy()))
    told.run_on(pod("there", shape(1)), "b", "b/0")
    assert placed(told.arrive(reading("p"))) == ["p"]


def test_a_pod_that_requires_its_data_waits_for_it() -> None:
    told = Story()
    told.nodes(node("a", 1), holding(node("b", 1), copy(complete=False)))
    told.arrive(reading("p", policy=DataPolicy.REQUIRE))
    assert told.explain("p") == {"data-missing": 2}
    told.nodes(holding(node("b", 1), copy()))
    assert place_of(told, "p") == "b"


def test_new_data_on_a_node_takes_no_kept_place_away() -> None:
    told = Story()
    told.nodes(node("a", 1))
    told.run_on(pod("low", shape(1)), "a", "a/0")
    assert nominated(told.arrive(pod("high", shape(1), priority=10))) == {"high": ("a", ("low",))}
    assert told.nodes(holding(node("a", 1), copy())) == []
    assert placed(told.depart("low")) == ["high"]


def test_nodes_and_pods_with_data_pass_through_the_event_log() -> None:
    reads = reading("p", DataAsk(LLAMA, "main", BYTES), policy=DataPolicy.REQUIRE)
    events = (event.NodeSet(holding(node("a", 1), copy())), event.PodAdded(reads))
    line = step_line(7, events, [])
    assert read_step(line, 2).events == events
