"""The real HorizontalPodAutoscaler over a real ``gpufleet metrics``: up, down, to zero and back."""

import base64
import http.client
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gpufleet.localkube.access.api import Api
from tests.metrics.running_apis import (
    CUSTOM,
    EXTERNAL,
    PODS,
    Apis,
    asked,
    autoscaler,
    condition,
    deployment,
    lives,
    page_pod,
    replicas,
    running_apis,
    scales_to,
    simulated_node,
)
from tests.waiting import until

QUEUE = "inference_extension_flow_control_queue_size"
WAITING = "vllm:num_requests_waiting"
OFTEN = "--horizontal-pod-autoscaler-sync-period=1s"
"""Fifteen seconds are the default; ``bench.see`` measures with it."""

OLDER = "1.36.3"
"""The version of Kubernetes before the one of all tests."""


@pytest.fixture(scope="module")
def apis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apis]:
    """A control plane with the metrics APIs, and a node for pods."""
    with running_apis(tmp_path_factory.mktemp("apis"), OFTEN) as found:
        with found.cluster.api() as api:
            simulated_node(api, "node-0")
        yield found


@pytest.fixture
def api(apis: Apis) -> Iterator[Api]:
    with apis.cluster.api() as found:
        yield found


def gateway(waiting: int) -> str:
    return f'# TYPE {QUEUE} gauge\n{QUEUE}{{inference_pool="large"}} {waiting}\n'


def external(metric: str, average: str, **labels: str) -> dict[str, object]:
    named = {"name": metric, "selector": {"matchLabels": labels}}
    return {
        "type": "External",
        "external": {"metric": named, "target": {"type": "AverageValue", "averageValue": average}},
    }


def test_from_zero_to_zero(api: Api, apis: Apis) -> None:
    """The gateway's queue is there while no pod serves the model, so it is the way up from zero."""
    apis.pages.pages["/gateway"] = gateway(0)
    page_pod(api, "gateway", apis.pages, "/gateway", app="gateway")
    deployment(api, "served", 1, "node-0")
    autoscaler(api, "served", external(QUEUE, "5", inference_pool="large"))
    scales_to(api, "served", 0)
    apis.pages.pages["/gateway"] = gateway(1)
    scales_to(api, "served", 1)
    apis.pages.pages["/gateway"] = gateway(23)
    scales_to(api, "served", 5)
    apis.pages.pages["/gateway"] = gateway(8)
    scales_to(api, "served", 2)
    apis.pages.pages["/gateway"] = gateway(0)
    scales_to(api, "served", 0)
    assert condition(api, "served", "ScalingActive")["status"] in {"True", "False"}


def test_the_autoscaler_of_the_version_before_goes_up_and_down(tmp_path: Path) -> None:
    """Without the way to zero, which that version has behind a feature gate."""
    with running_apis(tmp_path, OFTEN, kubernetes=OLDER) as apis, apis.cluster.api() as api:
        assert api.call("GET", "/version")["gitVersion"] == f"v{OLDER}"
        simulated_node(api, "node-0")
        apis.pages.pages["/gateway"] = gateway(23)
        page_pod(api, "gateway", apis.pages, "/gateway", app="gateway")
        deployment(api, "served", 1, "node-0")
        autoscaler(api, "served", external(QUEUE, "5", inference_pool="large"), least=1)
        scales_to(api, "served", 5)
        apis.pages.pages["/gateway"] = gateway(0)
        scales_to(api, "served", 1)


def test_a_metric_that_nobody_has_changes_nothing_and_is_named(api: Api) -> None:
    deployment(api, "unmeasured", 2, "node-0")
    autoscaler(api, "unmeasured", external("gpu_use", "5"), least=1)

    def said() -> str:
        return str(condition(api, "unmeasured", "ScalingActive").get("message", ""))

    until(lambda: "could not find the metric gpu_use for namespace default" in said(), 60)
    assert replicas(api, "unmeasured") == 2


def test_a_page_that_hangs_changes_nothing_and_says_why(api: Api, apis: Apis) -> None:
    apis.pages.pages["/slow"] = gateway(10)
    page_pod(api, "slow", apis.pages, "/slow", app="slow")
    deployment(api, "kept", 1, "node-0")
    autoscaler(api, "kept", external(QUEUE, "5", app="slow"), least=1)
    scales_to(api, "kept", 2)
    apis.pages.hanging.set()
    try:
        until(lambda: "does not come within 3 s" in condition(api, "kept", "ScalingActive")["message"], 60)
        assert condition(api, "kept", "ScalingActive")["reason"] == "FailedGetExternalMetric"
        assert replicas(api, "kept") == 2
    finally:
        apis.pages.hanging.clear()
        apis.pages.answers.set()
    api.call("DELETE", f"{PODS}/slow")


