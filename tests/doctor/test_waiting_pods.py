"""Pods that wait for what never comes: a scheduler that is not there, or something that they name."""

import datetime as dt

import pytest

from gpufleet.doctor.checks import all_checks
from gpufleet.doctor.diagnosis import FoundProblem, diagnose
from tests.doctor.facts_of_text import NOW, facts_of

NODE = """\
apiVersion: v1
kind: Node
metadata: {name: metal-1, labels: {nvidia.com/gpu.present: "true"}}
status:
  capacity: {nvidia.com/gpu: 8}
  allocatable: {nvidia.com/gpu: 8}
  conditions: [{type: Ready, status: "True"}]
"""


def ago(seconds: float) -> str:
    """A moment before now."""
    return (NOW - dt.timedelta(seconds=seconds)).isoformat()


def pod(
    name: str, scheduler: str, age_s: float = 60, status: str = "{phase: Pending}", node: str = ""
) -> str:
    """A pod that asks for a GPU."""
    return f"""\
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: team, creationTimestamp: "{ago(age_s)}"}}
spec:
  schedulerName: {scheduler}
  nodeName: "{node}"
  containers: [{{name: main, image: "x:1", resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]
status: {status}
"""


def lease(name: str, silent_s: float, holder: str = "x") -> str:
    """A Lease of a scheduler."""
    return f"""\
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {{name: {name}, namespace: gpufleet-system}}
spec: {{holderIdentity: "{holder}", renewTime: "{ago(silent_s)}"}}
"""


def found(*texts: str) -> dict[str, FoundProblem]:
    """What is wrong, by check."""
    diagnosis = diagnose(facts_of(NODE + "".join(texts)), all_checks())
    every = [below for one in diagnosis.causes for below in (one, *one.follows)]
    return {one.check.id: one for one in every}


OURS = lease("gpufleet-scheduler", 1)


@pytest.mark.parametrize("scheduler", ["gpufleet-scheduler", "gpu-fleet", "volcano", "default-scheduler"])
def test_a_scheduler_of_which_nothing_is_heard_is_not_there_though_ours_is(scheduler: str) -> None:
    one = found(OURS, pod("train", scheduler))["scheduler-unknown"]
    assert one.failure.subjects == ("Pod team/train",)


def test_a_slip_of_our_own_name_is_told() -> None:
    assert (
        "did you mean gpufleet?"
        in found(OURS, pod("a", "gpu-fleet"))["scheduler-unknown"].failure.mends[0].does
    )


def test_a_scheduler_whose_lease_went_silent_is_not_there_though_it_placed_pods_before() -> None:
    placed = pod("old", "volcano", node="metal-1", status="{phase: Running}")
    silent = lease("volcano", 600)
    assert "scheduler-unknown" in found(OURS, placed, silent, pod("new", "volcano"))
    assert "scheduler-unknown" not in found(OURS, placed, lease("volcano", 2), pod("new", "volcano"))


def test_a_scheduler_that_gave_its_lease_back_is_not_at_work() -> None:
    assert "scheduler-absent" in found(lease("gpufleet-scheduler", 5, holder=""), pod("a", "gpufleet"))
    assert "scheduler-absent" not in found(OURS, pod("a", "gpufleet"))


HELD = """
  phase: Pending
  conditions:
    - {type: PodScheduled, status: "False", reason: %s, message: "its PodGroup x is not there"}
"""


@pytest.mark.parametrize(
    ("reason", "is_told"),
    [("PodGroupMissing", True), ("Malformed", True), ("Unschedulable", False), ("SchedulingGated", False)],
)
def test_a_pod_that_is_held_back_is_told_of_in_the_schedulers_words(reason: str, *, is_told: bool) -> None:
    told = found(OURS, pod("a", "gpufleet", status=HELD % reason))
    assert ("pods-held" in told) == is_told
    if is_told:
        assert told["pods-held"].failure.says == "Pod team/a: its PodGroup x is not there"
        assert told["pods-held"].failure.mends[0].command == "gpufleet explain pod/a -n team"


def test_a_pod_that_was_just_made_may_name_what_comes_with_it() -> None:
    assert "pods-held" not in found(OURS, pod("a", "gpufleet", 5, HELD % "PodGroupMissing"))


CLOSED = """\
---
apiVersion: gpufleet.io/v1alpha1
kind: FleetQueue
metadata: {name: shut, generation: 2}
spec: {state: Open}
status:
  observedGeneration: %d
  conditions: [{type: Active, status: "False", reason: Malformed, message: "spec.state"}]
"""


def test_a_queue_that_was_changed_since_its_condition_was_written_is_not_judged_by_that() -> None:
    assert "queue-closed" in found(OURS, CLOSED % 2)
    assert "queue-closed" not in found(OURS, CLOSED % 1)


