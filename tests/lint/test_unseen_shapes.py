"""Shapes of published manifests of which errors were wrong, beside shapes of which they stay right.

They are those of the sixth round of judged errors (``judged-errors.csv``).
"""

import pytest

from gpufleet.lint.rule import Severity
from tests.lint.linting import fixed, report_of

EIGHT = "resources: {limits: {nvidia.com/gpu: 8}}"
ONE = "resources: {limits: {nvidia.com/gpu: 1}}"
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [%s]}}}\n"
DEPLOYMENT = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n"
    "spec: {replicas: 1, template: {spec: {containers: [%s]}}}\n"
)
STEP = (
    "apiVersion: argoproj.io/v1alpha1\nkind: WorkflowTemplate\nmetadata: {name: a}\nspec:\n  templates:\n"
    "  - name: b\n    script:\n      image: nvidia/cuda:12.1.0-base-ubuntu22.04\n"
    "      securityContext: {privileged: true}\n"
    "      env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]\n      command: [sh]\n      source: %s\n"
)
TRAINING = (
    "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: {pytorchReplicaSpecs: "
    f"{{Worker: {{replicas: 2, template: {{spec: {{containers: [{{name: pytorch, {ONE}}}]}}}}}}}}}}\n"
)
OPERATOR = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: training-operator}\nspec: {template: {spec: "
    "{containers: [{name: o, image: operator:1, command: [/manager], args: [%s]}]}}}\n"
)
GATED = (
    "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\n"
    "spec: {replicatedJobs: [{name: w, "
    "template: {spec: {parallelism: 2, completions: 2, template: {spec: {schedulingGates: [{name: %s}], "
    "containers: [{name: c, %s}]}}}}}]}\n"
)
CHECKED = (
    "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n"
    "  initContainers:\n  - name: check\n    image: alpine:3\n"
    "    command: [sh, -c, %s]\n    securityContext: {privileged: true}\n"
    "  containers:\n  - {name: main, image: trainer:1, resources: {limits: {nvidia.com/gpu: 1}}}\n"
)


def severities(rule: str, *texts: str) -> list[Severity]:
    """How severe each finding of the rule is."""
    return [one.severity for one in report_of(*texts).findings if one.rule.id == rule]


@pytest.mark.parametrize("rule", ["GPU004", "GPU006"])
@pytest.mark.parametrize(
    ("script", "severity"),
    [
        ("nvidia-smi -c EXCLUSIVE_PROCESS", Severity.WARNING),
        ("nvidia-smi -i 0 -mig 1", Severity.WARNING),
        ("nvidia-cuda-mps-control -d", Severity.WARNING),
        ("nvidia-smi -L", Severity.ERROR),
        ("nvidia-smi; rm -r old", Severity.ERROR),
        ("python train.py", Severity.ERROR),
    ],
)
def test_what_sets_up_the_cards_of_a_node_is_only_warned_of(
    rule: str, script: str, severity: Severity
) -> None:
    text = STEP % script
    assert severities(rule, text) == [severity]
    if severity is Severity.WARNING:
        assert fixed(text, rule) == text


def test_a_check_that_sees_cards_by_its_privileges_alone_keeps_them_and_is_told_to_ask() -> None:
    text = CHECKED % "'nvidia-smi -L | wc -l'"
    assert severities("GPU006", text) == [Severity.ERROR]
    advice = [one.advice for one in report_of(text).findings if one.rule.id == "GPU006"]
    assert "ask in its limits" in advice[0]
    assert fixed(text, "GPU006") == text
    # One that reads no cards needs no privileges for it.
    assert "privileged" not in fixed(CHECKED % "'cp a b'", "GPU006")


@pytest.mark.parametrize(
    ("container", "found"),
    [
        ("image: sim:1, command: [simulate, --workers, '8'], " + ONE, []),
        ("image: sim:1, command: [simulate, --num_workers, '8'], " + ONE, [Severity.ERROR]),
        ("image: sim:1, command: [python, train.py, --workers, '8'], " + ONE, [Severity.ERROR]),
        ("image: pytorch:1, command: [run.sh, --workers, '8'], " + ONE, [Severity.ERROR]),
        ("image: 'ollama/ollama:0.9', " + EIGHT, []),
        ("image: 'ghcr.io/ggml-org/llama.cpp:server-cuda', " + EIGHT, []),
        ("image: 'vllm/vllm-openai:v0.9', args: [-tp, '8'], " + EIGHT, [Severity.ERROR]),
    ],
)
def test_workers_load_data_in_trainings_and_some_servers_drive_all_cards_alone(
    container: str, found: list[Severity]
) -> None:
    assert severities("GPU021", JOB % f"{{name: c, {container}}}") == found


RANK = "import torch, os\\nimport torch.distributed as dist\\ndist.init_process_group(backend='nccl')\\n"


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (RANK, []),
        (RANK + "torch.multiprocessing.spawn(f)\\n", [Severity.ERROR]),
        (RANK + "torch.utils.data.DataLoader(d)\\n", [Severity.ERROR]),
        ("import torch\\nimport torch.distributed as dist\\n", [Severity.ERROR]),
    ],
)
def test_a_program_that_is_one_rank_is_one_process(program: str, found: list[Severity]) -> None:
    container = f'{{name: c, image: pytorch:1, command: [python3, -c, "{program}"], {EIGHT}}}'
    assert severities("GPU021", JOB % container) == found


@pytest.mark.parametrize(
    ("text", "command", "severity"),
    [
        (DEPLOYMENT, "[python, reporter.py]", Severity.WARNING),
        (DEPLOYMENT, "[python, -m, torch.distributed.run, reporter.py]", Severity.ERROR),
        (DEPLOYMENT, "[torchrun, reporter.py]", Severity.ERROR),
        (JOB, "[python, train.py]", Severity.ERROR),
    ],
)
def test_a_server_whose_script_is_out_of_sight_is_only_warned_of(
    text: str, command: str, severity: Severity
) -> None:
    assert severities("GPU021", text % f"{{name: c, image: x:1, command: {command}, {EIGHT}}}") == [severity]


def test_an_operator_that_makes_gangs_of_all_jobs_places_them_together() -> None:
    gangs = OPERATOR % "--gang-scheduler-name=volcano"
    assert severities("GPU023", TRAINING, gangs) == []
    assert severities("GPU023", TRAINING, OPERATOR % "--gang-scheduler-name=none") == [Severity.ERROR]
    assert severities("GPU023", TRAINING, OPERATOR % "--leader-elect") == [Severity.ERROR]
    assert severities("GPU023", TRAINING) == [Severity.ERROR]
    # It knows no JobSets.
    assert severities("GPU023", GATED % ("example.com/mine", ONE), gangs) == [Severity.ERROR]


def test_a_gate_of_the_scheduler_for_topology_is_opened_for_a_whole_job() -> None:
    assert severities("GPU023", GATED % ("gke.io/topology-aware-auto-scheduling-a", ONE)) == []
    assert severities("GPU023", GATED % ("example.com/mine", ONE)) == [Severity.ERROR]
