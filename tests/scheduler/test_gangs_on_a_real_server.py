"""A gang from every source, on a real server, with the rights that the scheduler really has.

All but one of the members come first, then a pod that stands alone; when that one is placed the
scheduler has seen the others, and must have placed none of them. The last member then starts all.
"""

from collections.abc import Iterator

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.access.api import Api, Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.gang_sources import SOURCES, Source, definition
from tests.scheduler.real_scheduler import PODS, node_of, scheduler_at_work
from tests.waiting import until

NATIVE = "scheduling.k8s.io/v1beta1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with nodes, every kind of group, and the scheduler at work."""
    # Nobody may clean up after owners that only stand for what another controller makes.
    flags = {"kube-controller-manager": ("--controllers=*,-garbage-collector-controller",)}
    options = Options(kubernetes=KUBERNETES, flags=flags)
    with a_cluster(tmp_path_factory.mktemp("gangs"), options=options) as running:
        with running.api() as api:
            manifests.install(api)
            for source in SOURCES:
                if source.kind and source.api_version != NATIVE:
                    body = definition(source.api_version, source.kind)
                    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                    api.call("POST", path, body)
            await_served(api)
        simulated_nodes.create(running, SimulatedNodes(8, 8, gpu_model("H100-80GB")))
        with scheduler_at_work(running):
            yield running


def await_served(api: Api) -> None:
    """Return when every kind that was defined can be created."""
    paths = [group_path(source) for source in SOURCES if source.kind]
    until(lambda: all(api.request("GET", path)[0] == 200 for path in paths))


def group_path(source: Source) -> str:
    return f"/apis/{source.api_version}/namespaces/default/{source.kind.lower()}s"


def alone(name: str) -> Object:
    return Source(name).pods("")[0]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_no_member_is_placed_before_the_last_one_came(cluster: LocalCluster, source: Source) -> None:
    with cluster.api() as api:
        group = source.group()
        uid = "00000000-0000-0000-0000-000000000001"
        if group is not None:
            uid = api.call("POST", group_path(source), group)["metadata"]["uid"]
        *early, last = source.pods(uid)
        for pod in early:
            api.call("POST", PODS, pod)
        witness = alone(f"{source.name}-alone")
        api.call("POST", PODS, witness)
        until(lambda: node_of(api, witness["metadata"]["name"]) != "")
        names = [pod["metadata"]["name"] for pod in (*early, last)]
        assert [node_of(api, name) for name in names[:-1]] == ["", ""]
        api.call("POST", PODS, last)
        until(lambda: all(node_of(api, name) for name in names))
