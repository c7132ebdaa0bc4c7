"""A cluster at work is no patient: what the examples make, and a queue of work that waits for room."""

from pathlib import Path

from tests.doctor.kubelets import running_pods
from tests.doctor.patient import Patient, a_deployment, a_pod

EXAMPLES = Path(__file__).parents[2] / "examples"
BROKEN_ON_PURPOSE = "90-cannot-run.yaml"
CAUSES = {
    "quota-full": ("ResourceQuota team-serving/serving", "Job team-serving/over-quota"),
    "fits-nowhere": ("Pod playground/too-many-gpus",),
    "selector-matches-nothing": ("Pod playground/typo",),
    "gang-impossible": ("Deployment playground/short-gang",),
}
"""What is wrong there, as its comments say."""


def test_the_examples_are_healthy_but_for_the_four_that_cannot_run(patient: Patient) -> None:
    files = [one for one in sorted(EXAMPLES.glob("*.yaml")) if one.name != BROKEN_ON_PURPOSE]
    assert len(files) > 5
    patient.apply(*(one.read_text(encoding="utf-8") for one in files))
    patient.is_healthy()
    patient.apply((EXAMPLES / BROKEN_ON_PURPOSE).read_text(encoding="utf-8"))
    patient.finds("quota-full", "Job team-serving/over-quota", "ResourceQuota team-serving/serving")
    patient.until(lambda: {one.check.id: one.failure.subjects for one in patient.examined().causes} == CAUSES)


def test_work_that_waits_for_room_is_healthy(patient: Patient) -> None:
    patient.apply(a_deployment("fills", a_pod("fills", 8), replicas=6))
    running_pods(patient, "fills", 6)
    patient.apply(a_deployment("waits", a_pod("waits", 4), replicas=20))
    patient.apply(*(a_pod(f"waits-{number}", 1) for number in range(20)))
    patient.is_healthy()
    assert not patient.examined(age_s=900).causes
