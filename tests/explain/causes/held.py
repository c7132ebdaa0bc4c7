"""Causes for which no place is looked for: gates, claims, contradictions, pods that never came."""

from tests.explain.causes.book import cause
from tests.explain.causes.neighbours import claim, uses
from tests.scheduler.world import World

SLOT = {"gpufleet.io/gpu-share": "1"}


@cause("gated", why="example.com/approval", way="the controller that closed the gate opens it")
def a_gate_is_closed(world: World) -> None:
    world.node("a")
    world.pod("p", schedulingGates=[{"name": "example.com/approval"}])


@cause(
    "gated",
    why="kueue.x-k8s.io/admission and example.com/approval",
    way="the controller that closed the gate example.com/approval opens it",
)
def a_gate_of_kueue_and_another(world: World) -> None:
    world.node("a")
    gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "example.com/approval"}]
    world.pod("p", schedulingGates=gates, labels={"kueue.x-k8s.io/queue-name": "team-a"})


@cause(
    "gated",
    why="its scheduling gates are closed: kueue.x-k8s.io/admission",
    way="when a queue admits the pod, and it names none (label kueue.x-k8s.io/queue-name)",
)
def a_gate_of_kueue_and_no_queue(world: World) -> None:
    world.node("a")
    world.pod("p", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])


@cause("resource-claim", why="no claim has been made of the template one-gpu yet", way="see whether the")
def a_claim_of_devices(world: World) -> None:
    world.node("a")
    world.pod("p", gpus=0, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])


@cause("claim-missing", why="claim datta is not there", way="did you mean data?")
def a_misspelt_claim(world: World) -> None:
    world.node("a")
    claim(world, "data", kind="none")
    world.pod("p", **uses("datta"))


@cause("claim-unbound", why="claim data is not bound to a volume yet", way="names no storageClassName")
def a_claim_without_a_class(world: World) -> None:
    world.node("a")
    claim(world, "data")
    world.pod("p", **uses("data"))


@cause("class-missing", why="claim data names class fast-sdd", way="did you mean fast-ssd?")
def a_misspelt_storage_class(world: World) -> None:
    world.node("a")
    world.add(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast-ssd"},
            "provisioner": "disk.example.com",
        }
    )
    claim(world, "data", kind="fast-sdd")
    world.pod("p", **uses("data"))


@cause("malformed", why="gpufleet.io/gpu-fraction", way="correct that field")
def a_fraction_that_is_no_number(world: World) -> None:
    world.node("a", shares=True)
    world.pod("p", gpus=0, annotations={"gpufleet.io/gpu-fraction": "half"}, resources=SLOT)


@cause("malformed", why="another share than", way="correct that field")
def two_ways_of_sharing_that_differ(world: World) -> None:
    world.node("a", shares=True)
    annotations = {"gpufleet.io/gpu-fraction": "0.5", "gpu-fraction": "0.25"}
    world.pod("p", gpus=0, annotations=annotations, resources=SLOT)


@cause("malformed", why="a pod in two groups", way="correct that field")
def two_gangs_at_once(world: World) -> None:
    world.node("a")
    annotations = {"gpufleet.io/gang": "one", "pod-group-name": "two"}
    world.pod("p", annotations=annotations)


@cause("malformed", why="a share of a GPU without its slot", way="correct that field")
def a_fraction_without_its_slot(world: World) -> None:
    world.node("a", shares=True)
    world.pod("p", gpus=0, annotations={"gpufleet.io/gpu-fraction": "0.5"})


@cause(
    "foreign", why="its schedulerName is default-scheduler", way="make it anew with schedulerName: gpufleet"
)
def another_schedulers_pod(world: World) -> None:
    world.node("a")
    world.pod("p", schedulerName="default-scheduler")


