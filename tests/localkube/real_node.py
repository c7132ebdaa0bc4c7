"""Verbs for tests on a real node: run a pod there, read what it printed, and see what is left on the machine.

    with a_cluster(tmp_path, real_node=True) as cluster:
        run_pod(cluster, "p", "echo $HOSTNAME")
        assert await_end(cluster, "p") == 0
        assert logs(cluster, "p").strip() == "p"

A pod that names its node itself needs no scheduler; ``run_pod(..., schedulerName=..., nodeName="")`` does.
One that asks for devices may not name its node: it is bound by hand, as another scheduler would bind it.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from gpufleet.localkube.access.api import Object
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.node import cgroups, images
from gpufleet.localkube.node.configuration import NODE_NAME
from gpufleet.localkube.node.network import NodeNetwork
from tests.waiting import pause_after

WAIT_S = 60.0
PODS = "/api/v1/namespaces/default/pods"
# At once: a shell as process 1 does not listen to a polite request.
AT_ONCE = {"gracePeriodSeconds": 0}

Value = TypeVar("Value")


def a_pod(name: str, script: str, resources: Object | None = None, **spec: Any) -> Object:
    """A pod that runs a shell script once; without other word on the real node."""
    metadata: Object = {"name": name}
    metadata |= {key: spec.pop(key) for key in ("annotations", "labels") if key in spec}
    container = {
        "name": "main",
        "image": images.BUSYBOX,
        "command": ["sh", "-c", script],
        "resources": resources or {},
    }
    its = {"nodeName": NODE_NAME, "restartPolicy": "Never", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": its}


def run_pod(
    cluster: LocalCluster, name: str, script: str, resources: Object | None = None, **spec: Any
) -> Object:
    """Create such a pod; ``spec`` are fields of its spec, or annotations or labels."""
    pod = a_pod(name, script, resources, **spec)
    devices = any("/" in one for one in (resources or {}).get("limits", {}))
    node = pod["spec"]["nodeName"]
    with cluster.api() as api:
        if not (devices and node):
            return api.call("POST", PODS, pod)
        pod["spec"] |= {"nodeName": "", "schedulerName": "another"}
        made = api.call("POST", PODS, pod)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        api.call("POST", f"{PODS}/{name}/binding", binding)
        return made


def get_pod(cluster: LocalCluster, name: str) -> Object | None:
    """The pod as it is now, None if it is gone."""
    with cluster.api() as api:
        status, body = api.request("GET", f"{PODS}/{name}")
    return msgspec.json.decode(body) if status == 200 else None


def await_pod(cluster: LocalCluster, name: str, phase: str) -> Object:
    """The pod when it has come to this phase."""

    def there() -> Object | None:
        pod = get_pod(cluster, name)
        return pod if pod is not None and pod["status"].get("phase") == phase else None

    return awaited(f"{name} is {phase}", there, lambda: str(get_pod(cluster, name)))


def await_end(cluster: LocalCluster, name: str) -> int:
    """The exit code of the pod's container."""

    def code() -> tuple[int] | None:
        pod = get_pod(cluster, name) or {"status": {}}
        states = [one["state"] for one in pod["status"].get("containerStatuses", [])]
        ended = [(int(state["terminated"]["exitCode"]),) for state in states if "terminated" in state]
        return ended[0] if ended else None

    return awaited(f"{name} has ended", code, lambda: str(get_pod(cluster, name)))[0]


def logs(cluster: LocalCluster, name: str) -> str:
    """What the pod's container printed, as the API server has it from the kubelet."""
    with cluster.api() as api:
        status, body = api.request("GET", f"{PODS}/{name}/log")
    assert status == 200, body
    return body.decode()


def delete_pod(cluster: LocalCluster, name: str) -> None:
    """Delete a pod and return when it is gone, and its containers with it."""
    pod = get_pod(cluster, name)
    with cluster.api() as api:
        api.call("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 1})
    awaited(f"{name} is gone", lambda: get_pod(cluster, name) is None)
    if pod is not None:
        awaited(f"{name} has no process", lambda: not processes_of(pod))


def processes_of(pod: Object) -> list[int]:
    """The processes of a pod's containers, seen from the machine."""
    group = f"pod{pod['metadata']['uid']}"
    found = []
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            text = path.read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if group in text:
            found.append(int(path.parent.name))
    return found


def awaited(
    what: str, look: Callable[[], Value | None], story: Callable[[], str] = str, wait_s: float = WAIT_S
) -> Value:
    """What ``look`` finds as soon as it finds something; fails with the story where it does not."""
    began_s = time.monotonic()
    while True:
        found = look()
        if found:
            return found
        waited_s = time.monotonic() - began_s
        assert waited_s < wait_s, f"never came true: {what}; {story()}"
        time.sleep(pause_after(waited_s))


SHARED_FOLDERS = ("/run", "/var/lib", "/var/log", "/opt", "/etc", "/usr/libexec", "/var/lib/cni")
KERNEL_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
)


def machine_now() -> dict[str, object]:
    """What of this machine a real node could have touched, but for what is named after its number."""
    folders = [Path(folder) for folder in SHARED_FOLDERS]
    entries = {str(entry) for folder in folders if folder.exists() for entry in folder.iterdir()}
    settings = {name: Path("/proc/sys", name).read_text(encoding="ascii") for name in KERNEL_SETTINGS}
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
    return {"files": entries, "settings": settings, "mounts": mounts}


def traces_of(network: NodeNetwork, folder: Path) -> list[str]:
    """What is there of a cluster with a real node: processes, bridge, control groups, files."""
    found = [str(path) for path in (folder, folder.with_name(f"{folder.name}.lock")) if path.exists()]
    found += [str(path) for path in Path("/sys/class/net").glob(network.bridge)]
    groups = [hierarchy / network.control_group for hierarchy in cgroups.hierarchies()]
    found += [str(group) for group in groups if group.exists()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = (process / "cgroup").read_text(encoding="utf-8")
            where = (process / "cwd").readlink()
        except OSError:
            continue
        if str(folder) in told or f"/{network.control_group}/" in place or where == folder:
            found.append(f"process {process.name}: {told}")
    return found
