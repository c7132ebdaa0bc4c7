"""Of all reasons those come first that belong to the nodes that need the least change."""

import pytest

from gpufleet.engine.explanations.sentences import explain, explain_gang
from gpufleet.engine.instruction import GangUnschedulable, NodesLacking, Unschedulable, Verdict
from gpufleet.engine.place.refusal.nearest_nodes import lowest
from gpufleet.model.identifiers import NodeName, PodUid
from gpufleet.model.resources import Resources
from gpufleet.model.shape import Shape
from gpufleet.model.taint import CORDON, Taint
from tests.engine.fleet_builder import Story, gang, node, pod, shape

POOL = Taint("nvidia.com/gpu", "present", "NoSchedule")


def verdict_on(told: Story, gpus: int) -> Verdict:
    """Why a pod with so many GPUs fits nowhere."""
    (said,) = told.arrive(pod("p", shape(gpus)))
    assert isinstance(said, Unschedulable)
    return said.verdict


def test_without_a_refusal_there_is_no_hurdle() -> None:
    assert lowest({}) is None


def test_that_most_nodes_have_no_gpu_is_not_why_a_pod_waits_for_one() -> None:
    told = Story()
    told.nodes(*(node(f"cpu{number}") for number in range(5)), node("gpu", 4, taints=(POOL,)))
    verdict = verdict_on(told, 2)
    assert verdict.lacking == NodesLacking(("taint",), 1, ("nvidia.com/gpu=present:NoSchedule",))
    words = explain(verdict, shape(2))
    assert words.index("tainted") < words.index("without GPUs")
    assert words.endswith(
        "1 node would do if the pod tolerated their taint nvidia.com/gpu=present:NoSchedule"
    )


def test_a_pod_that_asks_for_no_gpu_is_told_what_else_it_asked_for() -> None:
    wanted = Shape(resources=Resources(cpu_milli=500, other=(("nvidia.com/gpu.shared", 1),)))
    words = explain(Verdict(0, {}, {}, None), wanted)
    assert words == "needs 0.5 cores of CPU, 1 of nvidia.com/gpu.shared; there are no nodes"


def test_room_goes_before_what_somebody_would_have_to_change() -> None:
    told = Story()
    told.nodes(node("busy", 2), *(node(f"tainted{number}", 4, taints=(POOL,)) for number in range(3)))
    told.arrive(pod("user", shape(2)))
    verdict = verdict_on(told, 2)
    assert verdict.lacking == NodesLacking(("gpu-busy",), 1)
    assert "nearest is busy" in explain(verdict, shape(2))


def test_of_several_reasons_the_hardest_to_change_comes_first() -> None:
    told = Story()
    told.nodes(node("a", 2, taints=(POOL,)))
    verdict = verdict_on(told, 4)
    assert verdict.lacking == NodesLacking(("gpu-count", "taint"), 1, (str(POOL),))
    assert "asked for fewer GPUs (several pods can be a gang) and the pod tolerated" in explain(
        verdict, shape(4)
    )


@pytest.mark.parametrize("taints", [(), (CORDON,)])
def test_a_cordon_is_one_reason_though_its_controller_adds_a_taint(taints: tuple[Taint, ...]) -> None:
    told = Story()
    told.nodes(node("a", 2, cordoned=True, taints=taints))
    assert verdict_on(told, 1).all_reasons == {"cordoned": 1}


def test_the_reasons_of_every_node_are_told_by_name() -> None:
    told = Story()
    told.nodes(node("cpu"), node("small", 1, taints=(POOL,)), node("fits", 2))
    told.arrive(pod("user", shape(2)))
    told.arrive(pod("p", shape(2)))
    assert told.engine.reasons_by_node(PodUid("p")) == {
        NodeName("cpu"): ("no-gpu",),
        NodeName("small"): ("taint", "gpu-count"),
        NodeName("fits"): ("gpu-busy",),
    }
    assert told.engine.reasons_by_node(PodUid("user")) is None


def test_a_gang_for_which_the_fleet_is_too_small_hears_how_many_would_fit() -> None:
    told = Story()
    told.nodes(node("a", 4), node("b", 4))
    told.gangs(gang("g", 3))
    (said,) = told.arrive(*(pod(f"m{number}", shape(3), gang="g") for number in range(3)))
    assert isinstance(said, GangUnschedulable)
    assert said.placeable == 2
    assert said.verdict is not None
    assert said.verdict.first_reasons == {"gpu-busy": 2}
    assert "2 would fit; the next one needs 3 whole GPUs" in explain_gang(said, shape(3))
    assert told.binds == {}


def test_the_nearest_node_is_one_that_offers_what_is_asked_for_by_name() -> None:
    # On "without" less is missing: the card alone, which no end of work brings there.
    told = Story()
    told.nodes(node("without", 2), node("with", 1, other=(("rdma/hca", 1),)))
    wanted = shape(1, other=(("rdma/hca", 1),))
    told.run_on(pod("user", wanted), "with", "with/0")
    (said,) = told.arrive(pod("p", wanted))
    assert isinstance(said, Unschedulable)
    assert said.verdict.nearest is not None
    assert said.verdict.nearest.node == "with"
    assert "1 of rdma/hca" in explain(said.verdict, wanted)
