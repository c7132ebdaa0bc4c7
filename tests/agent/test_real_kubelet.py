"""On a real kubelet and containerd: a pod sees the devices of its grant and no others, as it tells itself.

The agent runs beside them with four simulated GPUs, whose device nodes are made from /dev/null. Below
containerd is a stand-in for NVIDIA's runtime, which gives every GPU to a container that says so.
"""

import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpufleet.cli.up import components
from gpufleet.kube.codec.grant import write_grant
from gpufleet.kube.manifests import DEFAULT_IDENTITY, MUTATING_POLICIES_SINCE
from gpufleet.localkube import manifests
from gpufleet.localkube.access.api import Api, Object, tls_context
from gpufleet.localkube.access.certificates import Authority, write_private
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import Options
from gpufleet.localkube.node.agent_program import NAME, machine_file
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node.real_node import AGENT
from gpufleet.localkube.node_agent import SHARING, SYSTEM, await_resource, start_agent
from gpufleet.localkube.processes import plan
from gpufleet.localkube.programs.releases import minor_version
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId
from tests.agent.nvidia_runtime import GPUS, write_runtime
from tests.localkube.cluster import KUBERNETES, all_programs, real_node_programs
from tests.localkube.real_node import (
    PODS,
    a_pod,
    await_end,
    await_pod,
    awaited,
    delete_pod,
    get_pod,
    logs,
    processes_of,
    run_pod,
)

GPU = "nvidia.com/gpu"
MACHINE = f"""
gpus:
- {{model: H100-80GB, count: {GPUS}, numaNodes: 2}}
- model: A100-40GB
  mig: [{", ".join(f"{{profile: 1g.5gb, start: {start}}}" for start in range(4))}]
"""
INSTANCE = "nvidia.com/mig-1g.5gb"
CUT = f"""
gpus:
- model: A100-40GB
  count: {GPUS + 1}
  mig: [{", ".join(f"{{profile: 3g.20gb, start: {start}}}" for start in (0, 4))}]
"""
MIXED = "{version: v1, flags: {migStrategy: mixed}}"
TWICE = "{timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}"
TURNS = f"{{version: v1, flags: {{migStrategy: mixed}}, sharing: {TWICE}}}"
SINGLE = "{version: v1, flags: {migStrategy: single, plugin: {deviceListStrategy: cdi-cri}}}"
BY_US: Object = {"nodeName": "", "schedulerName": "gpufleet", "nodeSelector": {"type": "real"}}
TELL = (
    "echo devices $(cd /dev; ls -d nvidia[0-9]* 2> /dev/null); "
    "echo variable $NVIDIA_VISIBLE_DEVICES; "
    "echo given $GPUFLEET_DEVICES; "
)
SLEEP = "exec sleep 100000"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with a real node, its agent, and our scheduler."""
    folder = tmp_path_factory.mktemp("real")
    real_node_programs()
    options = Options(kubernetes=KUBERNETES, real_node=True)
    programs = dict(all_programs(options))
    programs["runc"] = write_runtime(folder / "runc", programs["runc"])
    with LocalCluster.start(folder / "c", "c", programs, options, components=components()) as running:
        with running.api() as api:
            running.node.await_ready(api)
            manifests.install(api)
        running.furnished()
        start_agent(running, MACHINE)
        await_resource(running, GPU, GPUS)
        for component in components():
            running.await_component(component)
        yield running


def asking(count: int) -> Object:
    return {"limits": {GPU: str(count)}}


def told(cluster: LocalCluster, name: str) -> dict[str, list[str]]:
    """What a pod's container said of what it sees."""
    lines = awaited(f"the words of {name}", lambda: said(cluster, name), lambda: repr(logs(cluster, name)))
    return {line.split()[0]: re.split("[ ,]", line.strip())[1:] for line in lines}


def said(cluster: LocalCluster, name: str) -> list[str]:
    """All three lines; none before."""
    lines = logs(cluster, name).splitlines()
    return lines if len(lines) == 3 else []


def settled(cluster: LocalCluster, name: str) -> list[int]:
    """The processes of a pod that runs, once those with whose help it told what it sees have ended."""
    pod = await_pod(cluster, name, "Running")
    told(cluster, name)
    return processes_of(pod)


