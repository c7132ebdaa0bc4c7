"""On a real API server pods with claims get devices and are bound, each device once.

Claims of templates are made, and devices taken back, by Kubernetes' own controller. What a scheduler leaves
that was killed after a write is the claim as it is after that write, so these states are written by hand.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.claims import DRIVER
from tests.scheduler.real_scheduler import PODS, node_of, scheduler_at_work, why
from tests.waiting import until

RESOURCES = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
MERGE = "application/merge-patch+json"
TEMPLATES = f"{RESOURCES}/namespaces/default/resourceclaimtemplates"
FABRIC = "fabric.example.com"
NUMBERED = "numbered.example.com"
ASKED: Object = {"devices": {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu"}}]}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes with a device for claims each; no scheduler is at work."""
    options = Options(kubernetes=KUBERNETES)
    with a_cluster(tmp_path_factory.mktemp("claims"), options=options) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(2, 4, gpu_model("H100-80GB"), prefix="n-"))
            selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
            api.call(
                "POST",
                f"{RESOURCES}/deviceclasses",
                {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}},
            )
            for node in ("n-001", "n-002"):
                pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
                spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": "d0"}]}
                api.call("POST", f"{RESOURCES}/resourceslices", {"metadata": {"name": node}, "spec": spec})
            attached_by_a_fabric(api)
            served_by_number(api)
            template = {"metadata": {"name": "one"}, "spec": {"spec": ASKED}}
            api.call("POST", TEMPLATES, template)
        yield running


def attached_by_a_fabric(api: Api) -> None:
    """A node has a device that its driver makes ready before a pod is bound, and there is a class for it."""
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    device = {"name": "d0", "bindsToNode": True, "bindingConditions": ["ready"]}
    device["bindingFailureConditions"] = ["broken"]
    spec = {"driver": FABRIC, "nodeName": "n-001", "pool": pool, "devices": [device]}
    api.call("POST", f"{RESOURCES}/resourceslices", {"metadata": {"name": "fabric"}, "spec": spec})
    selectors = [{"cel": {"expression": f'device.driver == "{FABRIC}"'}}]
    described = {"metadata": {"name": "fabric"}, "spec": {"selectors": selectors}}
    api.call("POST", f"{RESOURCES}/deviceclasses", described)


def served_by_number(api: Api) -> None:
    """A node has a device of a class that serves an extended resource."""
    pool = {"name": "numbered", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": NUMBERED, "nodeName": "n-002", "pool": pool, "devices": [{"name": "d0"}]}
    api.call("POST", f"{RESOURCES}/resourceslices", {"metadata": {"name": "numbered"}, "spec": spec})
    selectors = [{"cel": {"expression": f'device.driver == "{NUMBERED}"'}}]
    spec = {"selectors": selectors, "extendedResourceName": f"{NUMBERED}/device"}
    api.call("POST", f"{RESOURCES}/deviceclasses", {"metadata": {"name": "numbered"}, "spec": spec})


def say_of_device(api: Api, claim: str, condition: str) -> None:
    """The driver says that a condition of the device of a claim holds."""
    said = {"type": condition, "status": "True", "reason": "Fabric", "message": "by the fabric"}
    said["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    device = {"driver": FABRIC, "pool": "fabric", "device": "d0", "conditions": [said]}
    api.call("PATCH", f"{CLAIMS}/{claim}/status", {"status": {"devices": [device]}}, MERGE)


def add_pod(api: Api, name: str, **source: str) -> Object:
    """A pod of ours whose claim is named, or is made of a template."""
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", **source}]
    spec = {"schedulerName": "gpufleet", "containers": [container], "resourceClaims": claims}
    return api.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})


def devices(api: Api) -> dict[str, str]:
    """The node of the device of each claim that has one, by the pod that may use it."""
    found = {}
    for one in api.call("GET", CLAIMS)["items"]:
        status = one.get("status", {})
        if status.get("allocation"):
            (result,) = status["allocation"]["devices"]["results"]
            (user,) = status["reservedFor"]
            found[user["name"]] = result["pool"]
    return found