def test_pods_are_scaled_by_what_their_engines_say(api: Api, apis: Apis) -> None:
    apis.pages.pages["/vllm"] = (
        f'{WAITING}{{model_name="a",engine="0"}} 6\n{WAITING}{{model_name="a",engine="1"}} 4\n'
    )
    annotations = {"gpufleet.io/metrics-port": str(apis.pages.port), "gpufleet.io/metrics-path": "/vllm"}
    deployment(api, "engine", 1, **annotations)
    until(lambda: bool(engines(api)), 60)
    lives(api, engines(api)[0])
    metric = {"metric": {"name": WAITING}, "target": {"type": "AverageValue", "averageValue": "5"}}
    autoscaler(api, "engine", {"type": "Pods", "pods": metric}, least=1)
    scales_to(api, "engine", 2)
    status, found = asked(api, f"{CUSTOM}/namespaces/default/pods/*/{WAITING}?labelSelector=app%3Dengine")
    assert status == 200
    assert {one["value"] for one in found["items"]} == {"10"}


def engines(api: Api) -> list[str]:
    found = api.call("GET", f"{PODS}?labelSelector=app%3Dengine")["items"]
    return [one["metadata"]["name"] for one in found]


def scheduler_page(waiting: int, *, leads: int = 1) -> str:
    return (
        f"gpufleet_scheduler_leader {leads}\n"
        'gpufleet_scheduler_queue_active{queue="team-a"} 1\n'
        "gpufleet_scheduler_queue_figures_age_seconds 5\ngpufleet_scheduler_waiting_figures_age_seconds 6\n"
        f'gpufleet_scheduler_queue_pending_pods{{queue="team-a",reason="quota"}} {waiting}\n'
        'gpufleet_scheduler_oldest_wait_seconds{queue="team-a",cause="quota"} 90.5\n'
    )


def test_work_is_scaled_by_a_queue(api: Api, apis: Apis) -> None:
    apis.pages.pages["/metrics"] = scheduler_page(12)
    queue = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "FleetQueue", "name": "team-a"}
    api.call(
        "POST",
        "/apis/gpufleet.io/v1alpha1/fleetqueues",
        {**queue, "metadata": {"name": "team-a"}, "spec": {}},
    )
    deployment(api, "worker", 1, "node-0")
    target = {"type": "AverageValue", "averageValue": "4"}
    metric = {"metric": {"name": "gpufleet_queue_pending_pods"}, "describedObject": queue, "target": target}
    autoscaler(api, "worker", {"type": "Object", "object": metric}, least=1)
    scales_to(api, "worker", 3)
    wait = f"{EXTERNAL}/namespaces/default/gpufleet_queue_oldest_wait_seconds?labelSelector=queue%3Dteam-a"
    status, found = asked(api, wait)
    assert (status, found["items"][0]["value"]) == (200, "90500m")
    apis.pages.pages["/metrics"] = scheduler_page(1, leads=0)
    until(lambda: condition(api, "worker", "ScalingActive")["status"] == "False", 60)
    assert "no scheduler that leads" in condition(api, "worker", "ScalingActive")["message"]
    assert replicas(api, "worker") == 3


def test_discovery_is_complete(api: Api) -> None:
    """A group whose discovery is stale holds up the deletion of namespaces, and autoscalers do not see it."""
    media = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    def versions() -> list[dict[str, Any]]:
        groups = msgspec.json.decode(api.request("GET", "/apis", accept=media)[1])["items"]
        ours = [one for one in groups if one["metadata"]["name"].endswith(".metrics.k8s.io")]
        return [version for one in ours for version in one["versions"]]

    until(lambda: [one["freshness"] for one in versions()] == ["Current"] * 3, 90)
    assert all(one["resources"] for one in versions())


