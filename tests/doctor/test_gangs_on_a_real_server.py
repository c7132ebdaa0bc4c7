"""Ways to let distributed work wait for itself: on a real API server, the right cause is named first."""

import time
from typing import Any

from gpufleet.localkube.access.api import Object
from tests.doctor.kubelets import PODS
from tests.doctor.patient import MERGE, POLL_EVERY_S, WAIT_S, Patient, a_deployment, a_job, a_pod

GANG = "gpufleet.io/gang"


def an_indexed_job(name: str, pods: int, gpus: int, **pod: Any) -> Object:
    """A Job whose pods know each other."""
    return a_job(name, a_pod(name, gpus, **pod), completionMode="Indexed", completions=pods, parallelism=pods)


def of_gang(body: Object, least: int | None = None) -> Object:
    """The workload with the annotations of a gang on its pods."""
    said = {GANG: "train"} | ({"gpufleet.io/gang-min-members": str(least)} if least else {})
    metadata = body["spec"]["template"].setdefault("metadata", {})
    metadata["annotations"] = said
    return body


def pods_of_job(patient: Patient, name: str, count: int) -> list[str]:
    """The names of the pods of a Job, when they are made."""
    end_s = time.monotonic() + WAIT_S
    while True:
        found = patient.api.call("GET", f"{PODS}?labelSelector=job-name%3D{name}")["items"]
        if len(found) == count:
            return sorted(one["metadata"]["name"] for one in found)
        assert time.monotonic() < end_s
        time.sleep(POLL_EVERY_S)


def test_a_job_of_which_half_is_placed(patient: Patient) -> None:
    half_placed(patient, ["torchrun", "--nnodes=4", "train.py"])
    patient.finds("gang-half-started", "Job default/train: 2 pods hold 16 GPUs and wait for 2", age_s=600)


def test_pieces_of_work_that_need_not_know_each_other_are_no_gang(patient: Patient) -> None:
    half_placed(patient, ["python", "embed.py", "--shard=$(JOB_COMPLETION_INDEX)"])
    patient.is_healthy()
    assert not patient.examined(age_s=600).causes


def half_placed(patient: Patient, command: list[str]) -> None:
    """A Job of four pods on Kubernetes' own scheduler, which had room for two."""
    job = an_indexed_job("train", 4, 8, schedulerName="default-scheduler")
    job["spec"]["template"]["spec"]["containers"][0]["command"] = command
    patient.apply(job)
    first, second, *others = pods_of_job(patient, "train", 4)
    for number, name in enumerate((first, second), start=1):
        target = {"kind": "Node", "name": f"gpu-{number:03}"}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        patient.api.call("POST", f"{PODS}/{name}/binding", binding)
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    for name in others:
        patient.api.call("PATCH", f"{PODS}/{name}/status", {"status": {"conditions": [said]}}, MERGE)


def test_a_gang_of_more_members_than_it_has(patient: Patient) -> None:
    patient.apply(of_gang(a_deployment("short", a_pod("short"), replicas=2), least=3))
    patient.finds("gang-impossible", "Deployment default/short: waits for 3 members and has 2")


def test_a_gang_for_which_the_empty_cluster_has_no_room(patient: Patient) -> None:
    # Six nodes have eight GPUs each.
    patient.apply(of_gang(an_indexed_job("train", 7, 8)))
    patient.finds("gang-impossible", "waits for 7 pods with GPUs, and the empty cluster has room for 6")


def test_a_gang_that_is_larger_than_its_queue_allows(patient: Patient) -> None:
    kind = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue", "metadata": {"name": "vision"}}
    job = of_gang(an_indexed_job("train", 2, 8))
    job["spec"]["template"]["metadata"]["labels"] = {"gpufleet.io/queue": "vision"}
    quotas = [{"resource": "gpu", "nominal": 8, "hardLimit": 8}]
    patient.apply({**kind, "spec": {"quotas": quotas}}, job)
    patient.finds("gang-impossible", "Job default/train: needs 16 nvidia.com/gpu at once", "never has over 8")


def test_a_pod_group_of_more_members_than_there_are(patient: Patient) -> None:
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    pod = a_pod("train", schedulingGroup={"podGroupName": "train"})
    patient.apply(group, a_deployment("train", pod, replicas=2))
    patient.finds("gang-impossible", "PodGroup default/train: waits for 3 members and has 2")


def test_a_pod_group_that_does_not_exist(patient: Patient) -> None:
    patient.apply(a_pod("train", schedulingGroup={"podGroupName": "train"}))
    found = patient.finds("pod-group-missing", "Pod default/train", "PodGroup default/train")
    assert "minCount: 1" in found.failure.mends[0].manifest


def test_a_gang_that_the_scheduler_does_not_know(patient: Patient) -> None:
    pod = a_pod("train", schedulerName="default-scheduler", nodeName="gpu-001")
    patient.without_device_policies(pod)
    label = {"scheduling.x-k8s.io/pod-group": "train"}
    patient.apply({**pod, "metadata": {"name": "train", "labels": label}})
    patient.finds("gang-unheeded", "Pod default/train", "scheduler-plugins-scheduler")


def test_a_whole_gang_that_waits_for_room_is_no_failure(patient: Patient) -> None:
    for number in range(6):
        patient.apply(a_pod(f"holds-{number}", 8))
    patient.apply(of_gang(an_indexed_job("train", 4, 8)))
    pods_of_job(patient, "train", 4)
    patient.is_healthy()
