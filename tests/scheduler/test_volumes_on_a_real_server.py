"""Pods with claims on a real server, with its own volume controller and a small provisioner of ours."""

from collections.abc import Iterator

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import PODS, node_of, scheduler_at_work, why
from tests.scheduler.storage import (
    CLAIMS,
    CLASSES,
    MAKER,
    VOLUMES,
    Provisioner,
    claim,
    storage_class,
    volume,
)
from tests.waiting import until

NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two zones of two nodes, and the scheduler at work."""
    options = Options(kubernetes=KUBERNETES)
    with a_cluster(tmp_path_factory.mktemp("volumes"), options=options) as running:
        with running.api() as api:
            manifests.install(api)
            api.call("POST", CLASSES, storage_class("local", NO_PROVISIONER))
            api.call("POST", CLASSES, storage_class("made", MAKER))
        for zone in ("a", "b"):
            labels = ((ZONE, zone),)
            model = gpu_model("H100-80GB")
            simulated_nodes.create(running, SimulatedNodes(2, 4, model, prefix=f"{zone}-", labels=labels))
        with scheduler_at_work(running):
            yield running


@pytest.fixture
def api(cluster: LocalCluster) -> Iterator[Api]:
    with cluster.api() as api:
        yield api


def pod_with(name: str, *claims: str, gpus: int = 1) -> Object:
    limits = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    container = {"name": "main", "image": "train", "resources": {"limits": limits}}
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    spec = {"schedulerName": "gpufleet", "containers": [container], "volumes": volumes}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def bound_volume(api: Api, name: str) -> str:
    found: Object = api.call("GET", f"{CLAIMS}/{name}")
    return str(found["spec"].get("volumeName", "")) if found["status"].get("phase") == "Bound" else ""


def test_a_local_volume_draws_its_pod_to_its_node_and_is_given_to_the_claim(api: Api) -> None:
    api.call("POST", VOLUMES, volume("disk-b-002", "local", HOST, "b-002"))
    api.call("POST", CLAIMS, claim("data", "local"))
    api.call("POST", PODS, pod_with("on-local", "data"))
    until(lambda: node_of(api, "on-local") == "b-002")
    assert bound_volume(api, "data") == "disk-b-002"


def test_a_volume_is_made_where_the_pod_goes(cluster: LocalCluster, api: Api) -> None:
    with Provisioner(cluster):
        api.call("POST", CLAIMS, claim("scratch", "made"))
        api.call("POST", PODS, pod_with("on-made", "scratch"))
        until(lambda: node_of(api, "on-made") != "")
    made = api.call("GET", f"{VOLUMES}/{bound_volume(api, 'scratch')}")
    term = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]
    assert term["matchExpressions"][0]["values"] == [node_of(api, "on-made")]


def test_a_node_that_the_provisioner_turns_down_is_not_asked_again_at_once(
    cluster: LocalCluster, api: Api
) -> None:
    with Provisioner(cluster) as maker:
        maker.full = {"a-001", "a-002", "b-001"}
        api.call("POST", CLAIMS, claim("picky", "made"))
        api.call("POST", PODS, pod_with("on-picky", "picky"))
        until(lambda: node_of(api, "on-picky") == "b-002")
    assert len(maker.turned_down) <= 3


def test_a_claim_in_a_zone_keeps_its_pod_there(api: Api) -> None:
    zonal = volume("zonal", "zonal", ZONE, "b")
    zonal["spec"]["claimRef"] = {"namespace": "default", "name": "in-b"}
    api.call("POST", CLASSES, storage_class("zonal", NO_PROVISIONER, "Immediate"))
    api.call("POST", VOLUMES, zonal)
    api.call("POST", CLAIMS, claim("in-b", "zonal"))
    until(lambda: bound_volume(api, "in-b") == "zonal")
    api.call("POST", PODS, pod_with("in-b", "in-b"))
    until(lambda: node_of(api, "in-b").startswith("b-"))


def test_a_volume_for_one_pod_alone_makes_the_second_wait_with_that_reason(api: Api) -> None:
    api.call("POST", VOLUMES, volume("single", "local", HOST, "a-001", "ReadWriteOncePod"))
    api.call("POST", CLAIMS, claim("single", "local", "ReadWriteOncePod"))
    api.call("POST", PODS, pod_with("first", "single"))
    until(lambda: node_of(api, "first") == "a-001")
    api.call("POST", PODS, pod_with("second", "single"))
    until(lambda: why(api, "second") != "")
    assert "1 ruled out because another pod uses a claim that is for one pod at a time" in why(api, "second")
    api.call("DELETE", f"{PODS}/first", {"gracePeriodSeconds": 0})
    until(lambda: node_of(api, "second") == "a-001")


def test_a_claim_that_does_not_exist_is_named_and_waited_for(api: Api) -> None:
    api.call("POST", VOLUMES, volume("disk-a-002", "local", HOST, "a-002"))
    api.call("POST", PODS, pod_with("early", "late"))
    until(lambda: "late" in why(api, "early"))
    api.call("POST", CLAIMS, claim("late", "local"))
    until(lambda: node_of(api, "early") == "a-002")