def left_by_a_scheduler(api: Api) -> None:
    """Three pods: of one claim the finalizer was written, of one all but the Binding, of one nothing."""
    pods = {name: add_pod(api, name, resourceClaimName=name) for name in ("begun", "written", "new")}
    for name in pods:
        api.call("POST", CLAIMS, {"metadata": {"name": name}, "spec": ASKED})
    mark = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    for name in ("begun", "written"):
        api.call("PATCH", f"{CLAIMS}/{name}", mark, MERGE)
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n-002"]}]
    results = [{"request": "gpus", "driver": DRIVER, "pool": "n-002", "device": "d0"}]
    users = [{"resource": "pods", "name": "written", "uid": pods["written"]["metadata"]["uid"]}]
    selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
    allocation = {"devices": {"results": results}, "nodeSelector": selector}
    api.call(
        "PATCH",
        f"{CLAIMS}/written/status",
        {"status": {"allocation": allocation, "reservedFor": users}},
        MERGE,
    )


def test_pods_get_devices_once_each_also_where_an_earlier_scheduler_was_killed(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        left_by_a_scheduler(api)
        with scheduler_at_work(cluster):
            until(lambda: node_of(api, "written") == "n-002")
            until(lambda: len(devices(api)) == 2)
            (first,) = {"begun", "new"} & set(devices(api))
            until(lambda: node_of(api, first) == "n-001")
            (waits,) = {"begun", "new"} - {first}
            until(lambda: "without free devices for the pod's resource claims" in why(api, waits))
            assert devices(api) == {"written": "n-002", first: "n-001"}
        # The next scheduler knows from the API server alone what is held.
        with scheduler_at_work(cluster):
            add_pod(api, "templated", resourceClaimTemplateName="one")
            until(lambda: "without free devices for the pod's resource claims" in why(api, "templated"))
            for name in ("written", first, waits):
                api.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
            until(lambda: node_of(api, "templated") != "")
            assert devices(api)["templated"] == node_of(api, "templated")


def test_a_device_is_waited_for_until_its_driver_says_that_it_is_ready(cluster: LocalCluster) -> None:
    exactly = {"deviceClassName": "fabric"}
    spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
    with cluster.api() as api, scheduler_at_work(cluster):
        api.call("POST", CLAIMS, {"metadata": {"name": "attached"}, "spec": spec})
        add_pod(api, "attached", resourceClaimName="attached")
        until(lambda: devices(api).get("attached") == "fabric")
        claim = api.call("GET", f"{CLAIMS}/attached")
        allocation = claim["status"]["allocation"]
        assert allocation["devices"]["results"][0]["bindingConditions"] == ["ready"]
        assert allocation["allocationTimestamp"]
        say_of_device(api, "attached", "broken")
        # What the scheduler gives back is taken from the status of devices too, by the API server.
        until(lambda: api.call("GET", f"{CLAIMS}/attached")["status"].get("devices") is None)
        assert node_of(api, "attached") == ""
        until(lambda: devices(api).get("attached") == "fabric")
        say_of_device(api, "attached", "ready")
        until(lambda: node_of(api, "attached") == "n-001")


HOOK = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def put_hook(api: Api, port: int, policy: str) -> None:
    """A webhook that judges every write to claims, as the driver of other devices may bring one."""
    rule = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": ["resourceclaims", "resourceclaims/status"],
    }
    hook = {
        "name": "claims.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "rules": [rule],
        "failurePolicy": policy,
        "sideEffects": "None",
        "timeoutSeconds": 1,
        "admissionReviewVersions": ["v1"],
    }
    api.request("DELETE", f"{HOOK}/claims")
    api.call("POST", HOOK, {"metadata": {"name": "claims"}, "webhooks": [hook]})


