"""A real node runs what is placed on it, turns away what is too much for it, and leaves nothing behind."""

import os
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpufleet.cli import main as cli
from gpufleet.kube.keys import GRANT
from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.localkube import persistent, simulated_nodes
from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.node import cgroups, images, machine, node_supervisor
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node.network import HeldNetwork, ip
from gpufleet.localkube.simulated_nodes import SimulatedNodes
from tests.kube.manifests.real_server import Person
from tests.localkube.cluster import KUBERNETES, a_cluster, a_scheduled_real_node, program, real_node_programs
from tests.localkube.real_node import (
    PODS,
    a_pod,
    await_end,
    await_pod,
    awaited,
    delete_pod,
    get_pod,
    logs,
    machine_now,
    processes_of,
    run_pod,
    traces_of,
)
from tests.localkube.test_cluster import alive
from tests.localkube.test_persistent import up

ON_REAL_NODE: Object = {"nodeName": "", "schedulerName": "gpufleet", "nodeSelector": {"type": "real"}}
"""Left to our scheduler, with no other node to choose."""

SLEEP = "exec sleep 100000"
GANGS = "/apis/apps/v1/namespaces/default/replicasets"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with a real node, and our scheduler at work."""
    folder = tmp_path_factory.mktemp("real")
    with a_scheduled_real_node(folder, "real") as running:
        yield running


def cpu_cores(real: LocalCluster) -> float:
    """What the real node has to give."""
    with real.api() as api:
        text = str(api.call("GET", f"/api/v1/nodes/{NODE_NAME}")["status"]["allocatable"]["cpu"])
    return int(text[:-1]) / 1000 if text.endswith("m") else float(text)


def asking_for(cores: float) -> Object:
    return {"requests": {"cpu": f"{int(cores * 1000)}m"}}


def bind_as_ours(cluster: LocalCluster, name: str) -> None:
    """What our scheduler would do that takes the node for larger than it is."""
    grant = '{"v":1,"epoch":1000,"containers":{}}'
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME}
    metadata = {"name": name, "annotations": {GRANT: grant}}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    with Person(cluster, DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups) as scheduler:
        status, answer = scheduler.ask("POST", f"{PODS}/{name}/binding", body)
    assert status == 201, answer


def bind(cluster: LocalCluster, name: str) -> None:
    """What another scheduler would do, without asking whether the pod fits."""
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    with cluster.api() as api:
        api.call("POST", f"{PODS}/{name}/binding", body)


def why(cluster: LocalCluster, name: str) -> str:
    """What the pod is told of why it waits."""
    pod = get_pod(cluster, name) or {"status": {}}
    conditions = pod["status"].get("conditions", [])
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


def test_a_pod_that_we_place_really_runs_and_goes_when_it_is_deleted(real: LocalCluster) -> None:
    script = f"echo $GREETING; nc -w 9 $KUBERNETES_SERVICE_HOST 443 </dev/null && echo reached; {SLEEP}"
    pod = a_pod("greeter", script, asking_for(0.1), **ON_REAL_NODE)
    pod["spec"]["containers"][0]["env"] = [{"name": "GREETING", "value": "good day"}]
    with real.api() as api:
        api.call("POST", PODS, pod)
    running = await_pod(real, "greeter", "Running")
    assert running["spec"]["nodeName"] == NODE_NAME
    assert awaited("its words", lambda: logs(real, "greeter").splitlines()[1:]) == ["reached"]
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes_of(running)]
    assert b"sleep\x00100000\x00" in commands
    delete_pod(real, "greeter")


def test_how_it_ended_and_what_it_said_comes_back(real: LocalCluster) -> None:
    run_pod(real, "short", "echo these are; echo its words; exit 7", **ON_REAL_NODE)
    assert await_end(real, "short") == 7
    assert await_pod(real, "short", "Failed")["spec"]["nodeName"] == NODE_NAME
    assert logs(real, "short") == "these are\nits words\n"


def test_a_restarted_kubelet_leaves_running_pods_alone(real: LocalCluster) -> None:
    run_pod(real, "steady", SLEEP)
    before = processes_of(await_pod(real, "steady", "Running"))
    kubelet = real.node.pid("kubelet")
    real.node.restart_kubelet()
    assert real.node.pid("kubelet") != kubelet
    run_pod(real, "later", "echo later")
    assert await_end(real, "later") == 0
    assert processes_of(await_pod(real, "steady", "Running")) == before
    assert (real.node.kubelet_socket_dir / "kubelet.sock").is_socket()
    assert real.node.pod_resources_socket.is_socket()
    assert real.node.cdi_dir.is_dir()
    delete_pod(real, "steady")


def test_the_kubelet_answers_to_nobody_without_a_certificate(real: LocalCluster) -> None:
    context = ssl.create_default_context(cafile=str(real.authority))
    with (
        socket.create_connection((real.node.address, 10250)) as raw,
        context.wrap_socket(raw, server_hostname=real.node.address) as connection,
    ):
        connection.sendall(b"GET /pods HTTP/1.1\r\nHost: kubelet\r\nConnection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", 10250)).close()


def test_the_address_of_the_service_leads_to_the_api_server(real: LocalCluster) -> None:
    address = real.node.spec.network.api_address
    context = ssl.create_default_context(cafile=str(real.authority))
    with (
        socket.create_connection((address, 443)) as raw,
        context.wrap_socket(raw, server_hostname=address) as connection,
    ):
        connection.sendall(b"GET /api HTTP/1.1\r\nHost: kubernetes\r\nConnection: close\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")
    with real.api() as api:
        service = api.call("GET", "/api/v1/namespaces/default/services/kubernetes")
    assert service["spec"]["clusterIP"] == address


def a_gang(cores: float) -> Object:
    """Two members that start together or not at all; their controller replaces one that is lost at once."""
    annotations = {"gpufleet.io/gang": "train", "gpufleet.io/gang-min-members": "2"}
    asked = asking_for(cores)
    its = {"schedulerName": "gpufleet", "annotations": annotations, "labels": {"gang": "train"}}
    template = a_pod("unused", SLEEP, asked, **its, restartPolicy="Always", terminationGracePeriodSeconds=0)
    del template["spec"]["nodeName"], template["metadata"]["name"]
    selector = {"matchLabels": {"gang": "train"}}
    spec = {"replicas": 2, "selector": selector, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "train"}, "spec": spec}


def members(cluster: LocalCluster) -> dict[str, tuple[str, str]]:
    """Node and phase, or the reason of its end, of each member of the gang."""
    with cluster.api() as api:
        pods = api.call("GET", f"{PODS}?labelSelector=gang=train")["items"]
    return {
        pod["metadata"]["name"]: (
            pod["spec"].get("nodeName", ""),
            pod["status"].get("reason") or pod["status"]["phase"],
        )
        for pod in pods
    }


def test_a_gang_whose_member_the_kubelet_turned_away_is_made_whole_elsewhere(real: LocalCluster) -> None:
    cores = int(cpu_cores(real))
    half_and_more = asking_for(0.6 * cores)
    model = simulated_nodes.gpu_model("H100-80GB")
    nodes = SimulatedNodes(1, 0, model, cpu_cores=cores, memory_gib=8, prefix="sim-")
    simulated_nodes.create(real, nodes)
    # Two schedulers at once: the other's pod is older, so the kubelet takes that when it sees both.
    run_pod(real, "older", SLEEP, half_and_more, nodeName="", schedulerName="another")
    with real.node.kubelet_stopped():
        awaited("a second that tells their ages apart", lambda: _older_than_now(real, "older"))
        with real.api() as api:
            api.call("POST", GANGS, a_gang(0.6 * cores))
        placed = awaited("a gang on both nodes", lambda: _whole(real, {NODE_NAME, "sim-001"}))
        bind(real, "older")
    await_pod(real, "older", "Running")
    turned_away = next(name for name, (node, _) in placed.items() if node == NODE_NAME)
    awaited("its end", lambda: members(real)[turned_away] == (NODE_NAME, "OutOfcpu"))
    simulated_nodes.create(real, SimulatedNodes(1, 0, model, cpu_cores=cores, prefix="sim-", first=2))
    repaired = awaited("a whole gang elsewhere", lambda: _whole(real, {"sim-001", "sim-002"}))
    kept = next(name for name, (node, _) in placed.items() if node == "sim-001")
    assert repaired[kept] == ("sim-001", "Running")
    with real.api() as api:
        api.call("DELETE", f"{GANGS}/train", {"propagationPolicy": "Background"})
    awaited("no members", lambda: not members(real))
    delete_pod(real, "older")


def _older_than_now(cluster: LocalCluster, name: str) -> bool:
    """Whether a pod made now would be younger; the API counts ages in seconds."""
    probe = a_pod("probe", "", nodeName="", schedulerName="nobody")
    with cluster.api() as api:
        made = api.call("POST", f"{PODS}?dryRun=All", probe)["metadata"]["creationTimestamp"]
        return bool(api.call("GET", f"{PODS}/{name}")["metadata"]["creationTimestamp"] < made)


def _whole(cluster: LocalCluster, nodes: set[str]) -> dict[str, tuple[str, str]] | None:
    """The members that live, if they are placed on these nodes."""
    living = {name: its for name, its in members(cluster).items() if its[1] in {"Pending", "Running"}}
    return living if {node for node, _ in living.values()} == nodes else None


def test_a_node_that_turns_pods_away_is_left_alone(real: LocalCluster) -> None:
    too_much = asking_for(1000)
    for number in range(3):
        run_pod(real, f"big-{number}", SLEEP, too_much, nodeName="", schedulerName="another")
        bind_as_ours(real, f"big-{number}")
        assert await_pod(real, f"big-{number}", "Failed")["status"]["reason"] == "OutOfcpu"
    run_pod(real, "careful", SLEEP, **ON_REAL_NODE)
    words = "1 with a kubelet that turned pods away lately"
    awaited("its reason", lambda: words in why(real, "careful"), lambda: why(real, "careful"))
    # The node has no taint in the API: it is us who leave it alone.
    with real.api() as api:
        assert "taints" not in api.call("GET", f"/api/v1/nodes/{NODE_NAME}")["spec"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the clusters of this test's commands."""
    real_node_programs()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "gpufleet" / "clusters"


