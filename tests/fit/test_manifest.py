"""The manifest runs what was counted, on the nodes that have the card."""

from typing import Any

import msgspec
import pytest
import yaml

from gpufleet.advise.fit.ask import ask, ask_manifest
from gpufleet.fit.catalogue import find_cards
from gpufleet.fit.manifest import nodes_of
from gpufleet.fit.options import Options
from gpufleet.model.model_errors import InputError
from tests.lint.linting import found as found_by_lint


def pod(**words: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"model": "llama-3.3-70b", "gpus": ("h100-80",), "context": 32768}
    template: dict[str, Any] = objects(**(usual | words))["Deployment"]["spec"]["template"]["spec"]
    return template


def objects(**words: Any) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in ask_manifest(Options(**words))}


LARGE = {"model": "deepseek-v3", "gpus": ("h100-80",), "context": 32768}
"""16 H100: two nodes of eight, a stage on each."""


def test_it_says_to_vllm_what_was_counted_with() -> None:
    container = pod()["containers"][0]
    assert container["args"] == [
        "--model=meta-llama/Llama-3.3-70B-Instruct",
        "--max-model-len=32768",
        "--gpu-memory-utilization=0.9",
        "--tensor-parallel-size=4",
    ]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "4"


def test_other_numbers_are_said_too() -> None:
    args = pod(weights="fp8", kv="fp8")["containers"][0]["args"]
    assert "--quantization=fp8" in args
    assert "--kv-cache-dtype=fp8" in args
    assert "--tensor-parallel-size=2" in args
    assert "--dtype=half" in pod(model="qwen2.5-3b", gpus=("t4",), context=4096)["containers"][0]["args"]


def test_it_waits_for_the_weights_and_has_room_to_load_them() -> None:
    """131.4 GiB at 0.2 GiB/s are 660 s, beside 300 s to start: 96 times 10 s."""
    container = pod()["containers"][0]
    assert container["startupProbe"]["failureThreshold"] == 96
    assert container["resources"]["requests"]["memory"] == "140Gi"


def test_it_goes_to_nodes_with_the_card() -> None:
    affinity = pod()["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (expression,) = affinity["nodeSelectorTerms"][0]["matchExpressions"]
    assert expression["key"] == "nvidia.com/gpu.product"
    assert "NVIDIA-H100-80GB-HBM3" in expression["values"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (Options("llama-3.3-70b"), "--gpu"),
        (Options("llama-3.3-70b", ("h100",)), "one card"),
        (Options("llama-3.3-70b", ("h100-80",), tensor_parallel=1), "does not surely fit"),
        (Options("llama-3.1-8b", ("mi300x",)), "NVIDIA"),
        (Options("llama-3.1-8b", ("l4",), weights="awq"), "have to be published"),
        (Options("llama-3.1-8b", ("l4",), engine="llama.cpp"), "written for vLLM"),
    ],
)
def test_what_one_deployment_cannot_run_is_refused(words: Options, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ask_manifest(words)


def test_weights_are_kept_over_restarts() -> None:
    """131.4 GiB, and 8 beside."""
    found = objects(model="llama-3.3-70b", gpus=("h100-80",), context=32768)
    claim = found["PersistentVolumeClaim"]
    volumes = found["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "140Gi"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert {"name": "cache", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}} in volumes


def test_what_does_not_fit_one_node_is_a_group_of_pods() -> None:
    """16 GPUs in stages of 8 are two pods; only the leader is asked."""
    found = objects(**LARGE)
    assert set(found) == {"PersistentVolumeClaim", "Service", "LeaderWorkerSet"}
    template = found["LeaderWorkerSet"]["spec"]["leaderWorkerTemplate"]
    assert (template["size"], template["restartPolicy"]) == (2, "RecreateGroupOnPodRestart")
    leader, worker = (template[one]["spec"]["containers"][0] for one in ("leaderTemplate", "workerTemplate"))
    for container in (leader, worker):
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert "--tensor-parallel-size=8" in container["args"]
        assert "--pipeline-parallel-size=2" in container["args"]
        assert "--node-rank=$(LWS_WORKER_INDEX)" in container["args"]
    assert "--headless" in worker["args"]
    assert "--headless" not in leader["args"]
    assert "startupProbe" in leader
    assert "startupProbe" not in worker
    assert found["PersistentVolumeClaim"]["spec"]["accessModes"] == ["ReadWriteMany"]


def test_a_group_is_called_at_its_leader_and_by_a_name_that_its_controller_does_not_take() -> None:
    found = objects(**LARGE)
    service, group = found["Service"], found["LeaderWorkerSet"]
    assert service["metadata"]["name"] != group["metadata"]["name"]
    assert service["spec"]["selector"] == {
        "leaderworkerset.sigs.k8s.io/name": group["metadata"]["name"],
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }


@pytest.mark.parametrize(
    ("gpus_per_node", "tensor", "stages", "nodes"),
    [(8, 8, 2, 2), (8, 8, 1, 1), (8, 4, 2, 1), (8, 4, 4, 2), (8, 4, 3, 3), (8, 4, 6, 3), (4, 4, 5, 5)],
)
def test_each_node_gets_as_many_stages_as_the_others(
    gpus_per_node: int, tensor: int, stages: int, nodes: int
) -> None:
    card = msgspec.structs.replace(find_cards("h100-80")[0], gpus_per_node_max=gpus_per_node)
    fit = ask(Options("llama-3.1-8b", ("h100-80",))).cards[0]
    divided = msgspec.structs.replace(
        fit, gpus=tensor * stages, tensor_parallel=tensor, pipeline_parallel=stages
    )
    assert nodes_of(card, divided) == nodes


@pytest.mark.parametrize("words", [{"model": "llama-3.1-8b", "gpus": ("l4",)}, LARGE])
def test_lint_finds_nothing_but_the_priority_that_only_the_cluster_knows(words: dict[str, Any]) -> None:
    assert found_by_lint(yaml.safe_dump_all(ask_manifest(Options(**words)))) == ["GPU036"]
