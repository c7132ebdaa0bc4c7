"""The page in a cluster, on a real API server: what readers of all, of one namespace and of none see."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.waiting import until
from tests.web.people import (
    LISTS_PROJECTS,
    LISTS_THE_FLEET,
    MEMBER,
    READER,
    RIGHTS,
    STRANGER,
    account,
    add_pod,
    bind,
    namespace,
    token,
)
from tests.web.web_server import Browser, Server, web_server

FOREIGN = "classified-merger"
"""The names of all in the namespace that two of the users may not see begin so."""

HIDDEN = f"{FOREIGN}-team"
ENGINE_S = 400.0
PROXIED = "oidc:ada@example.com"
"""A user that only the proxy has logged in."""


PROJECTS = "/apis/gpufleet.io/v1alpha1/gpuprojects"
PROJECT = {
    "apiVersion": "gpufleet.io/v1alpha1",
    "kind": "GpuProject",
    "metadata": {"name": f"{FOREIGN}-project"},
    "spec": {"namespaces": [HIDDEN], "members": [{"user": "olga@example.com", "role": "Owner"}]},
}


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
            api.call("POST", f"{RIGHTS}/clusterroles", LISTS_PROJECTS)
            bind(api, READER, "lists-projects")
            api.call("POST", PROJECTS, PROJECT)
            bind(api, MEMBER, "view", "open-team")
            api.call("POST", f"{RIGHTS}/clusterroles", LISTS_THE_FLEET)
            bind(api, MEMBER, "lists-the-fleet")
            bind(api, PROXIED, "view", "open-team", kind="User")
            bind(api, "oidc:fleet-readers", "lists-the-fleet", kind="Group")
        with running.api() as api:
            for where, name, node in (("open-team", "open", "gpu-001"), (HIDDEN, FOREIGN, "gpu-002")):
                add_pod(api, where, f"{name}-waits", 2)
                add_pod(api, where, f"{name}-runs", 1, node)
        yield running


@pytest.fixture(scope="module")
def server(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with web_server(cluster.kubeconfig, tmp_path_factory.mktemp("shared"), "--login=cluster") as found:
        yield found


@pytest.fixture
def behind_proxy(cluster: LocalCluster, tmp_path: Path) -> Iterator[Server]:
    """A server that takes a user's name from this machine, as from a proxy in its own pod."""
    options = ("--trusted-proxy=127.0.0.1", "--proxy-user-prefix=oidc:", "--proxy-groups-prefix=oidc:")
    with web_server(cluster.kubeconfig, tmp_path, "--login=cluster", *options) as found:
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


MANIFEST = b"""\
apiVersion: v1
kind: Pod
metadata: {name: asked-about}
spec:
  containers:
  - {name: c, image: example.com/none, resources: {limits: {nvidia.com/gpu: 1}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: many, namespace: open-team}
spec:
  parallelism: 2
  template:
    spec: {containers: [{name: c, image: example.com/none, resources: {limits: {nvidia.com/gpu: 8}}}]}
"""


def test_a_pasted_manifest_is_only_asked_about(cluster: LocalCluster, browsers: dict[str, Browser]) -> None:
    found = browsers[READER].ask("/api/plans?namespace=open-team", "POST", MANIFEST)
    assert found.status == 200, found.body
    named = {
        (one["kind"], one["namespace"], one["name"])
        for field in ("starts", "waits")
        for one in found.document.get(field, ())
        if one.get("submitted")
    }
    assert {("pod", "open-team", "asked-about"), ("job", "open-team", "many")} <= named
    with cluster.api() as api:
        pods = api.call("GET", "/api/v1/namespaces/open-team/pods")["items"]
        jobs = api.call("GET", "/apis/batch/v1/namespaces/open-team/jobs")["items"]
    assert {one["metadata"]["name"] for one in pods} == {"open-waits", "open-runs"}
    assert jobs == []


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (b"kind: Pod", b"kind: Nod", {"where": "the manifest", "value": "v1 Nod"}),
        (b"parallelism: 2", b"parallelism: two", {"field": "spec.parallelism", "value": "two"}),
        (b"name: asked-about", b"name: Asked_About", {"field": "metadata.name", "value": "Asked_About"}),
        (b"spec:", b"\tspec:", {"where": "the manifest"}),
    ],
)
def test_a_manifest_that_cannot_be_is_refused_with_its_object_field_and_value(
    browsers: dict[str, Browser], before: bytes, after: bytes, told: dict[str, str]
) -> None:
    found = browsers[READER].ask("/api/plans", "POST", MANIFEST.replace(before, after, 1))
    assert found.status == 400
    assert {name: found.document[name] for name in told if name != "where"} == {
        name: value for name, value in told.items() if name != "where"
    }
    assert found.document["where"].startswith("the manifest")


