"""Which work is parked by which rule, whose pods are whose, and what is refused with which words."""

from typing import Any

import msgspec
import pytest

from gpufleet.kube.resources import DEPLOYMENTS, INFERENCE_SERVICES, NOTEBOOKS, STATEFUL_SETS, Kind
from gpufleet.model.model_errors import InputError
from gpufleet.operator.parking.observation import FoundWorkload, Observation, add_pods, add_unended
from gpufleet.operator.parking.parking_step import (
    ParkingAction,
    ParkingWrite,
    SeenWorkload,
    WorkloadKey,
)
from gpufleet.operator.parking.patches import patch_of
from gpufleet.operator.parking.rule import IdleRule
from gpufleet.operator.parking.stamp import ParkingPhase, ParkingStamp, read_stamp, written_stamp
from gpufleet.operator.parking.work_pods import WorkPod, by_workload, workload_of
from gpufleet.operator.parking.workloads import Workload, has_rule, seen_workload
from tests.operator.parking.measured import HOUR_US, MINUTE_US, NOW_US

STOPPED = "kubeflow-resource-stopped"
TWO_HOURS = {"gpufleet.io/park-after": "2h"}


def workload(annotations: dict[str, str] | None = None, spec: dict[str, Any] | None = None) -> Workload:
    """A workload as it comes over the wire."""
    metadata = {"name": "lab", "namespace": "team", "uid": "u", "resourceVersion": "7"}
    written = {"metadata": {**metadata, "annotations": annotations or {}}, "spec": spec or {}}
    return msgspec.json.decode(msgspec.json.encode(written), type=Workload)


def pod(name: str = "lab-0", owner: str = "", labels: dict[str, str] | None = None, gpus: int = 1) -> WorkPod:
    """A pod with GPUs; ``owner`` is KIND/NAME."""
    kind, _, owner_name = owner.partition("/")
    owners = [{"kind": kind, "name": owner_name, "controller": True}] if owner else []
    written = {
        "metadata": {"name": name, "namespace": "team", "labels": labels or {}, "ownerReferences": owners},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }
    return msgspec.json.decode(msgspec.json.encode(written), type=WorkPod)


def test_the_rule_of_work_counts_before_that_of_its_namespace() -> None:
    seen = seen_workload(NOTEBOOKS, workload({"gpufleet.io/park-after": "1h"}), TWO_HOURS)
    assert seen.rule == IdleRule(HOUR_US, 15 * MINUTE_US)
    assert seen_workload(NOTEBOOKS, workload({"gpufleet.io/park-after": "never"}), TWO_HOURS).rule is None


@pytest.mark.parametrize(
    ("kind", "concerned"),
    [(NOTEBOOKS, True), (INFERENCE_SERVICES, True), (DEPLOYMENTS, False), (STATEFUL_SETS, False)],
)
def test_a_rule_of_a_namespace_concerns_notebooks_and_model_servers_alone(
    kind: Kind, concerned: bool
) -> None:
    assert has_rule(kind, workload(), TWO_HOURS) is concerned
    assert (seen_workload(kind, workload(), TWO_HOURS).rule is not None) is concerned


@pytest.mark.parametrize(
    "annotations",
    [
        {"gpufleet.io/park-after": "soon"},
        {"gpufleet.io/park-after": "5m"},
        {"gpufleet.io/park-after": "1h", "gpufleet.io/park-warning": "1s"},
        {"gpufleet.io/park-after": "1h", "gpufleet.io/keep-until": "friday"},
        {"gpufleet.io/park-after": "1h", "gpufleet.io/last-activity": "just now"},
    ],
)
def test_a_text_that_cannot_be_read_is_a_problem_that_names_its_annotation(
    annotations: dict[str, str],
) -> None:
    assert list(annotations)[-1] in seen_workload(DEPLOYMENTS, workload(annotations), {}).problem


def test_a_stateful_set_whose_volumes_would_be_deleted_is_refused() -> None:
    spec = {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}
    assert "its volumes would be deleted" in seen_workload(STATEFUL_SETS, workload(spec=spec), {}).problem


def test_work_without_a_number_of_replicas_has_one() -> None:
    assert seen_workload(DEPLOYMENTS, workload(), {}).replicas == 1