def test_what_only_waits_is_not_asked_for_and_an_event_says_so(api: Api, apis: Apis) -> None:
    apis.pages.pages["/full"] = gateway(50)
    page_pod(api, "full", apis.pages, "/full", app="full")
    deployment(api, "limited", 2)
    until(lambda: len(named(api, "limited")) == 2, 60)
    first, second = named(api, "limited")
    lives(api, first)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-0"}
    api.call("POST", f"{PODS}/{first}/binding", {"metadata": {"name": first}, "target": target})
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no node has room",
    }
    api.call(
        "PATCH",
        f"{PODS}/{second}/status",
        {"status": {"conditions": [refused]}},
        "application/strategic-merge-patch+json",
    )
    autoscaler(api, "limited", external(QUEUE, "5", app="full", **{"gpufleet.io/limit": "limited"}), least=1)

    def events() -> list[dict[str, Any]]:
        found = api.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        return [one for one in found if one.get("reason") == "LimitedByFleet"]

    until(lambda: bool(events()), 60)
    assert events()[0]["note"] == (
        "10.0 replicas would be asked for; 1 has a place and 1 pod waits, "
        "so 2 are asked for until there is room: no node has room"
    )
    assert replicas(api, "limited") == 2


def named(api: Api, app: str) -> list[str]:
    found = api.call("GET", f"{PODS}?labelSelector=app%3D{app}")["items"]
    return sorted(one["metadata"]["name"] for one in found)


def direct(apis: Apis, path: str, token: str) -> int:
    """The status of a question that is asked of the server itself, with a token."""
    context = ssl.create_default_context(cadata=apis.authority.identity.certificate.decode())
    connection = http.client.HTTPSConnection("localhost", apis.port, timeout=20, context=context)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_token_counts_while_it_is_one(api: Api, apis: Apis) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    api.call("POST", accounts, {"metadata": {"name": "asks"}})
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 600},
    }
    token = api.call("POST", f"{accounts}/asks/token", review)["status"]["token"]
    path = f"{EXTERNAL}/namespaces/default/{QUEUE}?labelSelector=app%3Dfull"
    assert direct(apis, path, "") == direct(apis, path, "wrong") == 401
    assert direct(apis, path, token) == 403
    role = {"rules": [{"apiGroups": ["external.metrics.k8s.io"], "resources": [QUEUE], "verbs": ["list"]}]}
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    api.call("POST", f"{roles}/roles", {"metadata": {"name": "asks"}, **role})
    subjects = [{"kind": "ServiceAccount", "name": "asks", "namespace": "default"}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "asks"}
    binding = {"metadata": {"name": "asks"}, "subjects": subjects, "roleRef": reference}
    api.call("POST", f"{roles}/rolebindings", binding)
    until(lambda: direct(apis, path, token) == 200, 60)
    assert direct(apis, path.replace(QUEUE, WAITING), token) == 403
    api.call("DELETE", f"{accounts}/asks")
    until(lambda: direct(apis, path, token) == 401, 60)


def part(value: bytes) -> str:
    """A part of a token."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def signed(apis: Apis, account: dict[str, Any], ends_in_s: float) -> str:
    """A token as the API server gives one to an account, with an end of one's own."""
    now_s, metadata = time.time(), account["metadata"]
    issuer = "https://kubernetes.default.svc"
    its = {"namespace": "default", "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]}}
    subject = f"system:serviceaccount:default:{metadata['name']}"
    times = {"iat": int(now_s - 7200), "nbf": int(now_s - 7200), "exp": int(now_s + ends_in_s)}
    claims = {"iss": issuer, "aud": [issuer], "sub": subject, "kubernetes.io": its, **times}
    text = f"{part(msgspec.json.encode({'alg': 'ES256', 'typ': 'JWT'}))}.{part(msgspec.json.encode(claims))}"
    key = load_pem_private_key((apis.cluster.folder / "service-accounts.key").read_bytes(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    numbers = decode_dss_signature(key.sign(text.encode(), ECDSA(SHA256())))
    return f"{text}.{part(b''.join(one.to_bytes(32, 'big') for one in numbers))}"


def test_a_token_that_has_ended_is_worth_nothing(api: Api, apis: Apis) -> None:
    account = api.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "late"}})
    path = f"{EXTERNAL}/namespaces/default/{QUEUE}?labelSelector=app%3Dfull"
    # It is known and may not, and then it is nobody.
    assert direct(apis, path, signed(apis, account, 600)) == 403
    assert direct(apis, path, signed(apis, account, -60)) == 401


def test_a_renewed_certificate_and_a_killed_server(api: Api, apis: Apis) -> None:
    """The API server goes on asking with the new certificate, and of the next server."""
    path = f"{EXTERNAL}/namespaces/default/{QUEUE}?labelSelector=app%3Dfull"
    apis.renew()
    until(lambda: api.request("GET", path)[0] == 200, 60)
    killed = apis.servers.pop()
    killed.kill()
    killed.wait(20)
    apis.serve()
    until(lambda: api.request("GET", path)[0] == 200, 60)