@cause(
    "foreign",
    why="as it asks for nvidia.com/gpus, which is no name of a GPU; that scheduler says: '0/1 nodes",
    way="write nvidia.com/gpu in place of nvidia.com/gpus",
)
def a_slip_leaves_a_pod_to_kubernetes_own_scheduler(world: World) -> None:
    world.node("a")
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpus": "1"}}}
    said = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpus.",
    }
    spec = {"schedulerName": "default-scheduler", "containers": [container]}
    metadata = {"name": "p", "namespace": "default"}
    world.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    code = world.request(
        "PATCH", "/api/v1/namespaces/default/pods/p/status", {"status": {"conditions": [said]}}
    )
    assert code == 200


@cause(
    "foreign",
    why="default-scheduler, as it asks for alpha.kubernetes.io/nvidia-gpu, which is no name of a GPU",
    way="write nvidia.com/gpu in place of alpha.kubernetes.io/nvidia-gpu",
)
def a_name_of_before_device_plugins(world: World) -> None:
    world.node("a")
    resources = {"alpha.kubernetes.io/nvidia-gpu": "1"}
    world.pod("p", gpus=0, resources=resources, schedulerName="default-scheduler")


@cause(
    "foreign",
    why="default-scheduler, as it asks for devices by a ResourceClaim",
    way="make it anew with schedulerName: gpufleet",
)
def a_claim_left_to_kubernetes_own_scheduler(world: World) -> None:
    world.node("a")
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    world.pod("p", gpus=0, schedulerName="default-scheduler", resourceClaims=claims)


@cause(
    "foreign", why="default-scheduler, as it asks for no GPU", way="make it anew with schedulerName: gpufleet"
)
def a_pod_without_a_gpu_in_a_managed_namespace(world: World) -> None:
    world.node("a")
    labels = {"metadata": {"labels": {"gpufleet.io/managed": "true"}}}
    assert world.request("PATCH", "/api/v1/namespaces/default", labels) == 200
    world.pod("p", gpus=0, schedulerName="default-scheduler")


def job(world: World, note: str = "", **spec: object) -> None:
    """A Job without pods, and the event of its controller."""
    metadata = {"name": "train", "namespace": "default", "uid": "job-uid"}
    world.add(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"parallelism": 2, **spec}}
    )
    if note:
        world.add(
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": "train.1", "namespace": "default"},
                "reason": "FailedCreate",
                "note": note,
                "regarding": {"kind": "Job", "namespace": "default", "name": "train"},
            }
        )


@cause(
    "quota",
    why="quota team refuses its pods: requests.nvidia.com/gpu: 6 of 8 are used, and a pod asks for 4",
    way="raise the ResourceQuota team",
    asks="job/train",
)
def a_quota_is_full(world: World) -> None:
    world.node("a")
    job(
        world,
        'Error creating: pods "train-x" is forbidden: exceeded quota: team, requested: '
        "requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=6, limited: requests.nvidia.com/gpu=8",
    )


@cause("quota", why="only lets pods in that say requests.cpu", way="write requests.cpu", asks="train")
def a_quota_wants_more_said(world: World) -> None:
    world.node("a")
    job(
        world,
        'Error creating: pods "train-x" is forbidden: failed quota: team: must specify '
        "requests.cpu for: main",
    )


@cause("admission", why="violates PodSecurity", way="correct what the message names", asks="train")
def an_admission_rule_refuses(world: World) -> None:
    world.node("a")
    job(
        world,
        'Error creating: pods "train-x" is forbidden: violates PodSecurity "restricted:latest": privileged',
    )


@cause("suspended", why="it is suspended", way="kubectl patch job train", asks="train")
def a_job_is_suspended(world: World) -> None:
    world.node("a")
    job(world, suspend=True)


@cause(
    "suspended", why="it is suspended", way="Kueue resumes it when its queue team-a admits it", asks="train"
)
def a_job_is_suspended_for_kueue(world: World) -> None:
    world.node("a")
    metadata = {
        "name": "train",
        "namespace": "default",
        "uid": "job-uid",
        "labels": {"kueue.x-k8s.io/queue-name": "team-a"},
    }
    world.add({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"suspend": True}})
