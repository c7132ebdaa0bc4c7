"""The files from which containerd, the CNI plugins and the kubelet of a real node take their settings.

`prepare` writes them into the cluster's folder before anything runs. Nothing that these programs would
leave on the machine by default is left to its default: no AppArmor profile, no rules of a packet filter,
no plugin folders. The kubelet listens on the bridge's address alone and asks the API server about each of
its callers.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from gpufleet.files.regular import read_regular
from gpufleet.localkube.access.certificates import Authority, write_private
from gpufleet.localkube.node import driver_stand_ins, images
from gpufleet.localkube.node.network import NodeNetwork
from gpufleet.localkube.node.private_view import KUBELET
from gpufleet.localkube.processes.plan import OWN_FILE_BYTES_MAX, Program, Stage

NODE_NAME = "real-1"
NODE_LABEL = "type=real"
FOLDER = "node"
SPEC_FILE = "spec.json"
CONTAINERD_FILE = "containerd.toml"
KUBELET_FILE = "kubelet.yaml"
CNI_PROGRAMS = ("bridge", "loopback", "host-local")
PROGRAMS = ("kubelet", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "busybox", *CNI_PROGRAMS)
"""What a real node needs beside the control plane's programs."""

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
# Overlays where the file system takes them; native copies always work.
SNAPSHOTTERS = ("overlayfs", "native")
KUBELET_PORT = 10250
"""The kubelet's default."""


class NodeSpec(msgspec.Struct, frozen=True):
    """What `node_supervisor` and `first_process` are told of their node."""

    name: str
    network: NodeNetwork
    programs: dict[str, str]


def prepare(cluster_folder: Path, network: NodeNetwork, binaries: Mapping[str, Path]) -> NodeSpec:
    """Write everything that the node's programs read; the cluster's keys must be there."""
    folder = cluster_folder / FOLDER
    spec = NodeSpec(NODE_NAME, network, {name: str(binaries[name]) for name in PROGRAMS})
    (folder / "cni-programs").mkdir(parents=True)
    for name in CNI_PROGRAMS:
        (folder / "cni-programs" / name).symlink_to(binaries[name])
    (folder / "cni").mkdir()
    (folder / "cni" / "10-gpufleet.conflist").write_bytes(msgspec.json.encode(_cni(network)))
    for snapshotter in SNAPSHOTTERS:
        text = _containerd(folder, binaries, snapshotter)
        (folder / f"{snapshotter}-{CONTAINERD_FILE}").write_text(text, encoding="utf-8")
    (folder / KUBELET_FILE).write_bytes(msgspec.json.encode(_kubelet(cluster_folder, network)))
    _write_certificate(cluster_folder, network)
    images.write_archive(binaries["busybox"], folder / images.ARCHIVE)
    driver_stand_ins.write_archive(images.shell_layer(binaries["busybox"]), folder / images.DRIVERS_ARCHIVE)
    (folder / SPEC_FILE).write_bytes(msgspec.json.encode(spec))
    return spec


def read_spec(cluster_folder: Path) -> NodeSpec | None:
    """What was told of the real node of this cluster; None if it has none, or was not made to the end."""
    try:
        return msgspec.json.decode(
            read_regular(cluster_folder / FOLDER / SPEC_FILE, OWN_FILE_BYTES_MAX), type=NodeSpec
        )
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def cluster_programs(folder: Path, lock: Path, api_port: int, network: NodeNetwork) -> tuple[Program, ...]:
    """What a cluster's supervisor runs for its real node."""
    module = f"{__package__}."
    node_supervisor = (sys.executable, "-m", f"{module}node_supervisor", str(folder), str(lock))
    forwarder = (sys.executable, "-m", f"{module}forwarder", network.api_address, str(api_port))
    return (
        Program("api-forwarder", forwarder, Stage.API_READY),
        Program("real-node", node_supervisor, Stage.API_READY, leashed=True),
    )


def user() -> tuple[str, tuple[str, ...]]:
    """The user and the groups as which the kubelet speaks to the API server."""
    return f"system:node:{NODE_NAME}", ("system:nodes",)


def kubelet_flags(folder: Path) -> tuple[str, ...]:
    """The kubelet's command line; all else is in its file."""
    spec = read_spec(folder.parent)
    address = () if spec is None else (f"--node-ip={spec.network.node_address}",)
    return (
        f"--config={folder / KUBELET_FILE}",
        "--kubeconfig=kubelet.kubeconfig",
        f"--hostname-override={NODE_NAME}",
        f"--node-labels={NODE_LABEL}",
        *address,
        f"--root-dir={KUBELET}",
    )


def _write_certificate(folder: Path, network: NodeNetwork) -> None:
    authority = Authority.load(
        read_regular(folder / "ca.crt", OWN_FILE_BYTES_MAX),
        read_regular(folder / "ca.key", OWN_FILE_BYTES_MAX),
    )
    identity = authority.server((NODE_NAME,), (network.node_address,))
    write_private(folder / "kubelet.crt", identity.certificate)
    write_private(folder / "kubelet.key", identity.key)


def _containerd(folder: Path, binaries: Mapping[str, Path], snapshotter: str) -> str:
    """Paths are written as JSON strings, which are strings of TOML too."""
    runtimes = "".join(_runtime(name, binaries) for name in ("runc", "nvidia"))
    return f"""version = 3
root = {_quoted(folder / "containerd")}
state = "/run/containerd/state"

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
path = {_quoted(folder / "containerd-opt")}

[plugins."io.containerd.cri.v1.images"]
snapshotter = "{snapshotter}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{images.PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
enable_cdi = true
cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
disable_apparmor = true
# Without the right to raise limits (CAP_SYS_RESOURCE) no pod could start otherwise.
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [{_quoted(folder / "cni-programs")}]
conf_dir = {_quoted(folder / "cni")}
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "runc"
{runtimes}"""


def _runtime(name: str, binaries: Mapping[str, Path]) -> str:
    """One that pods may ask for by a RuntimeClass; nvidia is there by name, and does what runc does."""
    table = f'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{name}'
    return f"""
[{table}]
runtime_type = "io.containerd.runc.v2"
runtime_path = {_quoted(binaries["containerd-shim-runc-v2"])}
[{table}.options]
BinaryName = {_quoted(binaries["runc"])}
SystemdCgroup = false
"""


def _cni(network: NodeNetwork) -> dict[str, object]:
    """Pods reach one another and the machine; the bridge has its address already, so nothing is forwarded."""
    bridge = {
        "type": "bridge",
        "bridge": network.bridge,
        "isGateway": False,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": network.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "1.0.0", "name": "gpufleet", "plugins": [bridge]}


def _kubelet(folder: Path, network: NodeNetwork) -> dict[str, object]:
    """A KubeletConfiguration; JSON is YAML too."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": network.node_address,
        "port": KUBELET_PORT,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(folder / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(folder / "kubelet.crt"),
        "tlsPrivateKeyFile": str(folder / "kubelet.key"),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "volumePluginDir": f"{KUBELET}/volume-plugins",
        "resolvConf": "",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{network.control_group}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "failCgroupV1": False,
        "makeIPTablesUtilChains": False,
        # The only images that there are must not be tidied away.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "64Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    }


def _quoted(path: Path) -> str:
    return msgspec.json.encode(str(path)).decode()
