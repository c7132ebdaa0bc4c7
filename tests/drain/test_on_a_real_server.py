"""Nodes are drained on a real API server with a real scheduler, by an account with the rights of the page."""

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from gpufleet.cli.main import ExitCode
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.conventions.project import ROOT
from tests.drain.work_on_nodes import PODS, REPLICA_SETS, gang, merge, nodes_of, pods_of, service, template
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import scheduler_at_work
from tests.waiting import until

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DEADLINE, BACKFILL = "gpufleet.io/drain-deadline", "gpufleet.io/backfill-until"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Four nodes of four GPUs, a scheduler, and an account that drains."""
    with a_cluster(tmp_path_factory.mktemp("drain"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(4, 4, gpu_model("H100-80GB")))
            give_rights(api)
        with scheduler_at_work(running):
            yield running


@pytest.fixture(autouse=True)
def _tidy(cluster: LocalCluster) -> Iterator[None]:
    """Each test begins on an empty cluster of open nodes."""
    yield
    with cluster.api() as api:
        for one in api.call("GET", REPLICA_SETS)["items"]:
            api.call("DELETE", f"{REPLICA_SETS}/{one['metadata']['name']}?propagationPolicy=Background")
        for one in api.call("GET", BUDGETS)["items"]:
            api.call("DELETE", f"{BUDGETS}/{one['metadata']['name']}")
        for node in api.call("GET", "/api/v1/nodes")["items"]:
            annotations = {DEADLINE: None, BACKFILL: None}
            body = {"metadata": {"annotations": annotations}, "spec": {"unschedulable": None}}
            merge(api, f"/api/v1/nodes/{node['metadata']['name']}", body)
        until(lambda: not api.call("GET", PODS)["items"], 120)


def give_rights(api: Api) -> None:
    """The role that the page tells of, and the one to look, for the group of those who drain."""
    page = (ROOT / "docs" / "drain.md").read_text(encoding="utf-8")
    found = re.search(r"```yaml\n(.*?kind: ClusterRole\n.*?)```", page, re.DOTALL)
    assert found is not None
    role = msgspec.yaml.decode(found[1])
    api.call("POST", f"{RBAC}/clusterroles", role)
    for name in ("gpufleet-explain", role["metadata"]["name"]):
        subject = {"kind": "Group", "name": "drainers", "apiGroup": "rbac.authorization.k8s.io"}
        named = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": f"drainers-{name}"}, "roleRef": named, "subjects": [subject]}
        api.call("POST", f"{RBAC}/clusterrolebindings", binding)


def drain(cluster: LocalCluster, *options: str) -> "subprocess.Popen[str]":
    """The command, run by an account that may look, and drain."""
    own = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig_for("drainer", ("drainers",)))}
    command = [sys.executable, "-m", "gpufleet", "drain", *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=own, stdout=pipe, stderr=pipe, text=True)


def done(draining: "subprocess.Popen[str]", code: int = ExitCode.DONE) -> tuple[str, str]:
    """What it says, when it has ended."""
    said, told = draining.communicate(timeout=400)
    assert draining.returncode == code, told
    return said, told


def node(api: Api, name: str) -> Object:
    found: Object = api.call("GET", f"/api/v1/nodes/{name}")
    return found


def test_a_gang_goes_whole_to_the_places_that_were_kept_for_it(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        gang(api, "train", ranks=2, gpus=4)
        left, before = nodes_of(api, "train"), {one["metadata"]["uid"] for one in pods_of(api, "train")}
        planned = json.loads(done(drain(cluster, *left, "--dry-run", "-o", "json"))[0])
        (work,) = planned["work"]
        assert (work["way"], work["gpus"], planned["short"]) == ("moves", 8, None)
        targets = sorted(move["target"] for move in work["moves"])
        assert nodes_of(api, "train") == left, "asking changes nothing"
        assert not node(api, left[0])["spec"].get("unschedulable")
        # The ranks cannot end for now, and other pods want the nodes that are free.
        held = [f"{PODS}/{one['metadata']['name']}" for one in pods_of(api, "train")]
        for path in held:
            merge(api, path, {"metadata": {"finalizers": ["example.com/stays"]}})
        draining = drain(cluster, *left)
        until(lambda: all("deletionTimestamp" in api.call("GET", path)["metadata"] for path in held), 120)
        service(api, "greedy", gpus=4, replicas=2)
        until(lambda: nodes_of(api, "train") == targets, 120)
        assert draining.poll() is None, "the nodes are not empty yet"
        for path in held:
            merge(api, path, {"metadata": {"finalizers": None}})
        done(draining)
        assert nodes_of(api, "train") == targets
        assert before.isdisjoint(one["metadata"]["uid"] for one in pods_of(api, "train"))
        assert nodes_of(api, "greedy") == []
        for name in left:
            assert node(api, name)["metadata"]["annotations"]["gpufleet.io/cordoned-by"] == "drain"


def test_a_drain_that_was_killed_goes_on_with_the_same_deadline(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        service(api, "web", gpus=4)
        until(lambda: len(nodes_of(api, "web")) == 1)
        (place,) = nodes_of(api, "web")
        draining = drain(cluster, place)
        until(lambda: node(api, place)["spec"].get("unschedulable"), 120)
        draining.send_signal(signal.SIGKILL)
        draining.communicate(timeout=60)
        deadline = node(api, place)["metadata"]["annotations"][DEADLINE]
        _, told = done(drain(cluster, place))
        assert f"node {place} was closed before, and its drain goes on" in told
        assert node(api, place)["metadata"]["annotations"][DEADLINE] == deadline
        until(lambda: nodes_of(api, "web") not in ([], [place]), 120)


def test_what_ends_before_the_node_can_be_empty_starts_there_meanwhile(cluster: LocalCluster) -> None:
    """The node is drained for work that ends after 10 minutes, and all other nodes are full."""
    runs = "gpufleet.io/run-time"
    with cluster.api() as api:
        service(api, "old", gpus=1, annotations={runs: "10m"})
        until(lambda: len(nodes_of(api, "old")) == 1)
        (place,) = nodes_of(api, "old")
        service(api, "full", gpus=4, replicas=3)
        until(lambda: len(nodes_of(api, "full")) == 3)
        draining = drain(cluster, place)
        until(lambda: node(api, place)["spec"].get("unschedulable"), 120)
        service(api, "long", gpus=1, annotations={runs: "2h"})
        service(api, "unknown", gpus=1)
        service(api, "short", gpus=1, annotations={runs: "1m"})
        until(lambda: nodes_of(api, "short") == [place], 120)
        assert nodes_of(api, "long") == nodes_of(api, "unknown") == []
        for name in ("short", "old"):
            api.call("DELETE", f"{REPLICA_SETS}/{name}?propagationPolicy=Background")
        until(lambda: not pods_of(api, "old"), 120)
        _, told = done(draining)
        assert f"node {place} is empty" in told
        assert BACKFILL not in node(api, place)["metadata"]["annotations"]
        assert DEADLINE in node(api, place)["metadata"]["annotations"]


def test_a_disruption_budget_is_never_broken(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        service(api, "web", gpus=1)
        until(lambda: len(nodes_of(api, "web")) == 1)
        ((place,), (pod,)) = nodes_of(api, "web"), pods_of(api, "web")
        selector = {"matchLabels": {"app": "web"}}
        budget = {"metadata": {"name": "keep"}, "spec": {"minAvailable": 1, "selector": selector}}
        api.call("POST", BUDGETS, budget)
        until(lambda: "disruptionsAllowed" in api.call("GET", f"{BUDGETS}/keep").get("status", {}))
        draining = drain(cluster, place)
        until(lambda: node(api, place)["spec"].get("unschedulable"), 120)
        until(lambda: "gpufleet.io/move-to" in pods_of(api, "web")[0]["metadata"]["annotations"], 120)
        draining.send_signal(signal.SIGINT)
        _, told = done(draining, ExitCode.INTERRUPTED)
        assert "stay closed and are not empty" in told
        (still,) = pods_of(api, "web")
        assert still["metadata"]["uid"] == pod["metadata"]["uid"]
        assert "gpufleet.io/move-to" not in still["metadata"]["annotations"]
        api.call("DELETE", f"{BUDGETS}/keep")
        done(drain(cluster, place))


def test_work_is_asked_to_save_and_moves_as_soon_as_it_has(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        service(api, "web", gpus=1, annotations={"gpufleet.io/checkpoint-on-request": "true"})
        until(lambda: len(nodes_of(api, "web")) == 1)
        ((place,), (pod,)) = nodes_of(api, "web"), pods_of(api, "web")
        draining = drain(cluster, place, "--checkpoint", "3600")
        asked = "gpufleet.io/checkpoint-requested"
        until(lambda: asked in pods_of(api, "web")[0]["metadata"]["annotations"], 120)
        assert nodes_of(api, "web") == [place]
        now = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
        saved = {"metadata": {"annotations": {"gpufleet.io/checkpointed-at": f"{now:%Y-%m-%dT%H:%M:%SZ}"}}}
        merge(api, f"{PODS}/{pod['metadata']['name']}", saved)
        done(draining)
        until(lambda: nodes_of(api, "web") not in ([], [place]), 120)


def test_a_node_that_others_open_meanwhile_does_not_count_as_drained(cluster: LocalCluster) -> None:
    """As in openshift/machine-config-operator, pkg/controller/drain/drain_controller_test.go."""
    with cluster.api() as api:
        service(api, "web", gpus=1, annotations={"gpufleet.io/checkpoint-on-request": "true"})
        until(lambda: len(nodes_of(api, "web")) == 1)
        (place,) = nodes_of(api, "web")
        draining = drain(cluster, place, "--checkpoint", "3600")
        asked = "gpufleet.io/checkpoint-requested"
        until(lambda: asked in pods_of(api, "web")[0]["metadata"]["annotations"], 120)
        merge(api, f"/api/v1/nodes/{place}", {"spec": {"unschedulable": None}})
        _, told = done(draining, ExitCode.WORLD_FAILED)
        assert f"node {place} was opened again by others, and is not drained any more" in told
        assert nodes_of(api, "web") == [place]
        assert BACKFILL not in node(api, place)["metadata"]["annotations"]


def test_what_no_controller_makes_anew_stays_and_is_named(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        bare = template("bare", 1)
        api.call("POST", PODS, {**bare, "metadata": {**bare["metadata"], "name": "bare"}})
        until(lambda: len(nodes_of(api, "bare")) == 1)
        (place,) = nodes_of(api, "bare")
        _, told = done(drain(cluster, place, "--deadline", "0"), ExitCode.WORLD_FAILED)
        assert "pod default/bare stays: no controller makes it anew" in told
        assert nodes_of(api, "bare") == [place]
        api.call("DELETE", f"{PODS}/bare")


def test_an_eviction_by_others_on_a_cordoned_node_works_as_anywhere(cluster: LocalCluster) -> None:
    with cluster.api() as api:
        service(api, "web", gpus=4)
        until(lambda: len(nodes_of(api, "web")) == 1)
        ((place,), (pod,)) = nodes_of(api, "web"), pods_of(api, "web")
        merge(api, f"/api/v1/nodes/{place}", {"spec": {"unschedulable": True}})
        name = pod["metadata"]["name"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        api.call("POST", f"{PODS}/{name}/eviction", body)
        until(lambda: nodes_of(api, "web") not in ([], [place]), 120)
