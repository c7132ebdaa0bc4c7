"""Ways to let GPU work wait in a queue for ever: on a real API server, the right cause is named first."""

from typing import Any

from gpufleet.localkube.access.api import Object
from tests.doctor.patient import Patient, a_deployment, a_job, a_pod

KUEUE = "kueue.x-k8s.io"
QUEUE = "gpufleet.io/queue"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
GPU = "nvidia.com/gpu"


def a_queue(name: str, **spec: Any) -> Object:
    """A FleetQueue."""
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def in_queue(body: Object, key: str, name: str) -> Object:
    """The object with a label that names its queue."""
    return {**body, "metadata": {**body["metadata"], "labels": {key: name}}}


def of_kueue(kind: str, name: str, **spec: Any) -> Object:
    """An object of Kueue."""
    return {"apiVersion": f"{KUEUE}/v1beta1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def with_kueue(patient: Patient) -> None:
    """Kueue's kinds, and a pod that looks like its controller."""
    patient.define(KUEUE, "v1beta1", "LocalQueue", "Workload", cluster=("ClusterQueue", "ResourceFlavor"))
    controller = a_pod("kueue-controller-manager", gpus=0)
    controller["spec"]["containers"][0]["image"] = "registry.k8s.io/kueue/kueue:v0.14.1"
    patient.apply(controller)


def quota(flavor: str, amount: int, resource: str = GPU) -> dict[str, Any]:
    """What a ClusterQueue may have of a flavor."""
    resources = [{"name": resource, "nominalQuota": amount}]
    group = {"coveredResources": [resource], "flavors": [{"name": flavor, "resources": resources}]}
    return {"resourceGroups": [group]}


def a_suspended_job(name: str, queue: str) -> Object:
    """A Job as Kueue finds it."""
    pod = a_pod(name, schedulerName="default-scheduler")
    return in_queue(a_job(name, pod, suspend=True), KUEUE_QUEUE, queue)


def test_a_fleet_queue_that_does_not_exist(patient: Patient) -> None:
    patient.apply(a_queue("research"), in_queue(a_pod("train"), QUEUE, "reserch"))
    found = patient.finds("queue-missing", "Pod default/train", "FleetQueue reserch")
    assert "did you mean research?" in found.failure.mends[0].does


def test_a_fleet_queue_without_its_parent(patient: Patient) -> None:
    patient.apply(a_queue("vision", parent="research"))
    patient.finds("queue-closed", "FleetQueue vision", "ParentMissing")


def test_a_fleet_queue_that_is_held_while_work_waits(patient: Patient) -> None:
    patient.apply(a_queue("vision", state="Held"), in_queue(a_pod("train"), QUEUE, "vision"))
    found = patient.finds("queue-closed", "FleetQueue vision", "Held", "Pod default/train")
    assert '"state": "Open"' in found.failure.mends[0].command


def test_a_fleet_queue_with_no_quota_at_all(patient: Patient) -> None:
    quotas = [{"resource": "gpu", "nominal": 0, "hardLimit": 0}]
    patient.apply(a_queue("vision", quotas=quotas), in_queue(a_pod("train"), QUEUE, "vision"))
    patient.finds("queue-without-quota", "Pod default/train", "at most 0")


def test_a_local_queue_that_does_not_exist(patient: Patient) -> None:
    with_kueue(patient)
    patient.apply(of_kueue("LocalQueue", "team", clusterQueue="all"), of_kueue("ClusterQueue", "all"))
    patient.apply(a_suspended_job("train", "teams"))
    found = patient.finds("queue-missing", "Job default/train", "LocalQueue default/teams")
    assert "did you mean team?" in found.failure.mends[0].does


def test_a_cluster_queue_that_does_not_exist(patient: Patient) -> None:
    with_kueue(patient)
    patient.apply(of_kueue("LocalQueue", "team", clusterQueue="all"), a_suspended_job("train", "team"))
    patient.finds("queue-missing", "Job default/train", "ClusterQueue all")


def test_a_cluster_queue_that_is_stopped(patient: Patient) -> None:
    with_kueue(patient)
    patient.apply(of_kueue("ClusterQueue", "all", stopPolicy="Hold", **quota("default", 8)))
    patient.apply(of_kueue("LocalQueue", "team", clusterQueue="all"), a_suspended_job("train", "team"))
    patient.finds("queue-closed", "ClusterQueue all", "stopPolicy: Hold", "Job default/train")


def test_a_cluster_queue_that_is_not_active(patient: Patient) -> None:
    with_kueue(patient)
    inactive = {"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": "no flavor h100"}
    queue = of_kueue("ClusterQueue", "all", **quota("h100", 8))
    patient.apply({**queue, "status": {"conditions": [inactive]}})
    patient.finds("queue-closed", "ClusterQueue all", "FlavorNotFound")


def test_a_cluster_queue_that_does_not_count_gpus(patient: Patient) -> None:
    with_kueue(patient)
    patient.apply(of_kueue("ClusterQueue", "all", **quota("default", 64, "cpu")))
    patient.apply(of_kueue("LocalQueue", "team", clusterQueue="all"), a_suspended_job("train", "team"))
    patient.finds("queue-without-quota", "Job default/train", "no flavor of the queue has nvidia.com/gpu")


def test_a_flavor_that_matches_no_node(patient: Patient) -> None:
    with_kueue(patient)
    product = {"nvidia.com/gpu.product": "NVIDIA-H100"}
    patient.apply(of_kueue("ResourceFlavor", "h100", nodeLabels=product))
    patient.apply(of_kueue("ClusterQueue", "all", **quota("h100", 8)))
    patient.apply(a_deployment("serve", a_pod("serve", nodeSelector=product)))
    found = patient.finds("flavor-matches-nothing", "ResourceFlavor h100", "NVIDIA-H100")
    assert found.failure.affects >= {"Deployment default/serve", "ClusterQueue all"}


def test_a_job_that_is_suspended_for_nobody(patient: Patient) -> None:
    patient.apply(a_suspended_job("train", "team"))
    patient.finds("job-suspended", "Job default/train", "queue team", age_s=600)