def test_up_and_down_leave_the_machine_as_it_was(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = machine_now()
    done = up("--real-node", "--nodes=1", "--name=one", "--no-scheduler")
    assert done.returncode == 0, done.stderr
    assert f"a real node {NODE_NAME} at " in done.stderr
    cluster = persistent.running("one")
    network = cluster.node.spec.network
    run_pod(cluster, "runs", SLEEP)
    pod = await_pod(cluster, "runs", "Running")
    assert cli.main(["status"]) == 0
    shown = capsys.readouterr().out
    assert f"node {NODE_NAME} at {network.node_address}: containerd as process " in shown
    assert machine_now() == before
    assert cli.main(["down", "--name=one"]) == 0
    assert processes_of(pod) == []
    assert traces_of(network, state / "one") == []
    assert machine_now() == before


def test_a_killed_supervisor_leaves_nothing(tmp_path: Path) -> None:
    options = Options(kubernetes=KUBERNETES, simulated_nodes=False)
    with a_cluster(tmp_path, "cut", options, real_node=True) as running:
        network = running.node.spec.network
        run_pod(running, "runs", SLEEP)
        pod = await_pod(running, "runs", "Running")
        written = running.processes()
        assert written is not None
        os.kill(written.supervisor.pid, signal.SIGKILL)
        awaited("no trace", lambda: not traces_of(network, running.folder), wait_s=30)
        assert processes_of(pod) == []
        assert list(tmp_path.iterdir()) == []


def test_whatever_is_killed_the_next_command_finds_what_is_left(state: Path) -> None:
    assert up("--real-node", "--nodes=0", "--name=worst", "--no-scheduler").returncode == 0
    cluster = persistent.running("worst")
    network = cluster.node.spec.network
    run_pod(cluster, "runs", SLEEP)
    pod = await_pod(cluster, "runs", "Running")
    written = cluster.processes()
    assert written is not None
    takes_care = cluster.pid("real-node")
    os.kill(takes_care, signal.SIGSTOP)
    os.kill(written.supervisor.pid, signal.SIGKILL)
    os.kill(takes_care, signal.SIGKILL)
    awaited("no process", lambda: not processes_of(pod) and not alive(takes_care))
    assert cli.main(["down", "--name=worst"]) == 0
    assert traces_of(network, state / "worst") == []


def test_a_container_of_the_machine_starts_again_after_its_first_process_died(real: LocalCluster) -> None:
    """As after a power cut of the node alone."""
    run_pod(real, "again", SLEEP, restartPolicy="Always")
    before = processes_of(await_pod(real, "again", "Running"))
    first = node_supervisor.first_process(real.folder)
    assert first is not None
    os.kill(first, signal.SIGKILL)
    awaited("no process of before", lambda: not any(alive(pid) for pid in before))
    awaited("another process", lambda: set(processes_of(get_pod(real, "again") or {})) - set(before))


def test_without_root_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["up", "--real-node"]) == cli.ExitCode.WORLD_FAILED
    problem = machine.problem()
    assert problem is not None
    assert "needs root" in problem
    assert "leave --real-node out" in problem


