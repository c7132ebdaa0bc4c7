"""Where in each kind of object its pod templates stand. One table: a new kind is a new line."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.lint.objects.kinds import is_of_kubernetes, templates_by_shape
from gpufleet.lint.objects.pods import PodTemplate
from gpufleet.lint.source.fields import Field

ANY_ITEM = "[]"
"""In a path: every item of a list."""

ANY_FIELD = "*"
"""In a path: every field of a mapping; its name is the role."""


@dataclass(frozen=True)
class TemplatePath:
    """A path to templates, dotted, and the path to how many pods come of each, from the same branch.

    ``bare`` is set where the path leads to a pod spec without template around it, ``per_node`` where
    there is a pod for each node, ``is_completed`` where a controller merges the pods with a preset,
    ``has_memory`` where it mounts memory at /dev/shm of their first container, as KubeRay does.
    """

    template: str
    replicas: tuple[str, ...] = ()
    bare: bool = False
    per_node: bool = False
    is_completed: bool = False
    has_memory: bool = False
    model_servers: tuple[str, ...] = ()


def _replicated(*paths: str) -> tuple[TemplatePath, ...]:
    return tuple(TemplatePath(f"{path}.template", (f"{path}.replicas",)) for path in paths)


_WORKLOAD = (TemplatePath("spec.template", ("spec.replicas",)),)
_ONE_TEMPLATE = (TemplatePath("spec.template"),)
_JOB_SETS = "spec.replicatedJobs.[]"
_JOB_SET_PLACES = (
    TemplatePath(
        f"{_JOB_SETS}.template.spec.template",
        (f"{_JOB_SETS}.replicas", f"{_JOB_SETS}.template.spec.parallelism"),
    ),
)
# How the fields of Kubeflow's jobs begin: pytorchReplicaSpecs.
_KUBEFLOW = ("pytorch", "tf", "mpi", "xgb", "mx", "paddle", "jax")
_LWS = "spec.leaderWorkerTemplate"
# Fields of a KServe predictor, each for a server of models.
_SERVERS = (
    "model",
    "pytorch",
    "tensorflow",
    "triton",
    "huggingface",
    "sklearn",
    "xgboost",
    "onnx",
    "pmml",
    "paddle",
)


def _ray(under: str) -> tuple[TemplatePath, ...]:
    workers = f"{under}.workerGroupSpecs.[]"
    return (
        TemplatePath(f"{under}.headGroupSpec.template", has_memory=True),
        TemplatePath(f"{workers}.template", (f"{workers}.replicas",), has_memory=True),
    )


_PREDICTOR = tuple(
    TemplatePath(f"spec.{part}", (f"spec.{part}.minReplicas",), bare=True, model_servers=_SERVERS)
    for part in ("predictor", "transformer", "explainer")
)

# KServe's first version had a predictor for all requests and one for a part of them.
_FIRST_PREDICTORS = tuple(
    TemplatePath(f"spec.{way}.{part}", (f"spec.{way}.{part}.minReplicas",), bare=True, model_servers=_SERVERS)
    for way in ("default", "canary")
    for part in ("predictor", "transformer", "explainer")
)


def _argo(under: str) -> tuple[TemplatePath, ...]:
    """Steps of a workflow have one container, beside fields of a pod's spec."""
    return (TemplatePath(f"{under}.templates.[]", bare=True, model_servers=("container", "script")),)


def _kubeflow(name: str) -> tuple[TemplatePath, ...]:
    return _replicated(f"spec.{name}ReplicaSpecs.*")