@pytest.mark.parametrize("image", ["team/gpufleet-trainer:1", "registry.example/gpufleet/demo:2"])
def test_work_is_no_part_of_the_stack_for_having_our_name_in_its_image(image: str) -> None:
    text = pod("a", "gpufleet").replace("x:1", image)
    assert [one.title for one in facts_of(NODE + text).gpu_workloads] == ["Pod team/a"]


def test_our_own_image_is_a_part_of_the_stack() -> None:
    text = pod("agent", "default-scheduler").replace("x:1", "registry.example/gpufleet:0.1")
    assert not facts_of(NODE + text).gpu_workloads


def test_that_a_node_is_cordoned_is_no_matter_of_a_pods_tolerations() -> None:
    cordon = "{key: node.kubernetes.io/unschedulable, effect: NoSchedule}"
    node = NODE + f"spec: {{unschedulable: true, taints: [{cordon}]}}\n"
    told = diagnose(facts_of(node + OURS + pod("a", "gpufleet")), all_checks())
    assert "taint-untolerated" not in {one.check.id for one in told.causes}


def test_the_taint_of_the_nodes_that_a_pod_selects_is_told() -> None:
    def tainted(name: str) -> str:
        node = NODE.replace("metal-1", name).replace('"true"', f'"true", pool: {name}')
        return f"{node}spec: {{taints: [{{key: pool, value: {name}, effect: NoSchedule}}]}}\n---\n"

    chosen = pod("a", "gpufleet").replace("spec:\n", "spec:\n  nodeSelector: {pool: b}\n")
    told = diagnose(facts_of(tainted("a") + tainted("b") + OURS + chosen), all_checks())
    (one,) = (one for one in told.causes if one.check.id == "taint-untolerated")
    assert "pool=b:NoSchedule" in one.failure.says


QUEUE = """\
---
apiVersion: gpufleet.io/v1alpha1
kind: FleetQueue
metadata: {name: research, generation: 1}
spec: {state: Open}
status:
  observedGeneration: 1
  conditions: [{type: Active, status: "True", reason: Ready, message: ""}]
"""


def queued(name: str, queue: str) -> str:
    """A pod that names a queue."""
    metadata = f"{{name: {name}, labels: {{gpufleet.io/queue: {queue}}}, "
    return pod(name, "gpufleet").replace(f"{{name: {name}, ", metadata, 1)


def test_a_name_of_a_queue_holds_nothing_back_where_no_queue_is_described() -> None:
    assert "queue-missing" not in found(OURS, queued("a", "reserch"))
    one = found(OURS, QUEUE, queued("a", "reserch"))["queue-missing"]
    assert one.failure.says == "Pod team/a: waits in a queue that does not exist: FleetQueue reserch"


def test_what_is_said_of_queues_agrees_with_the_number_of_pods() -> None:
    missing = found(OURS, QUEUE, queued("a", "x"), queued("b", "x"))["queue-missing"]
    assert ": wait in a queue that does not exist" in missing.failure.says
    closed = CLOSED % 2
    one = found(OURS, closed, queued("a", "shut"))["queue-closed"]
    assert one.failure.says == "FleetQueue shut: lets nothing start, and Pod team/a waits in it"
    two = found(OURS, closed, queued("a", "shut"), queued("b", "shut"))["queue-closed"]
    assert two.failure.says == "FleetQueue shut: lets nothing start, and Pod team/a, Pod team/b wait in it"


def test_a_queue_whose_budget_is_spent_is_not_opened_by_its_state() -> None:
    spent = (CLOSED % 2).replace("Malformed", "BudgetSpent")
    assert "queue-closed" not in found(OURS, spent), "no work waits in it"
    (remedy,) = found(OURS, spent, queued("a", "shut"))["queue-closed"].failure.mends
    assert "raise its amount" in remedy.does
    assert remedy.command == "kubectl get fleetqueue.gpufleet.io shut -o jsonpath='{.status.budget}'"


CLAIM = """\
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: weights, namespace: team}
spec: {storageClassName: none}
status: {phase: Pending}
"""


def test_a_claim_that_is_not_there_is_to_be_made_and_one_without_a_class_to_be_made_anew() -> None:
    def mend_of(claim: str) -> str:
        volumes = f"spec:\n  volumes: [{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}]\n"
        using = pod("a", "gpufleet").replace("spec:\n", volumes, 1)
        return found(OURS, CLAIM, using)["volume-unbound"].failure.mends[0].does

    assert mend_of("wieghts") == (
        "make a claim of this name, or name one that there is (did you mean weights?)"
    )
    assert mend_of("weights").startswith("make the claim anew with a StorageClass that there is")
