"""An error has its evidence in the input: where what is needed for it stands elsewhere, it is a warning.

Each pair is one manifest with the evidence and the same without.
"""

import pytest

from gpufleet.lint.rule import Severity
from tests.lint.linting import pod, report_of

ERROR, WARNING = [Severity.ERROR], [Severity.WARNING]
ALL = "env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"
SERVER = "image: vllm/vllm-openai:v0.9.1\nsecurityContext: {privileged: true}\nargs: [--model=m]"
PRIVILEGED = "image: trainer:1\nsecurityContext: {privileged: true}\ncommand: [python, train.py]"
OWN_FILES = "volumes: [{name: v, hostPath: {path: /dev/dri}}]"
MOUNT = "volumeMounts: [{name: v, mountPath: /dev/dri}]"
DATA = "volumes: [{name: v, hostPath: {path: /data}}]"
DAEMON = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: a}\nspec: {template: {spec: {%s}}}\n"
UNKNOWN = "apiVersion: example.com/v1\nkind: Trainer\nmetadata: {name: a}\nspec: {template: {spec: {%s}}}\n"
RUNTIME = (
    "apiVersion: serving.kserve.io/v1alpha1\nkind: ClusterServingRuntime\nmetadata: {name: a}\nspec: {%s}\n"
)
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {%s}}}\n"
HALF = "containers: [{name: c, image: i:1, resources: {limits: {nvidia.com/gpu: %s}}}]"
WIDE = "image: vllm/vllm-openai:v0.9.1\nargs: [--model=m, --tensor-parallel-size=%d]"
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nspec: {%s}\nstatus: {allocatable: {%s: 4}}\n"
MISNAMED = pod(limits="nvidia.com/gpus: 1")
SELECTS = pod(spec="nodeSelector: {a: b}")
MISSPELT = "apiVersion: %s\nkind: %s\nmetadata: {name: a}\nspec: {template: {spec: {%s}}}\n"


def severities(rule: str, text: str, cluster: str = "") -> list[Severity]:
    """How severe each finding of the rule is."""
    return [one.severity for one in report_of(text, cluster=cluster).findings if one.rule.id == rule]


@pytest.mark.parametrize(
    ("rule", "text", "found"),
    [
        # Huawei's CCE alone takes less than one of NVIDIA's GPUs.
        ("GPU002", JOB % HALF % "0.5", WARNING),
        ("GPU002", JOB % HALF % "1.5", ERROR),
        ("GPU002", JOB % HALF.replace("nvidia", "amd") % "0.5", ERROR),
        ("GPU002", JOB % HALF % "", WARNING),
        # A thousand thousandths are one, as a published manifest has it.
        ("GPU002", JOB % HALF % "1000m", []),
        # Another object or a controller has the last word on these pods.
        ("GPU002", RUNTIME % HALF % "0.5", WARNING),
        ("GPU002", UNKNOWN % HALF % "0.5", WARNING),
        ("GPU004", pod(ALL, "runtimeClassName: nvidia", ""), ERROR),
        ("GPU004", pod(ALL, limits=""), WARNING),
        ("GPU004", pod(ALL, "runtimeClassName: kata", ""), WARNING),
        ("GPU004", DAEMON % f"runtimeClassName: nvidia, containers: [{{name: c, {ALL}}}]", WARNING),
        ("GPU004", pod(ALL.replace("NVIDIA", "HABANA"), "runtimeClassName: habana"), WARNING),
        ("GPU006", pod(SERVER), ERROR),
        ("GPU006", pod(SERVER, "hostNetwork: true"), WARNING),
        ("GPU006", pod(f"{SERVER}\n{MOUNT}", DATA), WARNING),
        ("GPU006", pod(PRIVILEGED), WARNING),
        ("GPU006", pod(PRIVILEGED.replace("python, train.py", "nvidia-smi")), ERROR),
        ("GPU007", pod(MOUNT, OWN_FILES, ""), ERROR),
        ("GPU007", pod(spec=OWN_FILES, limits=""), WARNING),
        ("GPU007", DAEMON % f"{OWN_FILES}, containers: [{{name: c, {MOUNT}}}]", WARNING),
        ("GPU025", pod(WIDE % 4, limits="nvidia.com/gpu: 2"), ERROR),
        # The rest is idle, and it starts.
        ("GPU025", pod(WIDE % 2, limits="nvidia.com/gpu: 4"), WARNING),
        ("GPU025", pod("command: [torchrun, --nproc-per-node=8, a.py]"), WARNING),
        ("GPU025", pod(f"{WIDE % 2}\nsecurityContext: {{privileged: true}}"), WARNING),
        ("GPU053", MISNAMED, WARNING),
        ("GPU053", pod(limits="gpus: 1"), ERROR),
        ("GPU055", MISSPELT % ("apps/v1", "Deploment", HALF % 1), ERROR),
        ("GPU055", MISSPELT % ("kubeflow.org/v1", "PyTorchJobs", HALF % 1), WARNING),
    ],
)
def test_an_error_has_its_evidence_in_the_manifest(rule: str, text: str, found: list[Severity]) -> None:
    assert severities(rule, text) == found


@pytest.mark.parametrize(
    ("rule", "text", "cluster", "found"),
    [
        ("GPU053", MISNAMED, NODE % ("", "nvidia.com/gpu"), ERROR),
        ("GPU053", MISNAMED, NODE % ("", "nvidia.com/gpus"), []),
        ("GPU019", SELECTS, NODE % ("", "nvidia.com/gpu"), ERROR),
        ("GPU019", SELECTS, NODE % ("providerID: kind://a/b", "nvidia.com/gpu"), ERROR),
        # An autoscaler may add a node with the label.
        ("GPU019", SELECTS, NODE % ("providerID: aws:///a/i-1", "nvidia.com/gpu"), WARNING),
    ],
)
def test_an_error_has_its_evidence_in_the_cluster(
    rule: str, text: str, cluster: str, found: list[Severity]
) -> None:
    assert severities(rule, text, cluster) == found
