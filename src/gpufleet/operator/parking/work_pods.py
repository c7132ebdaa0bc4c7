"""The pods of workloads as parking reads them: whose they are, since when they run, what they hold."""

from collections.abc import Iterable

from gpufleet.kube.codec.times import microseconds
from gpufleet.kube.meanings.gpu_resources import is_device
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.pod import ContainerResources
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import DEPLOYMENTS, INFERENCE_SERVICES, NOTEBOOKS
from gpufleet.model.model_errors import InputError
from gpufleet.operator.parking.parking_step import WorkloadKey

NOTEBOOK_LABEL = "notebook-name"
"""On the pods of a Notebook of Kubeflow."""

INFERENCE_LABEL = "serving.kserve.io/inferenceservice"
"""On the pods of an InferenceService, of whichever Deployment."""

JUPYTERHUB_LABEL = "hub.jupyter.org/username"
JUPYTERHUB_ESCAPED_LABEL = "hub.jupyter.org/servername"
"""On the pods of a JupyterHub, which have no controller: the hub makes each."""

JUPYTERHUB_KIND = "JupyterHub server"
ENDED = frozenset({"Succeeded", "Failed"})
RUNNING, READY = "Running", "Ready"
NEVER_US = 2**62
"""After every moment that is looked at."""


class WorkContainer(Structure, frozen=True):
    """A container's amounts."""

    resources: ContainerResources = ContainerResources()


class WorkPodSpec(Structure, frozen=True):
    """A pod's containers and where it is."""

    containers: tuple[WorkContainer, ...] = ()
    init_containers: tuple[WorkContainer, ...] = ()
    node_name: str = ""


class WorkCondition(Structure, frozen=True):
    """One condition."""

    type: str = ""
    status: str = ""


class WorkPodStatus(Structure, frozen=True):
    """How far a pod is."""

    phase: str = ""
    start_time: str | None = None
    conditions: tuple[WorkCondition, ...] = ()


class WorkPod(Structure, frozen=True):
    """A pod."""

    metadata: Metadata
    spec: WorkPodSpec = WorkPodSpec()
    status: WorkPodStatus = WorkPodStatus()

    @property
    def gpus(self) -> int:
        """How many devices it asks for: GPUs, instances or shares."""
        return sum(map(_devices, self.spec.containers))

    @property
    def is_there(self) -> bool:
        """Whether it has not ended."""
        return self.status.phase not in ENDED

    @property
    def is_ready(self) -> bool:
        """Whether it runs and says that it is ready."""
        ready = any(one.type == READY and one.status == "True" for one in self.status.conditions)
        return self.status.phase == RUNNING and ready

    @property
    def started_us(self) -> int:
        """When its node took it, microseconds since 1970; when it was made, where no node has yet."""
        try:
            return microseconds(self.status.start_time or self.metadata.creation_timestamp)
        except InputError:
            # A time that cannot be read must not make a pod old enough to be parked.
            return NEVER_US


def _devices(container: WorkContainer) -> int:
    # Kubernetes takes devices only where request and limit are equal, so that the two are never added up.
    amounts = {**container.resources.requests, **container.resources.limits}
    return sum(int(text) for name, text in amounts.items() if is_device(name) and text.isdecimal())


def workload_of(pod: WorkPod) -> WorkloadKey:
    """What the pod belongs to: a workload that can be parked, or whatever else keeps it; itself if nothing
    does.
    """
    metadata = pod.metadata
    namespace, labels, owner = metadata.namespace, metadata.labels, metadata.controller
    # Before the controller is asked: KServe keeps the Deployment of such a pod and undoes changes of it.
    if INFERENCE_LABEL in labels:
        return WorkloadKey(INFERENCE_SERVICES.name, namespace, labels[INFERENCE_LABEL])
    if owner is None:
        if JUPYTERHUB_LABEL in labels or JUPYTERHUB_ESCAPED_LABEL in labels:
            return WorkloadKey(JUPYTERHUB_KIND, namespace, metadata.name)
        return WorkloadKey("Pod", namespace, metadata.name)
    if NOTEBOOK_LABEL in labels and owner.kind == "StatefulSet":
        return WorkloadKey(NOTEBOOKS.name, namespace, labels[NOTEBOOK_LABEL])
    if owner.kind == "ReplicaSet":
        # The Deployment's name with the hash of its template.
        return WorkloadKey(DEPLOYMENTS.name, namespace, owner.name.rpartition("-")[0] or owner.name)
    return WorkloadKey(owner.kind, namespace, owner.name)


def by_workload(pods: Iterable[WorkPod]) -> dict[WorkloadKey, list[WorkPod]]:
    """The pods that have not ended, by what they belong to."""
    found: dict[WorkloadKey, list[WorkPod]] = {}
    for pod in pods:
        if pod.is_there:
            found.setdefault(workload_of(pod), []).append(pod)
    return found


REFUSALS = {
    "Job": "it ends by itself, and begins anew when it is started again: suspend it (spec.suspend)",
    "DaemonSet": "it runs on every node that it selects: change its nodeSelector",
    "ReplicaSet": "it has no Deployment that would bring it back: scale it to 0 yourself",
    "Pod": "nothing would bring it back: run it by a Deployment or a StatefulSet",
    JUPYTERHUB_KIND: (
        "only its hub brings it back: stop it there, or have a rule of its namespace end it when it is idle"
    ),
}
"""Why pods of other kinds are not parked, and what to do."""

OTHER_REFUSAL = "how it is brought back is not known: scale it to zero by its own controller"


def refusal_of(kind: str) -> str:
    """Why work of this kind is not parked."""
    return REFUSALS.get(kind, OTHER_REFUSAL)