def granted(cluster: LocalCluster, name: str) -> list[str]:
    """The GPUs of a pod's grant."""
    pod = get_pod(cluster, name) or {}
    grant = msgspec.json.decode(pod["metadata"]["annotations"]["gpufleet.io/grant"])
    return sorted(device["id"] for devices in grant["containers"].values() for device in devices)


def numbered(cluster: LocalCluster) -> dict[str, str]:
    """The whole GPUs that the node reports, and how containers know them."""
    with cluster.api() as api:
        report = api.call("GET", f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}")
    return {device["id"]: f"nvidia{index}" for index, device in enumerate(report["spec"]["devices"][:GPUS])}


def test_each_pod_that_we_place_sees_exactly_its_grant(real: LocalCluster) -> None:
    names = {"one": 1, "two": 2, "other": 1}
    for name, count in names.items():
        run_pod(real, name, TELL + SLEEP, asking(count), **BY_US)
    known = numbered(real)
    seen = []
    for name, count in names.items():
        await_pod(real, name, "Running")
        its = told(real, name)
        assert sorted(its["given"]) == granted(real, name)
        assert its["devices"] == sorted(known[device] for device in its["given"])
        assert its["variable"] == ["void"]
        assert len(its["devices"]) == count
        seen += its["devices"]
    assert sorted(seen) == sorted(known.values())
    for name in names:
        delete_pod(real, name)


def test_who_helps_himself_by_the_environment_sees_no_more(real: LocalCluster) -> None:
    its = what_the_greedy_sees(real)
    assert its["devices"] == [numbered(real)[device] for device in granted(real, "greedy")]
    assert its["variable"] == ["void"]
    delete_pod(real, "greedy")


def what_the_greedy_sees(cluster: LocalCluster, **container: Any) -> dict[str, list[str]]:
    """What a pod sees that names all devices beside the one that it asks for; other fields may be set."""
    with cluster.api() as api:
        body = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "nvidia"},
            "handler": "nvidia",
        }
        api.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", body)
    greedy = a_pod("greedy", TELL, asking(1), **BY_US, runtimeClassName="nvidia")
    greedy["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    greedy["spec"]["containers"][0] |= container
    with cluster.api() as api:
        api.call("POST", PODS, greedy)
    assert await_end(cluster, "greedy") == 0
    return told(cluster, "greedy")


@pytest.mark.skipif(minor_version(KUBERNETES) < MUTATING_POLICIES_SINCE, reason="no MutatingAdmissionPolicy")
def test_without_a_gpu_what_a_config_map_names_shows_none(real: LocalCluster) -> None:
    """As an image does that names all devices itself."""
    with real.api() as api:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "all"}}
        data = {"NVIDIA_VISIBLE_DEVICES": "all"}
        api.call("POST", "/api/v1/namespaces/default/configmaps", {**body, "data": data})
    taken = [{"configMapRef": {"name": "all"}}]
    its = what_the_greedy_sees(real, env=[], envFrom=taken, resources={})
    assert (its["devices"], its["variable"]) == ([], ["void"])
    delete_pod(real, "greedy")


def test_after_a_config_of_nvidias_plugin_was_taken_over_nobody_sees_more_either(real: LocalCluster) -> None:
    """Its default is to tell devices by the variable, in which a pod's own value would win."""
    path = f"/api/v1/namespaces/{SYSTEM}/configmaps/{SHARING}"
    kind, known = "application/merge-patch+json", numbered(real)
    with real.api() as api:
        api.call("PATCH", path, {"data": {"default": TURNS}}, kind)
    await_resource(real, GPU, 2 * GPUS)
    its = what_the_greedy_sees(real)
    (replica,) = its["given"]
    assert its["devices"] == [known[replica.partition("::")[0]]]
    assert its["variable"] == ["void"]
    delete_pod(real, "greedy")
    with real.api() as api:
        api.call("PATCH", path, {"data": {"default": MIXED}}, kind)
    await_resource(real, GPU, GPUS)


def test_a_pod_without_a_grant_gets_what_is_free(real: LocalCluster) -> None:
    run_pod(real, "placed", TELL + SLEEP, asking(3), **BY_US)
    await_pod(real, "placed", "Running")
    run_pod(real, "stranger", TELL + SLEEP, asking(1))
    await_pod(real, "stranger", "Running")
    placed, stranger = told(real, "placed")["devices"], told(real, "stranger")["devices"]
    assert sorted(placed + stranger) == sorted(numbered(real).values())
    delete_pod(real, "placed")
    delete_pod(real, "stranger")


