"""Which pods a pool's nodes are for, and how many nodes pods take."""

import pytest

from gpufleet.model.label_values import only
from gpufleet.model.labels import NodeAffinity, NodeTerm, Operator, Requirement
from gpufleet.model.node_pool import NodePool, asked, nodes_for
from gpufleet.model.resources import Resources
from gpufleet.model.shape import GpuRequest, Shape
from gpufleet.model.taint import Taint, Toleration

ZONE, TEAM = "topology.kubernetes.io/zone", "example.com/team"
POOL = NodePool("p", {ZONE: only(["a", "b"])}, (), {}, {})
EIGHT = GpuRequest(count=8, gpu_milli=1000)


def requires(key: str, operator: Operator, *values: str) -> NodeAffinity:
    """Affinity with one term of one requirement."""
    return NodeAffinity((NodeTerm((Requirement(key, operator, values),)),))


@pytest.mark.parametrize(
    ("shape", "serves"),
    [
        (Shape(node_selector=((ZONE, "a"),)), True),
        (Shape(node_selector=((ZONE, "c"),)), False),
        # A label that people choose is on no node of a pool that does not name it; those of clouds may be.
        (Shape(node_selector=((TEAM, "x"),)), False),
        (Shape(node_selector=(("karpenter.k8s.aws/instance-family", "p5"),)), True),
        (Shape(affinity=requires(ZONE, Operator.NOT_IN, "a")), True),
        (Shape(affinity=requires(ZONE, Operator.NOT_IN, "a", "b")), False),
        (Shape(affinity=requires(TEAM, Operator.DOES_NOT_EXIST)), True),
        # The pod would go to zone a, and its volume is in zone b.
        (
            Shape(node_selector=((ZONE, "a"),), volume_affinities=(requires(ZONE, Operator.IN, "b"),)),
            False,
        ),
    ],
)
def test_labels_that_its_nodes_may_have_decide(shape: Shape, serves: bool) -> None:
    assert POOL.serves(shape) is serves


def test_a_taint_keeps_pods_away_that_do_not_tolerate_it() -> None:
    pool = NodePool("p", {}, (Taint("team", "x"),), {}, {})
    assert not pool.serves(Shape())
    assert pool.serves(Shape(tolerations=(Toleration("team", value="x"),)))


def test_pods_with_gpus_need_a_pool_with_nodes_as_large() -> None:
    shape = Shape(gpu=EIGHT, gpu_resource="nvidia.com/gpu")
    assert NodePool("p", {}, (), {}, {}).serves(shape)
    assert not NodePool("p", {}, (), {}, {}, has_gpus=False).serves(shape)
    assert not NodePool("p", {}, (), {}, {}, (1, 4)).serves(shape)
    assert NodePool("p", {}, (), {}, {}, (4, 8)).serves(shape)


def test_a_pod_takes_what_it_asks_for() -> None:
    resources = Resources(cpu_milli=500, memory_bytes=2**30, other=(("rdma/hca", 2),))
    shape = Shape(resources=resources, gpu=EIGHT, gpu_resource="nvidia.com/gpu")
    assert asked(shape) == {"cpu": 500, "memory": 2**30, "rdma/hca": 2, "nvidia.com/gpu": 8}


@pytest.mark.parametrize(
    ("gpus", "size", "nodes"),
    [
        ((8, 8, 8), 8, 3),
        ((4, 4, 4), 8, 2),
        ((1,) * 9, 8, 2),
        ((6, 2, 6, 2), 8, 2),
        ((5, 5), 8, 2),
        ((), 8, 0),
    ],
)
def test_pods_share_nodes_as_far_as_they_fit(gpus: tuple[int, ...], size: int, nodes: int) -> None:
    assert nodes_for(gpus, size) == nodes
