"""The page in a cluster, on a real API server: what readers of all, of one namespace and of none see."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.web.web_server import Browser, Server, web_server

FOREIGN = "classified-merger"
"""The names of all in the namespace that two of the users may not see begin so."""

HIDDEN = f"{FOREIGN}-team"
READER, MEMBER, STRANGER = "reader", "member", "stranger"
ENGINE_S = 400.0
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


def namespace(api: Api, name: str) -> None:
    api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})


def add_pod(api: Api, where: str, name: str, gpus: int, node: str = "") -> None:
    """A pod that waits for gpufleet, or one that another scheduler has put on a node."""
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}}
    spec: dict[str, Any] = {
        "schedulerName": "another" if node else "gpufleet",
        "containers": [{"name": "c", "image": "example.com/none", "resources": limits}],
        "automountServiceAccountToken": False,
    }
    labels = {"gpufleet.io/queue": "open-queue" if where == "open-team" else "other-queue"}
    body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    api.call("POST", f"/api/v1/namespaces/{where}/pods", body)
    if node:
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        api.call("POST", f"/api/v1/namespaces/{where}/pods/{name}/binding", binding)


def account(api: Api, name: str) -> None:
    api.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": name}})


def bind(api: Api, name: str, role: str, where: str = "") -> None:
    """Give an account a ClusterRole, in one namespace or in all."""
    kind = "RoleBinding" if where else "ClusterRoleBinding"
    path = f"{RIGHTS}/namespaces/{where}/rolebindings" if where else f"{RIGHTS}/clusterrolebindings"
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    body = {
        "kind": kind,
        "metadata": {"name": f"{name}-{role}".replace(":", "-")},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    }
    api.call("POST", path, body)


def token(api: Api, name: str) -> str:
    """A token of an account, as `kubectl create token` asks for it."""
    path = f"/api/v1/namespaces/default/serviceaccounts/{name}/token"
    answer = api.call("POST", path, {"spec": {"expirationSeconds": 3600}})
    return str(answer["status"]["token"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes; in each of two namespaces a pod on a node and one that waits; two queues; three users."""
    with a_cluster(tmp_path_factory.mktemp("people"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(2, 4, gpu_model("H100-80GB")))
            for where in ("open-team", HIDDEN):
                namespace(api, where)
                queue = {
                    "apiVersion": "gpufleet.io/v1alpha1",
                    "kind": "FleetQueue",
                    "metadata": {"name": "open-queue" if where == "open-team" else "other-queue"},
                    "spec": {"quotas": [{"resource": "gpu", "nominal": 4}]},
                }
                api.call("POST", "/apis/gpufleet.io/v1alpha1/fleetqueues", queue)
            for name in (READER, MEMBER, STRANGER):
                account(api, name)
            bind(api, READER, "gpufleet-explain")
            bind(api, MEMBER, "view", "open-team")
            lists = {
                "kind": "ClusterRole",
                "metadata": {"name": "lists-the-fleet"},
                "rules": [
                    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
                    {
                        "apiGroups": ["gpufleet.io"],
                        "resources": ["nodedevices", "fleetqueues"],
                        "verbs": ["list"],
                    },
                ],
            }
            api.call("POST", f"{RIGHTS}/clusterroles", lists)
            bind(api, MEMBER, "lists-the-fleet")
        with running.api() as api:
            for where, name, node in (("open-team", "open", "gpu-001"), (HIDDEN, FOREIGN, "gpu-002")):
                add_pod(api, where, f"{name}-waits", 2)
                add_pod(api, where, f"{name}-runs", 1, node)
        yield running


@pytest.fixture(scope="module")
def server(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with web_server(cluster.kubeconfig, tmp_path_factory.mktemp("shared"), "--login=cluster") as found:
        yield found


@pytest.fixture(scope="module")
def browsers(cluster: LocalCluster, server: Server) -> dict[str, Browser]:
    with cluster.api() as api:
        return {name: server.browser(token=token(api, name)) for name in (READER, MEMBER, STRANGER)}


def everything(browser: Browser) -> tuple[Any, str]:
    """The rows that a person sees once the engine was asked, and all that went over the wire."""
    with browser.stream() as stream:
        # The first answer of the engine may have to wait for its kernels to be compiled.
        stream.until(lambda one: "queues_as_of" in one.source and one.source["state"] == "live", ENGINE_S)
        # The last of what is told together has an id.
        stream.until(lambda one: bool(one.seen[-1].id))
        return stream, json.dumps([one.data for one in stream.seen])


def test_a_reader_of_all_sees_all(browsers: dict[str, Browser]) -> None:
    stream, sent = everything(browsers[READER])
    assert {"pod/open-team/open-waits", f"pod/{HIDDEN}/{FOREIGN}-waits"} <= set(stream.rows["work"])
    assert set(stream.rows["nodes"]) == {"gpu-001", "gpu-002"}
    assert FOREIGN in sent
    about = browsers[READER].get("/api/about")
    assert about["user"] == f"system:serviceaccount:default:{READER}"
    assert "namespaces" not in about
    assert browsers[READER].ask("/api/plans?add_nodes=1").status == 200


def test_a_reader_of_one_namespace_sees_no_row_and_no_name_of_another(browsers: dict[str, Browser]) -> None:
    browser = browsers[MEMBER]
    stream, sent = everything(browser)
    assert {key.split("/")[1] for key in stream.rows["work"]} == {"open-team"}
    assert set(stream.rows["nodes"]) == {"gpu-001", "gpu-002"}
    assert FOREIGN not in sent
    assert browser.get("/api/about")["namespaces"] == ["open-team"]
    for name in ("gpu-001", "gpu-002"):
        assert FOREIGN not in json.dumps(browser.get(f"/api/node/{name}"))
    own = browser.get("/api/work/pod/open-team/open-waits")
    assert "explanation" not in own
    assert FOREIGN not in json.dumps(own)


@pytest.mark.parametrize("path", [f"/api/work/pod/{HIDDEN}/{FOREIGN}-waits", "/api/work/pod/none/none"])
def test_foreign_work_is_answered_as_work_that_is_not_there(browsers: dict[str, Browser], path: str) -> None:
    found = browsers[MEMBER].ask(path)
    assert found.status == 404
    assert found.document["problem"] == "there is no such work with GPUs that you may see"


@pytest.mark.parametrize("path", ["/api/plans?add_nodes=1", "/api/problems"])
@pytest.mark.parametrize("who", [MEMBER, STRANGER])
def test_what_tells_of_the_whole_cluster_is_for_those_who_may_see_it(
    browsers: dict[str, Browser], who: str, path: str
) -> None:
    found = browsers[who].ask(path)
    assert found.status == 403
    assert "gpufleet-explain" in found.document["way_out"]


def test_a_reader_of_nothing_sees_nothing(browsers: dict[str, Browser]) -> None:
    browser = browsers[STRANGER]
    stream, sent = everything(browser)
    assert {view: rows for view, rows in stream.rows.items() if rows and view != "fleet"} == {}
    assert "nodes" not in stream.rows["fleet"]["fleet"]
    assert "gpu-00" not in sent
    assert "open-" not in sent
    assert FOREIGN not in sent
    assert "nodes" in stream.unread["nodes"]
    assert browser.ask("/api/node/gpu-001").status == 404
    assert len(browser.get("/api/about")["hidden"]) == 2


def test_two_people_at_once_see_each_their_own(browsers: dict[str, Browser]) -> None:
    with browsers[READER].stream() as all_of_it, browsers[MEMBER].stream() as own:
        all_of_it.until(lambda one: any(FOREIGN in key for key in one.rows.get("work", {})))
        own.until(lambda one: "pod/open-team/open-waits" in one.rows.get("work", {}))
        assert not any(FOREIGN in key for key in own.rows["work"])


@pytest.mark.parametrize("given", ["", "nonsense", "a.b.c", "x" * 9000])
def test_without_a_token_that_counts_nothing_is_shown(server: Server, given: str) -> None:
    for path in ("/api/about", "/api/stream", "/api/work/pod/open-team/open-waits"):
        found = server.browser(token=given).ask(path)
        assert found.status == 401
        assert found.document["login"]


def test_a_session_takes_the_place_of_a_token_until_it_is_ended(
    cluster: LocalCluster, server: Server
) -> None:
    with cluster.api() as api:
        browser = server.browser(token=token(api, MEMBER))
    found = browser.ask("/api/login", "POST")
    assert found.status == 204
    assert {"HttpOnly", "SameSite=Strict", "Secure"} <= set(found.fields["set-cookie"].split("; "))
    browser.token = ""
    assert browser.get("/api/about")["can_log_out"]
    assert browser.ask("/api/logout", "POST").status == 204
    assert browser.ask("/api/about").status == 401