class BadHook:
    """A port where connections are taken, and answered with these bytes or never."""

    def __init__(self, answer: bytes | None) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.called: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        # Until the port is closed.
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                if self._answer is not None:
                    connection.sendall(self._answer)
                    connection.close()
                self.called.append(connection)

    def close(self) -> None:
        """Take no more connections: from now on it is down."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for one in self.called:
            one.close()


def test_fault_36_a_webhook_of_claims_that_is_slow_wrong_or_down_gives_no_device_twice(
    cluster: LocalCluster,
) -> None:
    """Where it has to answer, pods with claims wait and others start; where it need not, they start too."""
    slow, wrong, down = BadHook(None), BadHook(b"HTTP/1.1 200 OK\r\n\r\n{}"), BadHook(None)
    down.close()
    with cluster.api() as api, scheduler_at_work(cluster):
        for name, hook in (("slow", slow), ("wrong", wrong), ("down", down)):
            put_hook(api, hook.port, "Fail")
            api.call("POST", CLAIMS, {"metadata": {"name": name}, "spec": ASKED})
            add_pod(api, name, resourceClaimName=name)
            spec = {"schedulerName": "gpufleet", "containers": [{"name": "main", "image": "none"}]}
            api.call("POST", PODS, {"metadata": {"name": f"beside-{name}"}, "spec": spec})
            until(lambda: node_of(api, f"beside-{name}") != "")  # noqa: B023  (called at once)
            until(lambda: hook is down or len(hook.called) > 1)  # noqa: B023
            assert (devices(api).get(name), node_of(api, name)) == (None, "")
            put_hook(api, hook.port, "Ignore")
            until(lambda: node_of(api, name) != "")  # noqa: B023
            assert devices(api)[name] == node_of(api, name)
            assert len(set(devices(api).values())) == len(devices(api))
            api.call("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")
            until(lambda: name not in devices(api))  # noqa: B023
        api.call("DELETE", f"{HOOK}/claims")
    slow.close()
    wrong.close()


def test_a_pod_that_asks_by_number_gets_a_claim_which_goes_with_it(cluster: LocalCluster) -> None:
    def asking(name: str) -> None:
        amounts = {f"{NUMBERED}/device": "1"}
        container = {"name": "main", "image": "none", "resources": {"limits": amounts}}
        spec = {"schedulerName": "gpufleet", "containers": [container]}
        api.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})

    with cluster.api() as api, scheduler_at_work(cluster):
        asking("numbered")
        until(lambda: node_of(api, "numbered") == "n-002")
        said = api.call("GET", f"{PODS}/numbered")["status"]["extendedResourceClaimStatus"]
        (use,) = said["requestMappings"]
        assert (use["containerName"], use["requestName"]) == ("main", "container-0-request-0")
        made = api.call("GET", f"{CLAIMS}/{said['resourceClaimName']}")
        assert made["status"]["reservedFor"][0]["name"] == "numbered"
        assert devices(api)["numbered"] == "numbered"
        asking("behind")
        until(lambda: "without free devices for the pod's resource claims" in why(api, "behind"))
        # Kubernetes' own controllers take the claim away with its pod.
        api.call("DELETE", f"{PODS}/numbered?gracePeriodSeconds=0")
        until(lambda: node_of(api, "behind") == "n-002")


def test_a_pod_ends_for_its_device_which_goes_over_once_kubernetes_has_taken_it_back(
    cluster: LocalCluster,
) -> None:
    """No other scheduler ends pods for devices; the claim is taken back by kube-controller-manager."""

    def asking(name: str, priority: str) -> None:
        amounts = {f"{NUMBERED}/device": "1"}
        container = {"name": "main", "image": "none", "resources": {"limits": amounts}}
        spec = {"schedulerName": "gpufleet", "containers": [container], "priorityClassName": priority}
        api.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})

    with cluster.api() as api, scheduler_at_work(cluster):
        for one in api.call("GET", PODS)["items"]:
            api.call("DELETE", f"{PODS}/{one['metadata']['name']}?gracePeriodSeconds=0")
        classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
        for name, value in (("low", 1), ("high", 100)):
            api.call("POST", classes, {"metadata": {"name": name}, "value": value})
        asking("holder", "low")
        until(lambda: node_of(api, "holder") == "n-002")
        asking("better", "high")
        until(lambda: node_of(api, "better") == "n-002")
        told = {
            (one["regarding"]["name"], one["reason"]): one["note"]
            for one in api.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        }
        assert told["better", "Nominated"] == "node n-002 is kept for it until default/holder has ended"
        assert told["holder", "Preempted"].startswith("it makes room for pod default/better")
        assert devices(api) == {"better": "numbered"}