def test_a_manifest_is_for_those_alone_who_may_see_the_whole_cluster(browsers: dict[str, Browser]) -> None:
    for who in (MEMBER, STRANGER):
        assert browsers[who].ask("/api/plans", "POST", MANIFEST).status == 403


@pytest.mark.parametrize("path", ["/api/plans?add_nodes=1", "/api/problems"])
@pytest.mark.parametrize("who", [MEMBER, STRANGER])
def test_what_tells_of_the_whole_cluster_is_for_those_who_may_see_it(
    browsers: dict[str, Browser], who: str, path: str
) -> None:
    found = browsers[who].ask(path)
    assert found.status == 403
    assert "gpufleet-explain" in found.document["way_out"]


def test_projects_are_for_those_who_may_list_them(browsers: dict[str, Browser]) -> None:
    (row,) = browsers[READER].get("/api/projects")["projects"]
    assert row == {
        "key": f"{FOREIGN}-project",
        "team": f"{FOREIGN}-project",
        "namespaces": [HIDDEN],
        "members": [{"role": "Owner", "user": "olga@example.com"}],
    }, "no operator has seen it, so whether it is ready is not known"
    for who in (MEMBER, STRANGER):
        found = browsers[who].ask("/api/projects")
        assert found.status == 403
        assert "gpufleet project list" in found.document["way_out"]


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


def test_who_is_named_by_a_trusted_proxy_sees_what_that_user_may_see(
    cluster: LocalCluster, behind_proxy: Server
) -> None:
    named: dict[str, Any] = {
        "X_Forwarded_User": "ada@example.com",
        "X_Forwarded_Groups": "fleet-readers,others",
    }

    def about() -> dict[str, Any]:
        found: dict[str, Any] = behind_proxy.browser().ask("/api/about", **named).document
        return found

    assert about()["user"] == PROXIED
    # A server that has just begun has not heard of all namespaces.
    until(lambda: about()["namespaces"] == ["open-team"])
    own = behind_proxy.browser().ask("/api/work/pod/open-team/open-waits", **named)
    assert own.status == 200
    foreign = behind_proxy.browser().ask(f"/api/work/pod/{HIDDEN}/{FOREIGN}-waits", **named)
    assert foreign.status == 404
    # Without the group the fleet's nodes are not this user's to see.
    assert behind_proxy.browser().ask("/api/node/gpu-001", **named).status == 200
    assert behind_proxy.browser().ask("/api/node/gpu-001", X_Forwarded_User="ada@example.com").status == 404
    with cluster.api() as api:
        with_token = behind_proxy.browser(token=token(api, READER))
    assert with_token.get("/api/about")["user"] == f"system:serviceaccount:default:{READER}"


def test_a_field_that_anybody_could_write_names_nobody(cluster: LocalCluster, server: Server) -> None:
    """This server trusts no proxy."""
    with cluster.api() as api:
        stranger = server.browser(token=token(api, STRANGER))
    about = stranger.ask("/api/about", X_Forwarded_User=READER, X_Forwarded_Groups="system:masters")
    assert about.document["user"] == f"system:serviceaccount:default:{STRANGER}"
    assert server.browser().ask("/api/about", X_Forwarded_User=READER).status == 401


def test_a_field_from_an_address_that_is_no_proxy_is_refused(cluster: LocalCluster, tmp_path: Path) -> None:
    with (
        cluster.api() as api,
        web_server(
            cluster.kubeconfig, tmp_path, "--login=cluster", "--trusted-proxy=192.0.2.0/24"
        ) as elsewhere,
    ):
        reader = elsewhere.browser(token=token(api, READER))
        assert reader.ask("/api/about").status == 200
        for path in ("/api/about", "/api/stream", "/api/node/gpu-001"):
            refused = reader.ask(path, X_Forwarded_User="ada@example.com")
            assert refused.status == 403
            assert "--trusted-proxy" in refused.document["way_out"]