@contextmanager
def kubelet_paused(cluster: LocalCluster) -> Iterator[None]:
    """A block of which the kubelet learns everything at once afterwards, in order."""
    kubelet = cluster.node.pid("kubelet")
    os.kill(kubelet, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(kubelet, signal.SIGCONT)


def bind_as_the_scheduler(
    cluster: LocalCluster, name: str, devices: Sequence[GrantedDevice], folder: Path
) -> None:
    """Place a pod with a grant; the scheduler itself would not, since a stranger is there already."""
    authority = Authority.load(cluster.authority.read_bytes(), (cluster.folder / "ca.key").read_bytes())
    identity = authority.client(DEFAULT_IDENTITY.user, DEFAULT_IDENTITY.groups)
    (folder / "crt").write_bytes(identity.certificate)
    write_private(folder / "key", identity.key)
    with cluster.api() as api:
        lease = (
            f"/apis/coordination.k8s.io/v1/namespaces/{DEFAULT_IDENTITY.namespace}/leases/gpufleet-scheduler"
        )
        epoch = int(api.call("GET", lease)["spec"].get("leaseTransitions", 0))
    grant = write_grant(Grant(epoch, (ContainerGrant("main", tuple(devices)),)))
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME}
    metadata = {"name": name, "annotations": {"gpufleet.io/grant": grant}}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    port = int(cluster.url.rpartition(":")[2])
    with Api(port, tls_context(cluster.authority, folder / "crt", folder / "key")) as api:
        api.call("POST", f"{PODS}/{name}/binding", body)


def test_a_pod_without_a_grant_is_refused_what_is_granted(real: LocalCluster, tmp_path: Path) -> None:
    everything = list(numbered(real))
    with kubelet_paused(real):
        run_pod(real, "stranger", TELL, asking(1))
        run_pod(real, "placed", TELL + SLEEP, asking(GPUS), nodeName="", schedulerName="another")
        bind_as_the_scheduler(real, "placed", [GrantedDevice(DeviceId(one)) for one in everything], tmp_path)
    refused = await_pod(real, "stranger", "Failed")
    assert refused["status"]["reason"] == "UnexpectedAdmissionError"
    assert "granted to default/placed" in refused["status"]["message"]
    await_pod(real, "placed", "Running")
    assert sorted(told(real, "placed")["given"]) == sorted(everything)
    delete_pod(real, "placed")
    delete_pod(real, "stranger")


def test_a_granted_instance_is_the_one_at_its_place(real: LocalCluster, tmp_path: Path) -> None:
    spec = msgspec.json.decode((real.node.cdi_dir / "gpufleet.io-gpu-nvidia.json").read_bytes())
    card, *instances = [device["name"] for device in spec["devices"][GPUS:]]
    wanted = GrantedDevice(DeviceId(card), GrantKind.MIG, mig_profile="1g.5gb", mig_start=2)
    limits = {"limits": {INSTANCE: "1"}}
    run_pod(real, "sliced", TELL, limits, nodeName="", schedulerName="another")
    bind_as_the_scheduler(real, "sliced", [wanted], tmp_path)
    assert await_end(real, "sliced") == 0
    assert told(real, "sliced")["given"] == [instances[2]]
    assert told(real, "sliced")["devices"] == [f"nvidia{GPUS}"]
    delete_pod(real, "sliced")


def registrations(cluster: LocalCluster) -> int:
    """How often an agent has made whole GPUs known to a kubelet."""
    log = cluster.folder / plan.LOGS / f"{NAME}.log"
    lines = log.read_text(encoding="utf-8").splitlines()
    return sum("registered with the kubelet" in line and f'"{GPU}"' in line for line in lines)


def test_after_a_restart_of_the_kubelet_devices_are_back_and_pods_as_they_were(real: LocalCluster) -> None:
    run_pod(real, "steady", TELL + SLEEP, asking(2), **BY_US)
    before = settled(real, "steady")
    known = registrations(real)
    real.node.restart_kubelet()
    # What the node said before counts in the API for a while; the kubelet itself knows of no device yet.
    awaited("another registration", lambda: registrations(real) > known)
    run_pod(real, "later", TELL, asking(2), **BY_US)
    assert await_end(real, "later") == 0
    seen = told(real, "later")["devices"] + told(real, "steady")["devices"]
    assert sorted(seen) == sorted(numbered(real).values())
    assert processes_of(await_pod(real, "steady", "Running")) == before
    delete_pod(real, "steady")
    delete_pod(real, "later")