PLACES: dict[tuple[str, str], tuple[TemplatePath, ...]] = {
    ("", "Pod"): (TemplatePath(""),),
    ("", "PodTemplate"): (TemplatePath("template"),),
    ("", "ReplicationController"): _WORKLOAD,
    ("apps", "Deployment"): _WORKLOAD,
    ("apps", "ReplicaSet"): _WORKLOAD,
    ("apps", "StatefulSet"): _WORKLOAD,
    ("extensions", "Deployment"): _WORKLOAD,
    ("apps", "DaemonSet"): (TemplatePath("spec.template", per_node=True),),
    ("batch", "Job"): (TemplatePath("spec.template", ("spec.parallelism",)),),
    ("batch", "CronJob"): (
        TemplatePath("spec.jobTemplate.spec.template", ("spec.jobTemplate.spec.parallelism",)),
    ),
    ("jobset.x-k8s.io", "JobSet"): _JOB_SET_PLACES,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        TemplatePath(f"{_LWS}.leaderTemplate"),
        TemplatePath(f"{_LWS}.workerTemplate", (f"{_LWS}.size",)),
    ),
    ("kubeflow.org", "PyTorchJob"): _kubeflow("pytorch"),
    ("kubeflow.org", "TFJob"): _kubeflow("tf"),
    ("kubeflow.org", "MPIJob"): _kubeflow("mpi"),
    ("kubeflow.org", "XGBoostJob"): _kubeflow("xgb"),
    ("kubeflow.org", "PaddleJob"): _kubeflow("paddle"),
    ("kubeflow.org", "JAXJob"): _kubeflow("jax"),
    ("kubeflow.org", "MXJob"): _kubeflow("mx"),
    ("kubeflow.org", "Notebook"): _ONE_TEMPLATE,
    ("trainer.kubeflow.org", "TrainingRuntime"): (
        TemplatePath(f"spec.template.{_JOB_SETS}.template.spec.template"),
    ),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): (
        TemplatePath(f"spec.template.{_JOB_SETS}.template.spec.template"),
    ),
    ("ray.io", "RayCluster"): _ray("spec"),
    ("ray.io", "RayJob"): (*_ray("spec.rayClusterSpec"), TemplatePath("spec.submitterPodTemplate")),
    ("ray.io", "RayService"): _ray("spec.rayClusterConfig"),
    ("serving.kserve.io", "InferenceService"): _PREDICTOR,
    # The group that KServe had while it was a part of Kubeflow.
    ("serving.kubeflow.org", "InferenceService"): (*_PREDICTOR, *_FIRST_PREDICTORS),
    ("argoproj.io", "Workflow"): _argo("spec"),
    ("argoproj.io", "WorkflowTemplate"): _argo("spec"),
    ("argoproj.io", "ClusterWorkflowTemplate"): _argo("spec"),
    ("argoproj.io", "CronWorkflow"): _argo("spec.workflowSpec"),
    ("argoproj.io", "Rollout"): _WORKLOAD,
    ("serving.kserve.io", "ServingRuntime"): (TemplatePath("spec", bare=True),),
    ("serving.kserve.io", "ClusterServingRuntime"): (TemplatePath("spec", bare=True),),
    ("serving.kserve.io", "LLMInferenceService"): (
        TemplatePath("spec.template", ("spec.replicas",), bare=True, is_completed=True),
        TemplatePath("spec.worker", bare=True, is_completed=True),
        TemplatePath("spec.prefill.template", ("spec.prefill.replicas",), bare=True, is_completed=True),
    ),
    ("serving.knative.dev", "Service"): _ONE_TEMPLATE,
    ("serving.knative.dev", "Configuration"): _ONE_TEMPLATE,
    ("batch.volcano.sh", "Job"): _replicated("spec.tasks.[]"),
}
KINDS_WITH_PODS = frozenset(PLACES)
PER_NODE = "DaemonSet"
"""The kind with a pod on every node, which may serve others there."""
RUNTIMES = frozenset({"ServingRuntime", "ClusterServingRuntime", "TrainingRuntime", "ClusterTrainingRuntime"})
"""Kinds with pods that are made for other objects, which say how many GPUs they get."""


def is_known(group: str, kind: str) -> bool:
    """Whether the kind is Kubernetes' own, or one whose pods the table finds."""
    return (group, kind) in KINDS_WITH_PODS or is_of_kubernetes(group, kind)


def makes_final_pods(group: str, kind: str) -> bool:
    """Whether pods are made as an object of this kind says; that of other kinds is not known."""
    return is_known(group, kind) and kind not in RUNTIMES and kind != "PodTemplate"


def pod_templates(group: str, kind: str, root: Field) -> tuple[PodTemplate, ...]:
    """Every pod template of an object of this kind; of a kind that is not in the table, by their shape."""
    places = PLACES.get((group, kind))
    if places is None:
        return tuple(templates_by_shape(group, kind, root))
    return tuple(one for place in places for one in _found(place, root))


def _found(place: TemplatePath, root: Field) -> Iterator[PodTemplate]:
    # A pod is its own template, and there are more pods than all else.
    found_at = _follow(root, place.template.split(".")) if place.template else ((root, ""),)
    for field, role in found_at:
        if not field.exists:
            continue
        replicas = 1
        for path in place.replicas:
            found = _beside(root, field, path).integer
            replicas *= 1 if found is None else max(found, 0)
        metadata, spec = (
            (root.at("metadata"), field) if place.bare else (field.at("metadata"), field.at("spec"))
        )
        count = None if place.per_node else replicas
        yield PodTemplate(
            metadata, spec, role, count, place.model_servers, place.is_completed, place.has_memory
        )


def _follow(field: Field, steps: list[str]) -> Iterator[tuple[Field, str]]:
    """The fields at the end of the path, each with the last name that the path left open."""
    if not steps:
        yield field, ""
        return
    step, *rest = steps
    if step == ANY_ITEM:
        branches = [(one, one.text_at("name") or one.text_at("groupName") or "") for one in field.items()]
    elif step == ANY_FIELD:
        branches = [(one, name) for name, one in field.entries()]
    else:
        branches = [(field.at(step), "")]
    for branch, name in branches:
        for found, role in _follow(branch, rest):
            yield found, role or name


def _beside(root: Field, field: Field, path: str) -> Field:
    """The field at this path, taking at every open step the way that led to ``field``."""
    found = root
    for index, step in enumerate(path.split(".")):
        if step in {ANY_ITEM, ANY_FIELD}:
            key = field.keys[len(root.keys) + index]
            found = found.items()[key] if isinstance(key, int) else found.at(key)
        else:
            found = found.at(step)
    return found
