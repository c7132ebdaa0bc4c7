"""Shapes of published manifests of which errors were wrong, beside shapes of which they stay right.

They are those of the sixth round of judged errors (``judged-errors.csv``).
"""

import pytest

from gpufleet.lint.rule import Severity
from tests.lint.linting import fixed, report_of

EIGHT = "resources: {limits: {nvidia.com/gpu: 8}}"
ONE = "resources: {limits: {nvidia.com/gpu: 1}}"
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [%s]}}}\n"
T4 = "nodeSelector: {cloud.google.com/gke-accelerator: nvidia-tesla-t4}"
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


def on_t4(text: str) -> str:
    """The same on cards that reach each other through the memory of their node alone."""
    return text.replace("spec: {containers", f"spec: {{{T4}, containers")


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


@pytest.mark.parametrize(
    ("text", "command", "severity"),
    [
        (DEPLOYMENT, "[python, reporter.py]", Severity.WARNING),
        (DEPLOYMENT, "[python, -m, torch.distributed.run, --nproc-per-node, gpu, a.py]", Severity.ERROR),
        (DEPLOYMENT, "[torchrun, reporter.py]", Severity.WARNING),
        (JOB, "[python, train.py]", Severity.WARNING),
    ],
)
def test_a_server_whose_script_is_out_of_sight_is_only_warned_of(
    text: str, command: str, severity: Severity
) -> None:
    text = on_t4(text % f"{{name: c, image: x:1, command: {command}, {EIGHT}}}")
    assert severities("GPU021", text) == [severity]


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


MPI = (
    "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: a}\nspec: {%smpiReplicaSpecs: {"
    "Launcher: {replicas: 1, template: {spec: {containers: [{name: l, image: i:1, command: [%s]}]}}}, "
    f"Worker: {{replicas: 2, template: {{spec: {{containers: [{{name: w, image: i:1, {EIGHT}}}]}}}}}}}}}}\n"
)
EACH = "torchrun, --nproc-per-node"


@pytest.mark.parametrize(
    ("command", "severity"),
    [
        (f"{EACH}, '8', a.py", Severity.ERROR),
        (f"{EACH}=gpu, a.py", Severity.ERROR),
        (f"{EACH}, '1', a.py", Severity.WARNING),
        (f"{EACH}, $COUNT, a.py", Severity.WARNING),
        ("torchrun, a.py", Severity.WARNING),
        ("deepspeed, a.py", Severity.ERROR),
        ("deepspeed, --num_gpus, '1', a.py", Severity.WARNING),
        ("sh, -c, 'deepspeed --num_gpus ${COUNT:-8} a.py'", Severity.ERROR),
        ("sh, -c, 'deepspeed --num_gpus ${COUNT:-1} a.py'", Severity.WARNING),
        ("sh, -c, 'deepspeed --num_gpus $COUNT a.py'", Severity.WARNING),
        ("accelerate, launch, a.py", Severity.ERROR),
        ("accelerate, launch, --config_file, c.yaml, a.py", Severity.WARNING),
        ("accelerate, launch, --num_processes, '2', --num_machines, '2', a.py", Severity.WARNING),
        ("mpirun, -np, '8', a", Severity.ERROR),
        ("mpirun, -np, '2', -H, 'b,c', a", Severity.WARNING),
        ("mpirun, -np, '16', --hostfile, /h, a", Severity.WARNING),
        ("sh, -c, 'CUDA_VISIBLE_DEVICES=0 deepspeed a.py'", Severity.WARNING),
        ("python, a.py", Severity.WARNING),
        ("bash, run.sh", Severity.WARNING),
    ],
)
def test_memory_is_an_error_only_where_a_launcher_of_several_processes_is_written(
    command: str, severity: Severity
) -> None:
    container = f"{{name: c, image: trainer:1, command: [{command}], {EIGHT}}}"
    assert severities("GPU021", on_t4(JOB % container)) == [severity]
    assert severities("GPU021", JOB % container) == [Severity.WARNING]


@pytest.mark.parametrize(
    ("variable", "value", "severity"),
    [
        ("COUNT", "8", Severity.ERROR),
        ("COUNT", "1", Severity.WARNING),
        ("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7", Severity.ERROR),
        ("CUDA_VISIBLE_DEVICES", "0", Severity.WARNING),
    ],
)
def test_variables_of_the_container_say_how_many_processes_a_launcher_starts(
    variable: str, value: str, severity: Severity
) -> None:
    command = "sh, -c, 'torchrun --nproc_per_node=${COUNT:-8} a.py'"
    env = f"env: [{{name: {variable}, value: '{value}'}}]"
    container = f"{{name: c, image: trainer:1, command: [{command}], {env}, {EIGHT}}}"
    assert severities("GPU021", on_t4(JOB % container)) == [severity]


