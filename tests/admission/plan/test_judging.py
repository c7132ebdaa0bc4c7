"""A plan says of objects that are there what admission would say of them."""

import datetime as dt
from typing import Any

from gpufleet.admission.images import ImagePolicy
from gpufleet.admission.plan.answer import AdmissionPlan, PlannedWorkload
from gpufleet.admission.plan.fleet_objects import FleetObjects
from gpufleet.admission.plan.judging import Question, plan_from
from gpufleet.admission.policies import Action
from gpufleet.completion.additions import Completion

Object = dict[str, Any]
TODAY = dt.date(2026, 6, 1)
EXCEPTED = "ignore.lint.gpufleet.io/GPU006"
GPU: Object = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
PRIVILEGED: Object = {
    "containers": [{"name": "main", "image": "a:1", "securityContext": {"privileged": True}, **GPU}]
}
GOOD: Object = {"containers": [{"name": "main", "image": "a:1", **GPU}]}
UNPINNED: Object = {"containers": [{"name": "main", "image": "a", **GPU}]}


def deployment(spec: Object, template: Object | None = None, **annotations: str) -> Object:
    pods = {"metadata": template or {}, "spec": spec}
    metadata = {"name": "train", "namespace": "team", "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": pods}}


def namespace(labels: Object, **annotations: str) -> Object:
    metadata = {"name": "team", "labels": labels, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def plan(*bodies: Object, mode: Action = Action.DENY, **asked: Any) -> AdmissionPlan:
    objects = FleetObjects()
    for one in bodies:
        objects.add(one)
    return plan_from(objects, Question(mode, TODAY, Completion(), **asked))


def only(found: AdmissionPlan) -> PlannedWorkload:
    ((one,),) = (each.workloads for each in found.namespaces)
    return one


def test_an_error_is_refused_and_a_warning_is_warned_of() -> None:
    refused = only(plan(deployment(PRIVILEGED)))
    assert (refused.action, [one.rule for one in refused.findings]) == ("refused", ["GPU006"])
    assert refused.findings[0].at == ("object", "pods")
    assert only(plan(deployment(UNPINNED))).action == "warned"
    assert plan(deployment(PRIVILEGED)).refuses
    assert not plan(deployment(UNPINNED)).refuses


def test_a_mode_that_refuses_nothing_refuses_nothing() -> None:
    assert only(plan(deployment(PRIVILEGED), mode=Action.WARN)).action == "warned"
    assert only(plan(deployment(PRIVILEGED), mode=Action.AUDIT)).action == "noted"


def test_an_exception_of_a_deployment_is_none_of_its_pods() -> None:
    text = "until 2026-06-30: the driver of the card needs it"
    found = only(plan(deployment(PRIVILEGED, None, **{EXCEPTED: text})))
    assert [(one.rule, one.at) for one in found.findings] == [("GPU006", ("pods",))]
    assert [(one.rule, one.until) for one in found.excepted] == [("GPU006", "2026-06-30")]


def test_an_exception_of_the_template_or_the_namespace_is_one_of_both() -> None:
    template = {"annotations": {EXCEPTED: "the driver of the card needs it"}}
    assert only(plan(deployment(PRIVILEGED, template))).findings == ()
    everywhere = namespace({}, **{EXCEPTED: "the driver of the card needs it"})
    assert only(plan(everywhere, deployment(PRIVILEGED))).findings == ()


def test_an_exception_that_has_ended_excepts_nothing() -> None:
    template = {"annotations": {EXCEPTED: "until 2026-05-31: old work"}}
    found = only(plan(deployment(PRIVILEGED, template)))
    assert (found.action, found.excepted) == ("refused", ())


def test_pods_are_completed_where_the_namespace_says_so_and_shown_before_and_after() -> None:
    assert plan(deployment(GOOD)).namespaces[0].workloads == ()
    managed = namespace({"gpufleet.io/managed": "true"})
    changes = {one.field: (one.before, one.after) for one in only(plan(managed, deployment(GOOD))).completed}
    assert changes["spec.schedulerName"] == (None, "gpufleet")
    other = {**GOOD, "schedulerName": "default-scheduler"}
    changes = {one.field: (one.before, one.after) for one in only(plan(managed, deployment(other))).completed}
    assert changes["spec.schedulerName"] == ("default-scheduler", "gpufleet")


def test_what_is_completed_is_not_refused_for_what_it_lacked() -> None:
    several = {
        "containers": [{"name": "main", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]
    }
    objects = FleetObjects()
    objects.add(deployment(several))
    completion = Completion(shared_memory=True)
    found = only(plan_from(objects, Question(Action.DENY, TODAY, completion, completes=True)))
    # GPU021: the default /dev/shm. The Deployment itself is not completed.
    assert [(one.rule, one.at) for one in found.findings] == [("GPU021", ("object",))]


def test_images_are_judged_as_the_label_says_or_as_asked() -> None:
    labelled = namespace({"gpufleet.io/image-policy": "warn"})
    assert only(plan(labelled, deployment(GOOD))).action == "warned"
    asked = plan(labelled, deployment(GOOD), images_mode=Action.DENY)
    assert only(asked).action == "refused"
    allowed = ImagePolicy(("registry.example.com",), digests=False)
    found = only(plan(labelled, deployment(GOOD), images=allowed))
    assert [one.words for one in found.findings] == [
        "images policy: a:1 comes from a registry that is not allowed"
    ]


def test_nothing_is_judged_in_the_namespaces_of_the_system() -> None:
    system = deployment(PRIVILEGED)
    system["metadata"]["namespace"] = "kube-system"
    assert plan(system).namespaces == ()
    (note,) = plan(system, namespaces=("kube-system",)).notes
    assert "kube-system" in note


def test_a_namespace_that_is_not_asked_for_is_left_out() -> None:
    found = plan(deployment(PRIVILEGED), namespaces=("other",))
    assert [(one.namespace, one.looked_at) for one in found.namespaces] == [("other", 0)]
