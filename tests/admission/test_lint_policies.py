"""On a real API server: how namespaces are treated, and what is excepted."""

from typing import Any

import pytest

from gpufleet.lint.suppressions import ANNOTATION_DOMAIN
from tests.admission.judging_server import PRIVILEGED, JudgingServer, a_jax_job, a_pod
from tests.waiting import until

EXCEPTED = f"{ANNOTATION_DOMAIN}GPU006"
UNPINNED: dict[str, Any] = {
    "containers": [
        {"name": "main", "image": "example.com/train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    ]
}
DEPLOYMENTS = "/apis/apps/v1/namespaces/deny/deployments"
MERGE = "application/merge-patch+json"


def deployment(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def test_an_error_is_refused_where_the_namespace_says_so(server: JudgingServer) -> None:
    said = server.create(a_pod("one", PRIVILEGED), "deny")
    assert said.status == 403
    assert "GPU006 Privileged GPU workload: container main" in said.body["message"]


def test_a_warning_is_refused_nowhere(server: JudgingServer) -> None:
    for namespace in ("deny", "warn", "unlabelled"):
        said = server.create(a_pod("one", UNPINNED), namespace)
        assert (said.status, said.rules) == (201, {"GPU011"})


@pytest.mark.parametrize("namespace", ["audit", "off", "kube-system"])
def test_elsewhere_nothing_is_said(server: JudgingServer, namespace: str) -> None:
    said = server.create(a_pod("one", PRIVILEGED), namespace)
    assert (said.status, said.warnings) == (201, ())


def test_workloads_are_judged_as_their_pods(server: JudgingServer) -> None:
    assert server.create(deployment("one", PRIVILEGED), "warn").rules == {"GPU006"}
    assert server.create(deployment("one", PRIVILEGED), "deny").status == 403


def test_what_a_judged_object_made_is_not_told_again(server: JudgingServer) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u", "controller": True}
    one = deployment("owned", PRIVILEGED)
    one["metadata"]["ownerReferences"] = [owner]
    assert server.create(one, "warn").warnings == ()
    pod = a_pod("owned", PRIVILEGED)
    pod["metadata"]["ownerReferences"] = [owner]
    assert server.create(pod, "warn").rules == {"GPU006"}


def test_an_update_of_what_was_there_is_warned_of_and_not_refused(server: JudgingServer) -> None:
    server.api.call(
        "PATCH", "/api/v1/namespaces/deny", {"metadata": {"labels": {"gpufleet.io/admission": "off"}}}, MERGE
    )
    until(lambda: server.create(deployment("old", PRIVILEGED), "deny").status == 201, 10)
    server.create(deployment("old", PRIVILEGED), "deny", dry_run=False)
    server.api.call(
        "PATCH", "/api/v1/namespaces/deny", {"metadata": {"labels": {"gpufleet.io/admission": "deny"}}}, MERGE
    )
    until(lambda: server.create(deployment("new", PRIVILEGED), "deny").status == 403, 10)
    body = {"spec": {"replicas": 2}}
    assert server.api.request("PATCH", f"{DEPLOYMENTS}/old", body, MERGE)[0] == 200
    server.api.call("DELETE", f"{DEPLOYMENTS}/old")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("waits for the new image", 201),
        ("until 2999-01-31: waits for the new image", 201),
        ("until 2020-01-31: waits for the new image", 403),
        ("until 2999-01-31", 403),
        ("until 2999-02-31x: why", 403),
        ("until tomorrow: why", 403),
        ("", 403),
    ],
)
def test_an_exception_counts_with_its_reason_and_until_its_day(
    server: JudgingServer, text: str, status: int
) -> None:
    assert server.create(a_pod("one", PRIVILEGED, **{EXCEPTED: text}), "deny").status == status
    template = {"metadata": {"annotations": {EXCEPTED: text}}, "spec": PRIVILEGED}
    assert server.create(a_jax_job([template]), "deny").status == status


def test_an_exception_of_the_namespace_counts_for_its_objects(server: JudgingServer) -> None:
    server.namespace(
        "excepted", {"gpufleet.io/admission": "deny"}, **{EXCEPTED: "until 2999-01-31: old work"}
    )
    until(lambda: server.create(a_pod("one", PRIVILEGED), "excepted").status == 201, 10)
    ended = a_pod("one", PRIVILEGED, **{EXCEPTED: "until 2020-01-31: old work"})
    assert server.create(ended, "excepted").status == 403


def test_an_exception_is_from_its_rule_alone(server: JudgingServer) -> None:
    spec = {**PRIVILEGED, "volumes": [{"name": "all", "hostPath": {"path": "/dev"}}]}
    said = server.create(a_pod("one", spec, **{EXCEPTED: "why"}), "deny")
    assert (said.status, said.rules) == (403, {"GPU007"})