def test_an_agent_that_is_killed_is_back_and_pods_are_as_they_were(real: LocalCluster) -> None:
    run_pod(real, "steady", TELL + SLEEP, asking(2), **BY_US)
    before = settled(real, "steady")
    known = registrations(real)
    real.node.restart(AGENT)
    awaited("another registration", lambda: registrations(real) > known)
    run_pod(real, "later", TELL, asking(2), **BY_US)
    assert await_end(real, "later") == 0
    seen = told(real, "later")["devices"] + told(real, "steady")["devices"]
    assert sorted(seen) == sorted(numbered(real).values())
    assert processes_of(await_pod(real, "steady", "Running")) == before
    delete_pod(real, "steady")
    delete_pod(real, "later")


Places = set[tuple[str, str, int]]
"""Instances by card, profile and start."""


def granted_places(cluster: LocalCluster, name: str) -> Places:
    pod = get_pod(cluster, name) or {}
    containers = msgspec.json.decode(pod["metadata"]["annotations"]["gpufleet.io/grant"])["containers"]
    its = [device for devices in containers.values() for device in devices]
    assert {one["kind"] for one in its} == {"mig"}
    return {(one["id"], one["migProfile"], one["migStart"]) for one in its}


def held_places(cluster: LocalCluster) -> dict[str, Places]:
    """What each pod holds by the node's report, by its UID."""
    with cluster.api() as api:
        report = api.call("GET", f"/apis/gpufleet.io/v1alpha1/nodedevices/{NODE_NAME}")["spec"]
    listed = {one["id"] for one in report["devices"]}
    found: dict[str, Places] = {}
    for one in report.get("holders", []):
        card, _, place = one["device"].partition("::")
        assert one["device"] in listed
        assert place == f"{one['migProfile']}@{one['migStart']}"
        found.setdefault(one["podUID"], set()).add((card, one["migProfile"], one["migStart"]))
    return found


def instances_of(cluster: LocalCluster) -> dict[tuple[str, str, int], str]:
    """The ids of the instances as containers know them, by their places."""
    spec = msgspec.json.decode((cluster.node.cdi_dir / "gpufleet.io-gpu-nvidia.json").read_bytes())
    names = [device["name"] for device in spec["devices"]]
    cards = [at for at, name in enumerate(names) if name.startswith("GPU-")]
    return {
        (names[at], "3g.20gb", start): names[at + 1 + number]
        for at in cards
        for number, start in enumerate((0, 4))
    }


def test_with_strategy_single_pods_that_we_place_get_instances_as_gpus(real: LocalCluster) -> None:
    """The last one: the node has other cards from here on."""
    machine_file(real.folder).write_text(CUT, encoding="utf-8")
    with real.api() as api:
        path = f"/api/v1/namespaces/{SYSTEM}/configmaps/{SHARING}"
        api.call("PATCH", path, {"data": {"default": SINGLE}}, "application/merge-patch+json")
    real.node.restart(AGENT)
    await_resource(real, GPU, 2 * (GPUS + 1))
    uids = {}
    for name, count in {"two": 2, "one": 1}.items():
        run_pod(real, name, TELL + SLEEP, asking(count), **BY_US)
        uids[name] = await_pod(real, name, "Running")["metadata"]["uid"]
    known = instances_of(real)
    for name, count in {"two": 2, "one": 1}.items():
        its = granted_places(real, name)
        assert len(its) == count
        assert sorted(told(real, name)["given"]) == sorted(known[place] for place in its)
    expected = {uids[name]: granted_places(real, name) for name in ("two", "one")}
    awaited("the report says who holds what", lambda: held_places(real) == expected)
    run_pod(real, "rest", TELL + SLEEP, asking(2 * (GPUS + 1) - 1), **BY_US)
    delete_pod(real, "two")
    await_pod(real, "rest", "Running")
    assert granted_places(real, "rest") == set(known) - granted_places(real, "one")
    awaited("what was released is held anew", lambda: uids["two"] not in held_places(real))
    delete_pod(real, "one")
    delete_pod(real, "rest")
