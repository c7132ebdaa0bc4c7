"""Ways to break GPU nodes and who places pods: on a real API server the right cause is named first."""

import os
import signal

from tests.doctor.patient import Patient, a_pod
from tests.doctor.staging import NAMES, add_node, say_of_node

LEASE = "/apis/coordination.k8s.io/v1/namespaces/gpufleet-system/leases/gpufleet-scheduler"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
DAYS_S = 48 * 3600.0
LONG_AGO = "2026-01-01T00:00:00.000000Z"


def cordon(patient: Patient, name: str) -> None:
    patient.patch_node(name, {"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}})


def test_a_node_that_is_not_ready(patient: Patient) -> None:
    name = add_node(patient)
    say_of_node(patient, name, "Ready", "False", "KubeletNotReady")
    patient.finds("nodes-unready", name, "Ready=False KubeletNotReady", "8 GPUs")


def test_every_gpu_node_is_cordoned(patient: Patient) -> None:
    for name in NAMES:
        cordon(patient, name)
    patient.apply(a_pod("closed-out"))
    found = patient.finds("nodes-cordoned", "every GPU node", "gpu-004: spec.unschedulable true")
    assert {one.check.id for one in found.follows} <= {"taint-untolerated"}


def test_a_cordon_that_was_forgotten(patient: Patient) -> None:
    cordon(patient, "gpu-002")
    for number in range(6):
        patient.apply(a_pod(f"large-{number}", 8))
    patient.finds("cordon-forgotten", "gpu-002", "48 hours", age_s=DAYS_S)


def test_a_cordon_of_today_is_nothing(patient: Patient) -> None:
    cordon(patient, "gpu-002")
    patient.apply(a_pod("small"))
    patient.is_healthy()


def test_a_full_disk(patient: Patient) -> None:
    name = add_node(patient)
    say_of_node(patient, name, "DiskPressure", "True", "KubeletHasDiskPressure")
    patient.finds("nodes-pressed", name, "DiskPressure=True KubeletHasDiskPressure")


def test_a_kubelet_that_says_nothing(patient: Patient) -> None:
    name = add_node(patient)
    patient.apply(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": LONG_AGO},
        }
    )
    patient.finds("nodes-silent", name, "its Lease was not renewed")


def test_a_scheduler_that_stands_still(patient: Patient) -> None:
    scheduler = patient.cluster.pid("scheduler")
    os.kill(scheduler, signal.SIGSTOP)
    try:
        patient.change(LEASE, {"spec": {"renewTime": LONG_AGO}})
        patient.apply(a_pod("unplaced"))
        patient.finds(
            "scheduler-absent", "Pod default/unplaced", "Lease gpufleet-system/gpufleet-scheduler: held by"
        )
    finally:
        os.kill(scheduler, signal.SIGCONT)


def test_a_scheduler_that_nobody_runs(patient: Patient) -> None:
    patient.apply(a_pod("lost", schedulerName="gpufleets"))
    found = patient.finds("scheduler-unknown", "Pod default/lost", "spec.schedulerName: gpufleets", age_s=180)
    assert "did you mean gpufleet?" in found.failure.mends[0].does


def test_a_pod_that_has_just_come_is_not_judged(patient: Patient) -> None:
    patient.apply(a_pod("new", schedulerName="gpufleets"))
    patient.is_healthy()


def test_grants_that_anybody_may_write(patient: Patient) -> None:
    patient.delete(f"{POLICIES}/validatingadmissionpolicybindings/gpufleet-grant-guard")
    patient.finds("guard-missing", "ValidatingAdmissionPolicyBinding gpufleet-grant-guard")
