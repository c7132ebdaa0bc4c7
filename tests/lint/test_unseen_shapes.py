"""Shapes of published manifests of which errors were wrong, beside shapes of which they stay right.

They are those of the sixth round of judged errors (``judged-errors.csv``).
"""

import pytest

from gpufleet.lint.rule import Severity
from tests.lint.linting import findings_of, fixed, report_of

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
    "containers: [{name: c, command: [torchrun, --nnodes, '2', a.py], %s}]}}}}}]}\n"
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
    ("script", "kept_of"),
    [
        ("nvidia-smi -c EXCLUSIVE_PROCESS", {"GPU004", "GPU006"}),
        ("nvidia-smi -i 0 -mig 1", {"GPU004", "GPU006"}),
        ("nvidia-cuda-mps-control -d", {"GPU004", "GPU006"}),
        # Whether a program needs its privileges is not written.
        ("python train.py", {"GPU006"}),
    ],
)
def test_what_sets_up_the_cards_of_a_node_is_warned_of_and_kept(
    rule: str, script: str, kept_of: set[str]
) -> None:
    text = STEP % script
    assert severities(rule, text) == [Severity.WARNING]
    assert (fixed(text, rule) == text) is (rule in kept_of)


def test_a_check_that_sees_cards_by_its_privileges_alone_keeps_them_and_is_told_to_ask() -> None:
    text = CHECKED % "'nvidia-smi -L | wc -l'"
    assert severities("GPU006", text) == [Severity.WARNING]
    advice = [one.advice for one in report_of(text).findings if one.rule.id == "GPU006"]
    assert "ask in its limits" in advice[0]
    assert fixed(text, "GPU006") == text
    # For what else it may need them is not written.
    assert "privileged: true" in fixed(CHECKED % "'cp a b'", "GPU006")


@pytest.mark.parametrize(
    ("container", "found"),
    [
        ("image: sim:1, command: [simulate, --workers, '8'], " + ONE, []),
        # How much the workers write depends on the data, which no manifest tells.
        ("image: sim:1, command: [simulate, --num_workers, '8'], " + ONE, [Severity.WARNING]),
        ("image: sim:1, command: [python, train.py, --workers, '8'], " + ONE, [Severity.WARNING]),
        ("image: pytorch:1, command: [run.sh, --workers, '8'], " + ONE, [Severity.WARNING]),
        ("image: 'ollama/ollama:0.9', " + EIGHT, []),
        ("image: 'ghcr.io/ggml-org/llama.cpp:server-cuda', " + EIGHT, []),
        ("image: 'vllm/vllm-openai:v0.9', args: [-tp, '8'], " + EIGHT, [Severity.WARNING]),
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
        (RANK + "torch.multiprocessing.spawn(f)\\n", [Severity.WARNING]),
        (RANK + "torch.utils.data.DataLoader(d)\\n", [Severity.WARNING]),
        ("import torch\\nimport torch.distributed as dist\\n", [Severity.WARNING]),
    ],
)
def test_a_program_that_is_one_rank_is_one_process(program: str, found: list[Severity]) -> None:
    container = f'{{name: c, image: pytorch:1, command: [python3, -c, "{program}"], {EIGHT}}}'
    assert severities("GPU021", JOB % container) == found


def test_an_operator_that_makes_gangs_of_all_jobs_places_them_together() -> None:
    gangs = OPERATOR % "--gang-scheduler-name=volcano"
    assert severities("GPU023", TRAINING, gangs) == []
    assert severities("GPU023", TRAINING, OPERATOR % "--gang-scheduler-name=none") == [Severity.WARNING]
    assert severities("GPU023", TRAINING, OPERATOR % "--leader-elect") == [Severity.WARNING]
    assert severities("GPU023", TRAINING) == [Severity.WARNING]
    # It knows no JobSets.
    assert severities("GPU023", GATED % ("example.com/mine", ONE), gangs) == [Severity.WARNING]


def test_a_gate_of_the_scheduler_for_topology_is_opened_for_a_whole_job() -> None:
    assert severities("GPU023", GATED % ("gke.io/topology-aware-auto-scheduling-a", ONE)) == []
    assert severities("GPU023", GATED % ("example.com/mine", ONE)) == [Severity.WARNING]


@pytest.mark.parametrize(
    ("variable", "value", "found"),
    [
        ("NCCL_SHM_DISABLE", "1", []),
        ("NCCL_SHM_DISABLE", "0", [Severity.WARNING]),
    ],
)
def test_variables_of_nccl_say_where_cards_meet(variable: str, value: str, found: list[Severity]) -> None:
    env = f"env: [{{name: {variable}, value: '{value}'}}]"
    text = JOB % f"{{name: c, image: t:1, command: [torchrun, --nproc-per-node=gpu, a.py], {env}, {EIGHT}}}"
    assert severities("GPU021", text) == found


TOGETHER = "its pods start only together, and nothing that is read here places them together"
DOUBT = "nothing that is known places its pods together"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TRAINING, [TOGETHER]),
        (TRAINING.replace("{containers", "{schedulerName: mine, containers"), [DOUBT]),
        (TRAINING.replace("{containers", "{schedulerName: default-scheduler, containers"), [TOGETHER]),
        (TRAINING.replace("{name: a}", "{name: a, labels: {example.com/queue: b}}"), [DOUBT]),
        (TRAINING.replace("{name: a}", "{name: a, annotations: {my/pod-group: b}}"), [DOUBT]),
        (TRAINING.replace("{name: a}", "{name: a, labels: {example.com/team: b}}"), [TOGETHER]),
        (TRAINING.replace("spec: {py", "spec: {runPolicy: {suspend: true}, py"), [DOUBT]),
        (TRAINING.replace("{name: py", "{command: [sleep, infinity], name: py"), []),
        (
            TRAINING.replace("{name: py", "{command: [sh, -c, 'python a.py; sleep 9'], name: py"),
            [TOGETHER],
        ),
        (GATED.replace("--nnodes, '2', ", "") % ("a.b/c", ONE), [DOUBT]),
        (
            GATED.replace("torchrun, --nnodes, '2', a.py", "a.py, a-w-0-0.a") % ("a.b/c", ONE),
            [TOGETHER],
        ),
    ],
)
def test_what_may_place_pods_together_or_may_not_wait_is_told(text: str, found: list[str]) -> None:
    told = [one.split(";")[0] for one in findings_of("GPU023", text)]
    assert told == found


def test_workers_of_parameter_servers_may_start_one_by_one() -> None:
    workers = f"Worker: {{replicas: 2, template: {{spec: {{containers: [{{name: tensorflow, {ONE}}}]}}}}}}"
    servers = "PS: {replicas: 1, template: {spec: {containers: [{name: tensorflow}]}}}"
    job = "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\nspec: {tfReplicaSpecs: {%s}}\n"
    assert findings_of("GPU023", job % workers) == [TOGETHER]
    assert findings_of("GPU023", job % f"{workers}, {servers}")[0].startswith(DOUBT)


def test_a_model_that_spans_pods_by_ray_is_not_counted_in_one_of_them() -> None:
    served = "vllm serve m --tensor-parallel-size 8 --pipeline_parallel_size 2"
    text = JOB % f"{{name: c, image: 'vllm/vllm-openai:v1', command: [sh, -c, '%s'], {EIGHT}}}"
    assert severities("GPU025", text % served) == [Severity.ERROR]
    assert severities("GPU025", text % f"bash serving.sh leader --ray_cluster_size=2; {served}") == []