@pytest.mark.parametrize(
    ("owner", "labels", "expected"),
    [
        ("ReplicaSet/lab-5dd5756b68", {}, "Deployment team/lab"),
        ("StatefulSet/lab", {}, "StatefulSet team/lab"),
        ("StatefulSet/lab", {"notebook-name": "lab"}, "Notebook team/lab"),
        (
            "ReplicaSet/llm-predictor-1",
            {"serving.kserve.io/inferenceservice": "llm"},
            "InferenceService team/llm",
        ),
        ("", {"hub.jupyter.org/username": "ada"}, "JupyterHub server team/lab-0"),
        ("", {}, "Pod team/lab-0"),
        ("PyTorchJob/train", {}, "PyTorchJob team/train"),
    ],
)
def test_a_pod_belongs_to_what_can_be_parked(owner: str, labels: dict[str, str], expected: str) -> None:
    assert str(workload_of(pod(owner=owner, labels=labels))) == expected


def looked(annotations: dict[str, str]) -> tuple[Observation, SeenWorkload]:
    """A look at one Deployment."""
    found = workload(annotations)
    seen = seen_workload(DEPLOYMENTS, found, {})
    return Observation({seen.key: FoundWorkload(DEPLOYMENTS, found, seen, [])}), seen


def test_a_gang_with_a_member_that_stays_is_refused_with_its_name() -> None:
    look, seen = looked({**TWO_HOURS, "gpufleet.io/gang": "train"})
    member = pod("worker-0", "Job/worker", {"gpufleet.io/gang": "train"})
    add_pods(look, by_workload([member]))
    assert "its gang has pods of Job team/worker" in look.found[seen.key].seen.problem


def test_a_server_of_jupyterhub_without_the_name_of_a_user_is_told_why_it_stays() -> None:
    look = Observation()
    server = pod("jupyter-ada", labels={"hub.jupyter.org/servername": "second"})
    add_pods(look, by_workload([server]), is_ruled=True)
    assert ["only its hub brings it back" in problem for _, _, problem in look.problems] == [True]
    add_pods(untouched := Observation(), by_workload([server]), is_ruled=False)
    assert untouched.problems == []


@pytest.mark.parametrize(("parked_minutes", "is_told"), [(14, False), (16, True)])
def test_a_parked_model_server_whose_pods_run_on_is_told(parked_minutes: int, *, is_told: bool) -> None:
    """KServe before 0.15 knows no annotation that stops an InferenceService."""
    stamp = ParkingStamp(ParkingPhase.PARKED, NOW_US - parked_minutes * MINUTE_US, gpus=1)
    annotations = {"gpufleet.io/parking": written_stamp(stamp), "serving.kserve.io/stop": "true"}
    found = workload({**TWO_HOURS, **annotations})
    seen = seen_workload(INFERENCE_SERVICES, found, {})
    look = Observation({seen.key: FoundWorkload(INFERENCE_SERVICES, found, seen, [])})
    labels = {"serving.kserve.io/inferenceservice": "lab", "serving.knative.dev/service": "lab-predictor"}
    add_pods(look, by_workload([pod("x", "ReplicaSet/lab-predictor-00001-deployment-6c", labels)]))
    add_unended(look, NOW_US)
    assert ["1 pod of it did not end" in problem for _, _, problem in look.problems] == [True] * is_told


def test_the_stamp_is_read_as_it_was_written() -> None:
    stamp = ParkingStamp(ParkingPhase.WARNED, NOW_US, NOW_US + MINUTE_US, NOW_US - HOUR_US, 3, 6)
    assert read_stamp(written_stamp(stamp), "field") == stamp


@pytest.mark.parametrize("text", ["", "{}", '{"phase":"Asleep","since":"2026-01-01T00:00:00Z"}', "[1]"])
def test_a_text_that_is_no_stamp_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a stamp"):
        read_stamp(text, "field")


@pytest.mark.parametrize(
    ("kind", "parked", "back"),
    [
        (DEPLOYMENTS, {"replicas": 0}, {"replicas": 3}),
        (
            NOTEBOOKS,
            {"kubeflow-resource-stopped": "2027-01-15T08:00:00Z"},
            {"kubeflow-resource-stopped": None},
        ),
        (INFERENCE_SERVICES, {"serving.kserve.io/stop": "true"}, {"serving.kserve.io/stop": None}),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_each_kind_is_parked_and_brought_back_in_its_own_way(
    kind: Kind, parked: dict[str, object], back: dict[str, object]
) -> None:
    key = WorkloadKey(kind.name, "team", "lab")
    for action, phase, expected in (
        (ParkingAction.PARK, ParkingPhase.PARKED, parked),
        (ParkingAction.WAKE, ParkingPhase.WAKING, back),
    ):
        write = ParkingWrite(action, key, ParkingStamp(phase, NOW_US, replicas=3))
        patch = patch_of(write, kind, workload().metadata)
        assert patch["metadata"]["resourceVersion"] == "7"
        assert expected.items() <= {**patch["metadata"]["annotations"], **patch.get("spec", {})}.items()
