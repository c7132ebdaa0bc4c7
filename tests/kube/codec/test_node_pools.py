"""NodePools of Karpenter: what their limits leave, and what their nodes are like as far as they say so."""

from typing import Any

import pytest

from gpufleet.kube.codec.node_pools import read_node_pool
from gpufleet.kube.objects import node_pools as wire
from gpufleet.model.node_pool import NodePool
from gpufleet.model.shape import Shape
from tests.kube.wire_objects import decoded

GPU = "nvidia.com/gpu"
CATEGORY, TYPE = "karpenter.k8s.aws/instance-category", "node.kubernetes.io/instance-type"


def read(
    *requirements: dict[str, Any],
    limits: dict[str, Any] | None = None,
    used: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
) -> NodePool:
    """A NodePool as it is stored, as it is understood."""
    spec = {"requirements": list(requirements), "taints": taints or []}
    template = {"metadata": {"labels": labels or {}}, "spec": spec}
    body = {"metadata": {"name": "p"}, "spec": {"template": template, "limits": limits or {}}}
    return read_node_pool(decoded({**body, "status": {"resources": used or {}}}, wire.NodePool))


def one_of(key: str, *values: str) -> dict[str, Any]:
    """A requirement for one of these values."""
    return {"key": key, "operator": "In", "values": list(values)}


def test_limits_leave_what_is_not_used() -> None:
    pool = read(
        limits={"cpu": "1000", "memory": "1Ti", GPU: "16", "nodes": "4"},
        used={"cpu": "192500m", GPU: "24", "nodes": "3", "pods": "110"},
    )
    assert pool.left == {"cpu": 807_500, "memory": 2**40, GPU: 0, "nodes": 1}
    assert pool.used[GPU] == 24


def test_labels_are_those_of_the_template_and_of_the_requirements() -> None:
    pool = read(one_of(TYPE, "p5.48xlarge", "p4d.24xlarge"), labels={"example.com/team": "x"})
    assert pool.serves(Shape(node_selector=(("example.com/team", "x"),)))
    assert not pool.serves(Shape(node_selector=(("example.com/team", "y"),)))
    assert pool.serves(Shape(node_selector=((TYPE, "p5.48xlarge"),)))
    assert not pool.serves(Shape(node_selector=((TYPE, "g6.xlarge"),)))
    assert pool.serves(Shape(node_selector=(("karpenter.sh/nodepool", "p"),)))
    assert not pool.serves(Shape(node_selector=(("karpenter.sh/nodepool", "q"),)))


def test_a_requirement_that_is_not_understood_bounds_nothing() -> None:
    pool = read({"key": "example.com/size", "operator": "Newer", "values": ["3"]})
    assert pool.serves(Shape(node_selector=(("example.com/size", "4"),)))
    assert read(limits={GPU: "many"}).left == {}


@pytest.mark.parametrize(
    ("pool", "has_gpus"),
    [
        (read(one_of(CATEGORY, "c", "m")), False),
        (read(one_of(CATEGORY, "c", "p")), True),
        (read(one_of(TYPE, "m5.large", "Standard_D4s_v5")), False),
        (read(one_of(TYPE, "m5.large", "Standard_ND96asr_v4")), True),
        # Names of other clouds do not say it.
        (read(one_of(TYPE, "a3-highgpu-8g")), True),
        (read(one_of("karpenter.k8s.aws/instance-gpu-count", "0")), False),
        (read(one_of(CATEGORY, "c"), limits={GPU: "8"}), True),
        (read(one_of(CATEGORY, "c"), taints=[{"key": GPU, "effect": "NoSchedule"}]), True),
        (read(), True),
    ],
)
def test_whether_it_has_gpus_is_said_by_kinds_of_instances_limits_labels_and_taints(
    pool: NodePool, has_gpus: bool
) -> None:
    assert pool.has_gpus is has_gpus


def test_sizes_are_those_that_clouds_label_nodes_with() -> None:
    assert read(one_of("karpenter.k8s.aws/instance-gpu-count", "8", "4")).gpus_of_a_node == (4, 8)
    assert read(one_of("karpenter.azure.com/sku-gpu-count", "8")).gpus_of_a_node == (8,)
    more = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["3"]}
    assert read(more).gpus_of_a_node == ()
