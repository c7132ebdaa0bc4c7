"""On a real server a waiting pod is started by moving another, which runs on in the place kept for it."""

from collections.abc import Iterator

import pytest

from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from tests.defragment.test_defragment_on_a_real_server import NODES, a_pod, nodes_of, place_one
from tests.localkube.cluster import KUBERNETES, a_cluster
from tests.scheduler.real_scheduler import PODS, node_of, scheduler_at_work
from tests.waiting import until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes of two GPUs, and a scheduler that starts work by moves."""
    with a_cluster(tmp_path_factory.mktemp("moving"), options=Options(kubernetes=KUBERNETES)) as running:
        with running.api() as api:
            manifests.install(api)
            simulated_nodes.create(running, SimulatedNodes(2, 2, gpu_model("H100-80GB")))
        with scheduler_at_work(running, "--defragment-to-start=1s"):
            yield running


def test_a_pod_of_a_replica_set_makes_room_and_runs_on_elsewhere(cluster: LocalCluster) -> None:
    left, right = NODES
    with cluster.api() as api:
        place_one(api, "web", right, in_the_way=2)
        stays = a_pod(1, nodeSelector={"kubernetes.io/hostname": left})
        api.call("POST", PODS, {"metadata": {"name": "stays"}, "spec": stays})
        until(lambda: node_of(api, "stays") == left)
        api.call("POST", PODS, {"metadata": {"name": "large"}, "spec": a_pod(2)})
        until(lambda: node_of(api, "large") == right)
        until(lambda: nodes_of(api).get("web") == left)
        (web,) = [
            one for one in api.call("GET", PODS)["items"] if one["metadata"].get("labels") == {"app": "web"}
        ]
        assert '"beneficiary":"pod default/large"' in web["metadata"]["annotations"]["gpufleet.io/moved"]
