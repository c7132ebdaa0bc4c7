"""On a real API server: what the agent of one node may write, and that it may write of no other node."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.devices.sharing.nvidia_places import NVIDIA_CONFIG_MAPS
from gpufleet.kube.manifests import AGENT_ACCOUNT, DEFAULT_IDENTITY
from gpufleet.kube.objects.node_data import DataEntry, DataFolder, NodeDataSpec, encode_node_data
from gpufleet.localkube.access.api import JSON, Api
from gpufleet.localkube.agent_identity import ACCOUNT, agent_kubeconfig
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node_agent import SHARING
from tests.kube.manifests.real_server import Answer, Person, install_all, until
from tests.kube.node_features import DEFINITIONS, FEATURES, NODE_FEATURES
from tests.localkube.cluster import a_cluster

NODES = "/api/v1/nodes"
DEVICES = "/apis/gpufleet.io/v1alpha1/nodedevices"
DATA = "/apis/gpufleet.io/v1alpha1/nodedata"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
HERE, THERE = "node-here", "node-there"
STRATEGIC = "application/strategic-merge-patch+json"


class Bearer(Person):
    """Somebody with a token."""

    def __init__(self, cluster: LocalCluster, token: str) -> None:
        context = ssl.create_default_context(cafile=str(cluster.authority))
        self._api = BearerApi(cluster.port, context)
        self._api.token = token


class BearerApi(Api):
    """The same plain client, with a token."""

    token = ""

    def request(
        self, method: str, path: str, body: object = None, content_type: str = JSON, *, accept: str = JSON
    ) -> tuple[int, bytes]:
        """One request, in the name of the token."""
        encoded = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": accept, "Content-Type": content_type, "Authorization": f"Bearer {self.token}"}
        self._connection.request(method, path, encoded, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with two nodes, with what gpufleet installs, and with NFD's kind."""
    with a_cluster(tmp_path_factory.mktemp("agents")) as cluster:
        install_all(cluster)
        with cluster.api() as api:
            api.call("POST", DEFINITIONS, NODE_FEATURES)
            for name in (HERE, THERE):
                api.call("POST", NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
            until(lambda: api.request("GET", FEATURES)[0] == 200)
        yield cluster


@pytest.fixture(scope="module")
def admin(installed: LocalCluster) -> Iterator[Person]:
    """Somebody who may do everything."""
    with Person(installed, "root", ("system:masters",)) as person:
        yield person


@pytest.fixture(scope="module")
def agent(installed: LocalCluster) -> Iterator[Bearer]:
    """The agent of the node here, once the policy is in force."""
    with Bearer(installed, token_of(agent_kubeconfig(installed, HERE))) as person:
        until(lambda: label(person, THERE, "nvidia.com/gpu.count", "8")[0] == 403)
        yield person


def token_of(kubeconfig: Path) -> str:
    """The token in such a file."""
    written = msgspec.yaml.decode(kubeconfig.read_text(encoding="utf-8"))
    token: str = written["users"][0]["user"]["token"]
    return token


def label(person: Person, node: str, key: str, value: str | None) -> Answer:
    return person.merge(f"{NODES}/{node}", {"metadata": {"labels": {key: value}}})


def report(name: str) -> dict[str, Any]:
    spec = {"devices": [{"id": "GPU-1"}]}
    return {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "NodeDevices",
        "metadata": {"name": name},
        "spec": spec,
    }


def feature(name: str, node: str | None) -> dict[str, Any]:
    labels = {} if node is None else {"nfd.node.kubernetes.io/node-name": node}
    metadata = {"name": name, "namespace": "default", "labels": labels}
    return {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature", "metadata": metadata, "spec": {}}


def refused(answer: Answer, because: str) -> bool:
    status, body = answer
    assert status == 403, body
    assert "gpufleet-agent-own-node" in body["message"]
    assert because in body["message"]
    return True


def test_it_reports_the_devices_of_its_own_node_alone(agent: Bearer, admin: Person) -> None:
    assert agent.ask("POST", DEVICES, report(HERE))[0] == 201
    assert agent.merge(f"{DEVICES}/{HERE}", {"spec": {"driver": "1"}})[0] == 200
    assert refused(agent.ask("POST", DEVICES, report(THERE)), "the agent of the node node-here")
    assert admin.ask("POST", DEVICES, report(THERE))[0] == 201
    assert refused(agent.merge(f"{DEVICES}/{THERE}", {"spec": {"driver": "1"}}), "no other node")
    apply = "?fieldManager=agent&force=true"
    kind = "application/apply-patch+yaml"
    assert agent.ask("PATCH", f"{DEVICES}/{HERE}{apply}", report(HERE), kind)[0] == 200
    assert refused(agent.ask("PATCH", f"{DEVICES}/{THERE}{apply}", report(THERE), kind), "no other node")


def test_it_tells_of_the_data_of_its_own_node_alone(agent: Bearer) -> None:
    def data(node: str) -> dict[str, Any]:
        entry = DataEntry("model", "Qwen/Qwen3-8B", 16_400_000_000, True, "/data/hub", "a" * 40, ("main",))
        spec = NodeDataSpec((entry,), 0, (DataFolder("/data", 10**12, 10**11),))
        found: dict[str, Any] = msgspec.json.decode(encode_node_data(node, spec))
        return found

    status, made = agent.ask("POST", DATA, data(HERE))
    assert status == 201
    # The definition keeps every field that is written.
    said = {key: value for key, value in data(HERE)["spec"].items() if value is not None}
    assert made["spec"] == said
    assert refused(agent.ask("POST", DATA, data(THERE)), "the agent of the node node-here")


def a_slice(name: str, node: str | None) -> dict[str, Any]:
    """A slice of a node, or of all nodes."""
    reach = {"allNodes": True} if node is None else {"nodeName": node}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "pool": pool, "devices": [], **reach}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_it_offers_cards_of_its_own_node_alone_to_claims(agent: Bearer, admin: Person) -> None:
    assert agent.ask("POST", SLICES, a_slice("here", HERE))[0] == 201
    assert refused(agent.ask("POST", SLICES, a_slice("there", THERE)), "no other node")
    assert refused(agent.ask("POST", SLICES, a_slice("everywhere", None)), "no other node")
    assert admin.ask("POST", SLICES, a_slice("there", THERE))[0] == 201
    assert refused(agent.ask("DELETE", f"{SLICES}/there"), "no other node")
    assert agent.ask("DELETE", f"{SLICES}/here")[0] == 200
    assert admin.ask("DELETE", f"{SLICES}/there")[0] == 200


def test_it_reads_single_claims_and_changes_none(agent: Bearer) -> None:
    assert agent.ask("GET", f"{CLAIMS}/none")[0] == 404
    for method, path in (("GET", CLAIMS), ("POST", CLAIMS), ("DELETE", f"{CLAIMS}/none")):
        assert agent.ask(method, path)[0] == 403


def test_it_labels_its_own_node_alone(agent: Bearer) -> None:
    for key in ("nvidia.com/gpu.count", "gpu.intel.com/product", "amd.com/gpu.vram", "gpufleet.io/sharing"):
        assert label(agent, HERE, key, "8")[0] == 200
        assert refused(label(agent, THERE, key, "8"), "no other node")
    assert label(agent, HERE, "nvidia.com/gpu.count", None)[0] == 200


@pytest.mark.parametrize(
    "key", ["node-role.kubernetes.io/control-plane", "team", "nvidia.com.example.org/x", "xnvidia.com/x"]
)
def test_it_changes_no_other_labels(agent: Bearer, admin: Person, key: str) -> None:
    assert refused(label(agent, HERE, key, "x"), "labels")
    assert label(admin, HERE, key, "x")[0] == 200
    assert refused(label(agent, HERE, key, None), "labels")
    assert refused(agent.merge(f"{NODES}/{HERE}/status", {"metadata": {"labels": {key: "y"}}}), "labels")
    assert label(admin, HERE, key, None)[0] == 200


def test_it_annotates_with_its_own_keys_alone(agent: Bearer) -> None:
    path = f"{NODES}/{HERE}"
    ours, others = "gpufleet.io/gpu-problems", "cluster-autoscaler.kubernetes.io/scale-down-disabled"
    assert agent.merge(path, {"metadata": {"annotations": {ours: "Xid 79"}}})[0] == 200
    assert refused(agent.merge(path, {"metadata": {"annotations": {others: "true"}}}), "annotations")
    assert agent.merge(path, {"metadata": {"annotations": {ours: None}}})[0] == 200


def test_of_taints_and_cordons_it_changes_its_own(agent: Bearer, admin: Person) -> None:
    path = f"{NODES}/{HERE}"
    found = admin.ask("GET", path)[1]["spec"].get("taints", [])
    ours = {"key": "gpufleet.io/unhealthy", "effect": "NoSchedule"}
    assert agent.merge(path, {"spec": {"taints": [*found, ours]}})[0] == 200
    assert refused(agent.merge(path, {"spec": {"taints": [*found, ours, {**ours, "key": "mine"}]}}), "taints")
    assert refused(agent.merge(path, {"spec": {"unschedulable": True}}), "spec")
    assert agent.merge(path, {"spec": {"taints": found or None}})[0] == 200


def test_of_the_status_it_changes_its_own_condition(agent: Bearer) -> None:
    path = f"{NODES}/{HERE}/status"
    condition = {"type": "gpufleet.io/GPUHealthy", "status": "False", "reason": "Xid", "message": "Xid 79"}
    assert agent.ask("PATCH", path, {"status": {"conditions": [condition]}}, STRATEGIC)[0] == 200
    ready = {"type": "Ready", "status": "True"}
    assert refused(agent.ask("PATCH", path, {"status": {"conditions": [ready]}}, STRATEGIC), "status")
    capacity = {"status": {"capacity": {"nvidia.com/gpu": "64"}}}
    assert refused(agent.merge(path, capacity), "status")


def test_it_describes_its_own_node_to_nfd_alone(agent: Bearer, admin: Person) -> None:
    assert agent.ask("POST", FEATURES, feature("ours", HERE))[0] == 201
    assert refused(agent.ask("POST", FEATURES, feature("theirs", THERE)), "no other node")
    assert refused(agent.ask("POST", FEATURES, feature("nobodys", None)), "no other node")
    assert admin.ask("POST", FEATURES, feature("theirs", THERE))[0] == 201
    # Neither taken over, nor handed away, nor removed.
    for name, node in (("theirs", HERE), ("ours", THERE)):
        moved = {"metadata": {"labels": {"nfd.node.kubernetes.io/node-name": node}}}
        assert refused(agent.merge(f"{FEATURES}/{name}", moved), "no other node")
    assert refused(agent.ask("DELETE", f"{FEATURES}/theirs"), "no other node")
    assert agent.ask("DELETE", f"{FEATURES}/ours")[0] == 200


def test_a_token_that_names_no_node_writes_nothing(installed: LocalCluster, admin: Person) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = admin.ask("POST", f"{ACCOUNT}/token", body)[1]["status"]["token"]
    with Bearer(installed, token) as nowhere:
        assert refused(label(nowhere, HERE, "nvidia.com/gpu.count", "8"), "names no node")
    account = f"system:serviceaccount:{DEFAULT_IDENTITY.namespace}:{AGENT_ACCOUNT}"
    with Person(installed, account, DEFAULT_IDENTITY.groups) as by_certificate:
        assert refused(label(by_certificate, HERE, "nvidia.com/gpu.count", "8"), "names no node")


@pytest.mark.usefixtures("agent")
def test_others_are_held_by_their_rights_alone(admin: Person) -> None:
    assert label(admin, THERE, "team", "research")[0] == 200
    assert admin.merge(f"{NODES}/{THERE}/status", {"status": {"capacity": {"cpu": "8"}}})[0] == 200


def test_it_reads_the_sharing_config_and_no_other_config_map(agent: Bearer, admin: Person) -> None:
    maps = f"/api/v1/namespaces/{DEFAULT_IDENTITY.namespace}/configmaps"
    for name in (SHARING, "others"):
        assert admin.ask("POST", maps, {"metadata": {"name": name}, "data": {}})[0] == 201
    until(lambda: agent.ask("GET", f"{maps}/{SHARING}")[0] == 200)
    assert agent.ask("GET", f"{maps}?fieldSelector=metadata.name%3D{SHARING}")[0] == 200
    for path in (f"{maps}/others", maps, f"{maps}?fieldSelector=metadata.name%3Dothers"):
        assert agent.ask("GET", path)[0] == 403, path
    assert agent.merge(f"{maps}/{SHARING}", {"data": {"default": "x"}})[0] == 403


def test_it_follows_nvidias_config_maps_by_name_where_no_namespace_is_either(
    agent: Bearer,
) -> None:
    for namespace, name in NVIDIA_CONFIG_MAPS:
        maps = f"/api/v1/namespaces/{namespace}/configmaps"
        assert agent.ask("GET", f"{maps}?fieldSelector=metadata.name%3D{name}")[0] == 200, (namespace, name)
        assert agent.ask("GET", maps)[0] == 403
        assert agent.merge(f"{maps}/{name}", {"data": {"any": "version: v1"}})[0] == 403


@pytest.mark.parametrize(
    ("verb", "group", "resource"),
    [
        ("get", "", "secrets"),
        ("get", "", "configmaps"),
        ("patch", "", "pods"),
        ("delete", "", "pods"),
        ("create", "", "pods/eviction"),
        ("create", "", "pods/binding"),
        ("create", "", "nodes"),
        ("delete", "", "nodes"),
        ("update", "", "nodes"),
        ("delete", "gpufleet.io", "nodedevices"),
        ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    ],
)
def test_the_agent_has_no_right_that_it_does_not_need(
    agent: Bearer, verb: str, group: str, resource: str
) -> None:
    resource, _, subresource = resource.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": "default",
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = agent.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)[1]
    assert answer["status"]["allowed"] is False
