"""`gpufleet up --real-node --mig`: a container gets its instance alone, and a guide's ConfigMap counts there.

The GPUs are simulated; the kubelet, containerd and the agent are real.
"""

from collections.abc import Iterator

import pytest

from gpufleet.cli import main as cli
from gpufleet.localkube import persistent
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node_agent import await_resource
from tests.guides.guide_files import diagnosed, explained, kubectl
from tests.localkube.cluster import real_node_programs
from tests.localkube.real_node import a_pod, await_pod, awaited, delete_pod, logs
from tests.localkube.test_persistent import up

INSTANCES = 7
INSTANCE = "nvidia.com/mig-1g.10gb"
CONFIG = "nvidia-device-plugin-config"
REPORT = f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
TELL = "echo given $GPUFLEET_DEVICES; echo variable $NVIDIA_VISIBLE_DEVICES; exec sleep 100000"


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A real node alone, with one GPU in seven instances."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        real_node_programs()
        done = up("--real-node", "--nodes=0", "--gpus-per-node=1", f"--mig={INSTANCES}x1g.10gb", "--name=cut")
        assert done.returncode == 0, done.stderr
        yield persistent.running("cut")
        assert cli.main(["down", "--name=cut"]) == 0


def create(cluster: LocalCluster, name: str, count: int = 1) -> None:
    """A pod as a user writes it, which asks for so many instances."""
    pod = a_pod(name, TELL, {"limits": {INSTANCE: str(count)}}, nodeName="")
    with cluster.api() as api:
        api.call("POST", "/api/v1/namespaces/default/pods", pod)


def given(cluster: LocalCluster, name: str) -> list[str]:
    """The devices that the container of a pod was given, as it tells them."""
    await_pod(cluster, name, "Running")
    lines = awaited("both lines", lambda: told(cluster, name))
    assert lines[1].split() == ["variable", "void"]
    return lines[0].split()[1].split(",")


def told(cluster: LocalCluster, name: str) -> list[str]:
    """Both lines; none before."""
    lines = logs(cluster, name).splitlines()
    return lines if len(lines) == 2 else []


def holders(cluster: LocalCluster) -> list[Object]:
    """What the node's agent reports as held."""
    with cluster.api() as api:
        found: list[Object] = api.call("GET", REPORT)["spec"].get("holders", [])
    return found


def share(cluster: LocalCluster, resource: str) -> None:
    """Apply a guide's ConfigMap, which says nothing of MIG beside the name of the resource."""
    text = f"version: v1\nsharing: {{timeSlicing: {{resources: [{{name: {resource}, replicas: 2}}]}}}}"
    kubectl(cluster, "delete", "configmap", "-n", "kube-system", CONFIG, "--ignore-not-found")
    kubectl(cluster, "create", "configmap", "-n", "kube-system", CONFIG, f"--from-literal=any={text}")


def said(cluster: LocalCluster, words: str) -> str:
    """The Event of the agent that has these words; empty before."""
    with cluster.api() as api:
        notes = [str(one["note"]) for one in api.call("GET", EVENTS)["items"]]
    return next((note for note in notes if words in note), "")


def test_each_container_has_one_instance_and_what_does_not_fit_is_told(cut: LocalCluster) -> None:
    names = [f"mig-{number}" for number in range(INSTANCES)]
    for name in names:
        create(cut, name)
    devices = [given(cut, name) for name in names]
    assert all(len(one) == 1 and one[0].startswith("MIG-") for one in devices)
    assert len({one for (one,) in devices}) == INSTANCES
    awaited("all are reported", lambda: len(holders(cut)) == INSTANCES)
    assert {one["migStart"] for one in holders(cut)} == set(range(INSTANCES))
    create(cut, "greedy", INSTANCES + 1)
    words = f"it needs 8 of {INSTANCE}, and the most that a node that would do offers is 7"
    awaited("why it waits", lambda: words in explained(cut, "greedy").why)
    assert f"asks for 8 {INSTANCE}" in awaited("it is found", lambda: diagnosed(cut).get("fits-nowhere", ""))
    for name in (*names, "greedy"):
        delete_pod(cut, name)


def test_a_config_map_that_names_whole_gpus_changes_nothing_and_the_doctor_says_why(
    cut: LocalCluster,
) -> None:
    share(cut, "nvidia.com/gpu")
    note = awaited("the agent tells it", lambda: said(cut, "this node has no device of that name"))
    assert f"as its GPUs are cut into {INSTANCE}" in note
    await_resource(cut, INSTANCE, INSTANCES)
    found = diagnosed(cut)["sharing-config-refused"]
    assert f"ConfigMap kube-system/{CONFIG} shares nvidia.com/gpu, which no node offers" in found


def test_a_config_map_that_names_the_instances_has_them_shared(cut: LocalCluster) -> None:
    share(cut, INSTANCE)
    await_resource(cut, INSTANCE, 2 * INSTANCES)
    assert "sharing-config-refused" not in diagnosed(cut)
    create(cut, "turn")
    (device,) = given(cut, "turn")
    assert device.partition("::")[0].startswith("MIG-")
    assert device.partition("::")[2] in {"0", "1"}
    delete_pod(cut, "turn")
    kubectl(cut, "delete", "configmap", "-n", "kube-system", CONFIG)
    await_resource(cut, INSTANCE, INSTANCES)
