"""Edges of GPU026 across pods: how wide a model is divided, and whether a fast link is between its parts."""

from collections.abc import Callable

import pytest

from gpufleet.lint.rule import Severity
from tests.lint.linting import report_of
from tests.lint.test_cluster_rules import A100, node

SERVE = "vllm serve own/model --tensor-parallel-size %d --pipeline-parallel-size %d"
GROUP = (
    "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: g}\n"
    "spec: {leaderWorkerTemplate: {size: 2, workerTemplate: {metadata: {annotations: {%s}},"
    " spec: {%s containers: [{name: c, command: [sh, -c, '%s'], resources: {limits: {%s}}}]}}}}\n"
)
EIGHT = "nvidia.com/gpu: 8"
NODES = node(A100) + node(A100, name="m")


def group(tensor: int, stages: int = 1, *, limits: str = EIGHT, spec: str = "", annotations: str = "") -> str:
    return GROUP % (annotations, spec, SERVE % (tensor, stages), limits)


def judgement(text: str, cluster: str = NODES) -> str:
    """Whether GPU026 warns of a division across pods, cannot judge it, or has nothing to say of it."""
    report = report_of(text, cluster=cluster)
    assert report.problems == ()
    if any(one.rule.id == "GPU026" for one in report.findings):
        return "found"
    lacks = [one.lacks for one in report.unjudged if one.rule.id == "GPU026"]
    return "unjudged" if any("catalogue" not in one for one in lacks) else "passed"


CASES = [
    (group(16), NODES, "found"),
    (group(8, 2), NODES, "passed"),
    (group(16), "", "unjudged"),
    (group(16, limits=f"{EIGHT}, rdma/hca: 1"), NODES, "passed"),
    (group(16, limits=f"{EIGHT}, rdma/hca: 1"), "", "passed"),
    (group(16, limits=f"{EIGHT}, vpc.amazonaws.com/efa: 32"), NODES, "passed"),
    (group(16, limits=f"{EIGHT}, networking.gke.io.networks/rdma-0: 1"), NODES, "passed"),
    (group(16, limits=f"{EIGHT}, example.com/fpga: 1"), NODES, "found"),
    (group(16, spec="volumes: [{name: v, hostPath: {path: /dev/infiniband}}],"), NODES, "passed"),
    (group(16, spec="hostNetwork: true,"), NODES, "unjudged"),
    (group(16, spec="resourceClaims: [{name: channel}],"), NODES, "unjudged"),
    (group(16, annotations="k8s.v1.cni.cncf.io/networks: ib0"), NODES, "unjudged"),
    # NVLink reaches across the nodes of a clique.
    (group(16), node(A100, "nvidia.com/gpu.clique: c.0"), "passed"),
    (group(16), node(A100, "nvidia.com/gpu.clique: c.0") + node(A100, name="m"), "found"),
    # A link has two ends: where the leader has none, its workers' do not help.
    (
        group(16, limits=f"{EIGHT}, rdma/hca: 1").replace(
            "size: 2,",
            "size: 2, leaderTemplate: {spec:"
            " {containers: [{name: l, resources: {limits: {nvidia.com/gpu: 8}}}]}},",
        ),
        NODES,
        "found",
    ),
    # One pod with eight GPUs is asked for as two with four.
    (group(8, limits="nvidia.com/gpu: 4"), NODES, "found"),
]


@pytest.mark.parametrize(("text", "cluster", "expected"), CASES)
def test_layers_are_divided_over_fast_links_alone(text: str, cluster: str, expected: str) -> None:
    assert judgement(text, cluster) == expected


RAY_PODS = (
    "headGroupSpec: {template: {spec: {containers: [{name: head%s}]}}}, workerGroupSpecs: [{groupName: w,"
    " replicas: 2, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}}}]"
)
SERVE_CONFIG = (
    "applications:\\n- args:\\n    llm_configs:\\n    - engine_kwargs:\\n        tensor_parallel_size: %d\\n"
)
KSERVE = (
    "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nmetadata: {name: k}\n"
    "spec: {parallelism: {tensor: %d},"
    " worker: {containers: [{name: w, resources: {limits: {nvidia.com/gpu: 8}}}]},"
    " template: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}]}}\n"
)


def ray(kind: str, spec: str) -> str:
    return f"apiVersion: ray.io/v1\nkind: {kind}\nmetadata: {{name: r}}\nspec: {{{spec}}}\n"


WRITTEN: list[Callable[[int], str]] = [
    lambda width: ray("RayCluster", RAY_PODS % f", args: ['{SERVE % (width, 1)}']"),
    lambda width: ray("RayJob", f"entrypoint: '{SERVE % (width, 1)}', rayClusterSpec: {{{RAY_PODS % ''}}}"),
    lambda width: ray(
        "RayService", f'serveConfigV2: "{SERVE_CONFIG % width}", rayClusterConfig: {{{RAY_PODS % ""}}}'
    ),
    lambda width: KSERVE % width,
]


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize(("width", "expected"), [(8, "passed"), (16, "found")])
def test_a_width_is_read_wherever_it_is_written(
    written: Callable[[int], str], width: int, expected: str
) -> None:
    assert judgement(written(width)) == expected


def test_it_is_slow_and_runs_so_it_is_a_warning() -> None:
    (finding,) = (one for one in report_of(group(16), cluster=NODES).findings if one.rule.id == "GPU026")
    assert finding.severity is Severity.WARNING
    assert finding.rule.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("text", "cluster", "advice"),
    [
        (group(8, limits="nvidia.com/gpu: 4"), NODES, "give one pod 8 GPUs: there are nodes with 8"),
        (group(16), NODES, "divide it among the 8 GPUs of a pod and in 2 pipeline stages"),
        (
            group(24),
            node(A100, allocatable="nvidia.com/gpu: '8', rdma/hca: '8'"),
            (
                "divide it among the 8 GPUs of a pod and in 3 pipeline stages,"
                " or ask for rdma/hca, which nodes have"
            ),
        ),
    ],
)
def test_the_way_out_is_what_the_nodes_allow(text: str, cluster: str, advice: str) -> None:
    (finding,) = (one for one in report_of(text, cluster=cluster).findings if one.rule.id == "GPU026")
    assert finding.advice == advice
