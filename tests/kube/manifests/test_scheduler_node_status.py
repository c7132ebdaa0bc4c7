"""On a real API server: of a node the scheduler writes what is its own, though RBAC lets it write more."""

from collections.abc import Iterator

import pytest

from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.localkube.cluster import LocalCluster
from tests.kube.manifests.real_server import Person, install_all, until
from tests.localkube.cluster import a_cluster

PATH = "/api/v1/nodes/a/status"
STRATEGIC = "application/strategic-merge-patch+json"
OURS = {"type": "gpufleet.io/PodsRejected", "status": "True", "reason": "x", "message": "y"}
NAMED = {"name": "a", "annotations": {"kept": "one"}}
KEPT = {**OURS, "type": "gpufleet.io/PlacesKept"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with a node that its kubelet described."""
    with a_cluster(tmp_path_factory.mktemp("status")) as cluster:
        install_all(cluster)
        ready = {"type": "Ready", "status": "True", "reason": "x", "message": "y"}
        status = {"allocatable": {"cpu": "8"}, "capacity": {"cpu": "8"}, "conditions": [ready]}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {**NAMED, "labels": {"zone": "x"}}}
        with cluster.api() as api:
            api.call("POST", "/api/v1/nodes", {**node, "status": status})
        yield cluster


@pytest.fixture
def scheduler(installed: LocalCluster) -> Iterator[Person]:
    """The scheduler."""
    with Person(installed, DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups) as person:
        yield person


def conditions(*found: dict[str, str]) -> dict[str, object]:
    return {"status": {"conditions": list(found)}}


def test_it_writes_its_condition_and_nothing_else(scheduler: Person) -> None:
    assert scheduler.ask("PATCH", PATH, conditions(OURS), STRATEGIC)[0] == 200
    refused = [
        conditions({"type": "Ready", "status": "False"}),
        conditions({"type": "gpufleet.io/GPUHealthy", "status": "False"}),
        {"status": {"allocatable": {"cpu": "64"}}},
        {"status": {"capacity": {"nvidia.com/gpu": "8"}}},
        {"metadata": {"labels": {"zone": "y"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"annotations": {"kept": "another"}}},
        {"metadata": {"annotations": {"kept": None}}},
        {"metadata": {"annotations": {"gpufleet.io/mig-layout-states": "{}"}}},
    ]
    # A new policy counts some seconds after it was made.
    until(lambda: scheduler.ask("PATCH", f"{PATH}?dryRun=All", refused[0], STRATEGIC)[0] == 403)
    for body in refused:
        code, answer = scheduler.ask("PATCH", PATH, body, STRATEGIC)
        assert (code, "gpufleet-scheduler-node-status" in answer["message"]) == (403, True), body
    assert scheduler.ask("PATCH", PATH, conditions(KEPT), STRATEGIC)[0] == 200
    layouts = {"gpufleet.io/mig-layouts": '{"GPU-a": null}', "gpufleet.io/mig-layout-demand": "{}"}
    code, answer = scheduler.ask("PATCH", PATH, {"metadata": {"annotations": layouts}}, STRATEGIC)
    assert code == 200
    assert answer["metadata"]["annotations"].items() >= {"kept": "one", **layouts}.items()
    over = {**OURS, "status": "False"}
    assert scheduler.ask("PATCH", PATH, conditions(over), STRATEGIC)[0] == 200