@pytest.mark.parametrize(
    ("count", "changes", "found"),
    [
        (8, "", [Severity.WARNING]),
        (8, T4, [Severity.ERROR]),
        (4, T4, [Severity.ERROR]),
        (2, T4, [Severity.WARNING]),
        (8, "nodeSelector: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}", [Severity.WARNING]),
        (8, "nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}", [Severity.ERROR]),
    ],
)
def test_cards_without_nvlink_meet_in_shared_memory(count: int, changes: str, found: list[Severity]) -> None:
    gpus = f"resources: {{limits: {{nvidia.com/gpu: {count}}}}}"
    text = JOB % f"{{name: c, image: t:1, command: [torchrun, --nproc-per-node=gpu, a.py], {gpus}}}"
    assert (
        severities(
            "GPU021", text.replace("{containers", f"{{{changes}, containers" if changes else "{containers")
        )
        == found
    )


@pytest.mark.parametrize(
    ("variable", "value", "found"),
    [
        ("NCCL_P2P_DISABLE", "1", [Severity.ERROR]),
        ("NCCL_P2P_DISABLE", "0", [Severity.WARNING]),
        ("NCCL_SHM_DISABLE", "1", []),
        ("NCCL_SHM_DISABLE", "0", [Severity.WARNING]),
    ],
)
def test_variables_of_nccl_say_where_cards_meet(variable: str, value: str, found: list[Severity]) -> None:
    env = f"env: [{{name: {variable}, value: '{value}'}}]"
    text = JOB % f"{{name: c, image: t:1, command: [torchrun, --nproc-per-node=gpu, a.py], {env}, {EIGHT}}}"
    assert severities("GPU021", text) == found


@pytest.mark.parametrize(
    ("slots", "command", "severity"),
    [
        ("slotsPerWorker: 8, ", "mpirun, -np, '16', a", Severity.ERROR),
        ("slotsPerWorker: 8, ", "mpirun, -np, '2', -N 1, a", Severity.WARNING),
        ("slotsPerWorker: 1, ", "mpirun, -np, '2', a", Severity.WARNING),
        ("slotsPerWorker: 8, ", "run-it", Severity.WARNING),
        ("", "mpirun, -np, '2', a", Severity.WARNING),
    ],
)
def test_the_launcher_of_an_mpi_job_starts_the_processes_of_its_workers(
    slots: str, command: str, severity: Severity
) -> None:
    assert severities("GPU021", on_t4(MPI % (slots, command))) == [severity]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TRAINING, [Severity.ERROR]),
        (TRAINING.replace("{containers", "{schedulerName: mine, containers"), [Severity.WARNING]),
        (TRAINING.replace("{containers", "{schedulerName: default-scheduler, containers"), [Severity.ERROR]),
        (TRAINING.replace("{name: a}", "{name: a, labels: {example.com/queue: b}}"), [Severity.WARNING]),
        (TRAINING.replace("{name: a}", "{name: a, annotations: {my/pod-group: b}}"), [Severity.WARNING]),
        (TRAINING.replace("{name: a}", "{name: a, labels: {example.com/team: b}}"), [Severity.ERROR]),
        (TRAINING.replace("spec: {py", "spec: {runPolicy: {suspend: true}, py"), [Severity.WARNING]),
        (TRAINING.replace("{name: py", "{command: [sleep, infinity], name: py"), []),
        (
            TRAINING.replace("{name: py", "{command: [sh, -c, 'python a.py; sleep 9'], name: py"),
            [Severity.ERROR],
        ),
        (GATED.replace("--nnodes, '2', ", "") % ("a.b/c", ONE), [Severity.WARNING]),
        (
            GATED.replace("torchrun, --nnodes, '2', a.py", "a.py, a-w-0-0.a") % ("a.b/c", ONE),
            [Severity.ERROR],
        ),
    ],
)
def test_what_may_place_pods_together_or_may_not_wait_is_only_warned_of(
    text: str, found: list[Severity]
) -> None:
    assert severities("GPU023", text) == found


def test_workers_of_parameter_servers_may_start_one_by_one() -> None:
    workers = f"Worker: {{replicas: 2, template: {{spec: {{containers: [{{name: tensorflow, {ONE}}}]}}}}}}"
    servers = "PS: {replicas: 1, template: {spec: {containers: [{name: tensorflow}]}}}"
    job = "apiVersion: kubeflow.org/v1\nkind: TFJob\nmetadata: {name: a}\nspec: {tfReplicaSpecs: {%s}}\n"
    assert severities("GPU023", job % workers) == [Severity.ERROR]
    assert severities("GPU023", job % f"{workers}, {servers}") == [Severity.WARNING]


def test_a_model_that_spans_pods_by_ray_is_not_counted_in_one_of_them() -> None:
    served = "vllm serve m --tensor-parallel-size 8 --pipeline_parallel_size 2"
    text = JOB % f"{{name: c, image: 'vllm/vllm-openai:v1', command: [sh, -c, '%s'], {EIGHT}}}"
    assert severities("GPU025", text % served) == [Severity.ERROR]
    assert severities("GPU025", text % f"bash serving.sh leader --ray_cluster_size=2; {served}") == []