def test_root_without_rights_is_told_which_are_lacking(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "status").write_text("Name:\tx\nCapEff:\t00000000a80425fb\n", encoding="ascii")
    monkeypatch.setattr(machine, "STATUS", tmp_path / "status")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert str(machine.problem()).startswith("a real node needs CAP_NET_ADMIN, CAP_SYS_ADMIN, which root")


def test_every_node_has_a_network_to_itself() -> None:
    held = [HeldNetwork.take_free() for _ in range(5)]
    try:
        networks = [one.network for one in held]
        assert len({network.number for network in networks}) == len(held)
        assert HeldNetwork.take(networks[0]) is None
        assert networks[0].node_address.startswith(networks[0].pods.removesuffix("0/24"))
    finally:
        for one in held:
            one.release()
    again = HeldNetwork.take(networks[0])
    assert again is not None
    again.release()


def test_the_pods_gateway_keeps_its_hardware_address_as_pods_come_and_go(real: LocalCluster) -> None:
    """Who remembers it, as every pod does, reaches the API server all the time."""
    bridge = real.node.spec.network.bridge
    address = Path("/sys/class/net", bridge, "address")
    before = address.read_text(encoding="ascii")
    # No device has a lower one: a bridge without an address of its own would take it.
    ip("link", "add", "gpufleetlow", "address", "02:00:00:00:00:01", "type", "veth", "peer", "gpufleetpeer")
    try:
        ip("link", "set", "gpufleetlow", "master", bridge)
        assert address.read_text(encoding="ascii") == before
    finally:
        ip("link", "delete", "gpufleetlow")
    assert address.read_text(encoding="ascii") == before


