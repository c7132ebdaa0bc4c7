"""Every kind that holds pods shows them all, with their role and number."""

import pytest

from gpufleet.lint.run import read
from gpufleet.lint.source.text import SourceText

POD = "{spec: {containers: [{name: c}]}}"
SHAPE = "{spec: {containers: [{name: c, image: i}]}}"
TWO = f"{{template: {POD}, replicas: 2}}"

GROUP = f"{{groupName: g, replicas: 2, template: {POD}}}"
JOB = f"{{name: w, replicas: 2, template: {{spec: {{parallelism: 3, template: {POD}}}}}}}"

CASES = [
    ("v1", "Pod", "spec: {containers: [{name: c}]}", [("", 1)]),
    ("apps/v1", "Deployment", f"spec: {TWO}", [("", 2)]),
    ("apps/v1", "StatefulSet", f"spec: {TWO}", [("", 2)]),
    ("apps/v1", "DaemonSet", f"spec: {{template: {POD}}}", [("", None)]),
    ("batch/v1", "Job", f"spec: {{parallelism: 3, template: {POD}}}", [("", 3)]),
    ("batch/v1", "CronJob", f"spec: {{jobTemplate: {{spec: {{template: {POD}}}}}}}", [("", 1)]),
    (
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        f"spec: {{replicatedJobs: [{JOB}]}}",
        [("w", 6)],
    ),
    (
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        f"spec: {{leaderWorkerTemplate: {{size: 4, leaderTemplate: {POD}, workerTemplate: {POD}}}}}",
        [("", 1), ("", 4)],
    ),
    (
        "kubeflow.org/v1",
        "PyTorchJob",
        f"spec: {{pytorchReplicaSpecs: {{Master: {{template: {POD}}}, Worker: {TWO}}}}}",
        [("Master", 1), ("Worker", 2)],
    ),
    ("kubeflow.org/v2beta1", "MPIJob", f"spec: {{mpiReplicaSpecs: {{Worker: {TWO}}}}}", [("Worker", 2)]),
    ("kubeflow.org/v1", "Notebook", f"spec: {{template: {POD}}}", [("", 1)]),
    (
        "ray.io/v1",
        "RayCluster",
        f"spec: {{headGroupSpec: {{template: {POD}}}, workerGroupSpecs: [{GROUP}]}}",
        [("", 1), ("g", 2)],
    ),
    ("ray.io/v1", "RayJob", f"spec: {{rayClusterSpec: {{headGroupSpec: {{template: {POD}}}}}}}", [("", 1)]),
    (
        "ray.io/v1",
        "RayService",
        f"spec: {{rayClusterConfig: {{headGroupSpec: {{template: {POD}}}}}}}",
        [("", 1)],
    ),
    (
        "serving.kserve.io/v1beta1",
        "InferenceService",
        "spec: {predictor: {minReplicas: 2, model: {image: i}, containers: [{name: c}]}}",
        [("", 2)],
    ),
    ("serving.kserve.io/v1alpha1", "ServingRuntime", "spec: {containers: [{name: c}]}", [("", 1)]),
    ("serving.knative.dev/v1", "Service", f"spec: {{template: {POD}}}", [("", 1)]),
    (
        "batch.volcano.sh/v1alpha1",
        "Job",
        f"spec: {{tasks: [{{name: t, replicas: 2, template: {POD}}}]}}",
        [("t", 2)],
    ),
    (
        "serving.kubeflow.org/v1beta1",
        "InferenceService",
        "spec: {predictor: {minReplicas: 2, model: {image: i}, containers: [{name: c}]}}",
        [("", 2)],
    ),
    (
        "serving.kubeflow.org/v1alpha2",
        "InferenceService",
        "spec: {default: {predictor: {minReplicas: 2, triton: {image: i}}}, canary: {predictor: {onnx: {}}}}",
        [("", 2), ("", 1)],
    ),
    (
        "argoproj.io/v1alpha1",
        "Workflow",
        "spec: {templates: [{name: one, container: {image: i}}, {name: two, script: {image: i}}]}",
        [("one", 1), ("two", 1)],
    ),
    (
        "argoproj.io/v1alpha1",
        "CronWorkflow",
        "spec: {workflowSpec: {templates: [{script: {image: i}}]}}",
        [("", 1)],
    ),
    ("argoproj.io/v1alpha1", "Rollout", f"spec: {TWO}", [("", 2)]),
    ("example.org/v1", "Anything", f"spec: {{deep: [{{very: {{podTemplate: {SHAPE}}}}}]}}", [("", 1)]),
    ("kyverno.io/v1", "ClusterPolicy", f"spec: {{rules: [{{validate: {{pattern: {SHAPE}}}}}]}}", []),
    ("example.org/v1", "Pattern", f"spec: {{pattern: {POD}}}", []),
    ("apps/v1", "ControllerRevision", f"spec: {{template: {POD}}}", []),
]


@pytest.mark.parametrize(("version", "kind", "spec", "expected"), CASES, ids=[case[1] for case in CASES])
def test_pods_are_found(version: str, kind: str, spec: str, expected: list[tuple[str, int | None]]) -> None:
    reading = read(SourceText("a.yaml", f"apiVersion: {version}\nkind: {kind}\n{spec}\n"))
    (manifest,) = reading.manifests
    assert [(one.role, one.replicas) for one in manifest.templates] == expected
    assert all(one.containers for one in manifest.templates)


def test_a_container_of_a_model_server_is_one_too() -> None:
    head = "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\n"
    text = f"{head}spec: {{predictor: {{model: {{image: i}}}}}}\n"
    (manifest,) = read(SourceText("a.yaml", text)).manifests
    (container,) = manifest.templates[0].containers
    assert container.field.path == "spec.predictor.model"


def test_lists_are_taken_apart_and_other_yaml_is_left_alone() -> None:
    items = "- {kind: Pod, apiVersion: v1}\n- {kind: A, apiVersion: v1}\n"
    text = f"kind: List\napiVersion: v1\nitems:\n{items}---\na: 1\n---\n"
    reading = read(SourceText("a.yaml", text))
    assert [(one.kind, one.document, one.root.path) for one in reading.manifests] == [
        ("Pod", 0, "items[0]"),
        ("A", 0, "items[1]"),
    ]
    assert reading.other_documents == 1


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("{containers: {name: c}}", "3:8: spec.containers is a mapping, expected a list"),
        ("{containers: [5]}", "3:21: spec.containers[0] is a number, expected a mapping"),
        ("{hostPID: 'yes'}", "3:8: spec.hostPID is text, expected true or false"),
        (
            "{containers: [{env: [{name: A, value: 1}]}]}",
            "3:38: spec.containers[0].env[0].value is a number, expected text, in quotes",
        ),
        ("{nodeSelector: {a: true}}", "3:23: spec.nodeSelector.a is true or false, expected text, in quotes"),
    ],
)
def test_a_field_of_a_wrong_type_is_told_with_its_place(spec: str, told: str) -> None:
    reading = read(SourceText("a.yaml", f"apiVersion: v1\nkind: Pod\nspec: {spec}\n"))
    assert [str(one) for one in reading.problems] == [f"a.yaml:{told}"]


def test_half_an_object_is_told() -> None:
    reading = read(SourceText("a.yaml", "kind: Pod\nspec: {}\n"))
    assert [str(one) for one in reading.problems] == ["a.yaml:1:1: an object without apiVersion"]