def test_a_network_of_the_machine_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    routes = tmp_path / "routes"
    # 10.213.0.0/16 is behind the device vpn0; addresses are written in the machine's order of bytes.
    lines = [
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask",
        "vpn0\t0000D50A\t0\t1\t0\t0\t0\t0000FFFF",
    ]
    routes.write_text("\n".join(lines) + "\n", encoding="ascii")
    monkeypatch.setattr("gpufleet.localkube.node.network.ROUTES", routes)
    with pytest.raises(Exception, match="networks for real nodes are taken"):
        HeldNetwork.take_free()


def test_images_are_imported_from_an_archive(real: LocalCluster, tmp_path: Path) -> None:
    archive = tmp_path / "images.tar"
    images.write_archive(program("busybox"), archive, {"example.test/mine:2": ("echo", "mine")})
    real.node.import_images(archive)
    pod = a_pod("mine", "unused")
    pod["spec"]["containers"][0] = {"name": "main", "image": "example.test/mine:2"}
    with real.api() as api:
        api.call("POST", PODS, pod)
    assert await_end(real, "mine") == 0
    assert logs(real, "mine") == "mine\n"


def groups_of_version_2(folder: Path, on: str) -> Path:
    """A hierarchy as the kernel shows it, with two controllers."""
    folder.mkdir()
    (folder / "cgroup.controllers").write_text("cpu memory\n", encoding="ascii")
    (folder / "cgroup.subtree_control").write_text(on, encoding="ascii")
    return folder


@pytest.mark.parametrize(("on", "written"), [("cpu\n", "+memory"), ("cpu memory\n", "cpu memory\n")])
def test_controllers_of_version_2_are_switched_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, on: str, written: str
) -> None:
    root = groups_of_version_2(tmp_path / "cgroup", on)
    mounts = tmp_path / "mounts"
    mounts.write_text(f"cgroup2 {root} cgroup2 rw,nosuid 0 0\nproc /proc proc rw 0 0\n", encoding="ascii")
    monkeypatch.setattr(cgroups, "MOUNTS", mounts)
    monkeypatch.setattr(cgroups, "ROOT", root)
    cgroups.create("gpufleet7")
    assert (root / "gpufleet7").is_dir()
    assert (root / "cgroup.subtree_control").read_text(encoding="ascii") == written
    cgroups.remove("gpufleet7")
    assert not (root / "gpufleet7").exists()


def test_a_busybox_that_needs_libraries_makes_no_image(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="busybox-static"):
        images.write_archive(Path(sys.executable).resolve(), tmp_path / "images.tar")
