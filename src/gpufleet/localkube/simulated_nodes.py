"""GPU nodes that exist only in the API server: `up` and the tests create them, KWOK plays their kubelets.

A simulated node carries what feature discovery and the device plugin would put on a real one (labels,
allocatable) and has the NodeDevices report that its agent would write, so everything above sees no
difference. ``manifests`` must have been applied before, because they define NodeDevices.
"""

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.kube.keys import GPU_SHARE
from gpufleet.kube.meanings import node_labels
from gpufleet.localkube.access.api import Api, Object, in_parallel
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.localkube.control_plane import SIMULATED_VALUE
from gpufleet.model.gpu_catalogue import GpuModel, Vendor
from gpufleet.model.gpu_model import matching, nearest_name
from gpufleet.model.mig import Layout
from gpufleet.model.mig_boards import BOARDS
from gpufleet.model.model_errors import InputError
from gpufleet.model.resource_names import AMD_GPU, INTEL_GPU_XE, NVIDIA_GPU, mig_resource

DEFAULT_MODEL = "H100-80GB"
RESOURCES = {Vendor.NVIDIA: NVIDIA_GPU, Vendor.AMD: AMD_GPU, Vendor.INTEL: INTEL_GPU_XE}
SHARE_SLOTS_PER_GPU = 100
"""The most shares that the agent's configuration allows a GPU."""

# What a driver keeps of each GPU's memory for itself, roughly.
RESERVED_MEMORY_MIB = 512
# Servers with eight GPUs have two processors, and each its half of the GPUs.
NUMA_NODES = 2
NAMES = uuid.UUID("6f3c1d0a-7f0e-5d4b-9a53-2f6d1c4e8b70")
"""Under which device ids are made: the same node of the same cluster always has the same GPUs."""

FEW_NODES = 100
"""The API server holds creates of a kind that was just defined back for two seconds, but not applies; an
apply costs it more, so it is for few nodes only."""

MIG_CAPABLE = "nvidia.com/mig.capable"
"""The label that feature discovery gives nodes with cards that can be cut."""

NODES = "/api/v1/nodes"
NODE_DEVICES = "/apis/gpufleet.io/v1alpha1/nodedevices"


@dataclass(frozen=True, slots=True)
class SimulatedNodes:
    """How many nodes of one kind, and what each has.

    Names are ``prefix`` and a number from ``first`` on. ``cpu_cores`` and ``memory_gib`` are allocatable.
    ``managed`` nodes are kept alive by KWOK; the others are plain objects on which pods stay as they are.
    With ``mig`` every GPU is cut into these instances, and the node offers them instead of whole GPUs.
    """

    count: int
    gpus_per_node: int
    model: GpuModel
    cpu_cores: int = 128
    memory_gib: int = 1024
    pods: int = 250
    prefix: str = "gpu-"
    first: int = 1
    managed: bool = True
    labels: tuple[tuple[str, str], ...] = ()
    mig: Layout = ()

    def __str__(self) -> str:
        """The nodes in words: "4 with 8 x A100-80GB each, cut into 7 x 1g.10gb"."""
        if not self.gpus_per_node:
            return f"{self.count} without a GPU"
        profiles = Counter(instance.profile for instance in self.mig)
        cut = " + ".join(f"{count} x {profile}" for profile, count in profiles.items())
        each = f"{self.count} with {self.gpus_per_node} x {self.model.name} each"
        return f"{each}, cut into {cut}" if cut else each


def gpu_model(name: str, field: str = "--gpu-model") -> GpuModel:
    """The model of this name; InputError with the nearest names if it is unknown or means several."""
    found = matching(name)
    if len(found) == 1 and found[0].vendor in RESOURCES:
        return found[0]
    if found:
        expected = "one of " + ", ".join(str(model.name) for model in found)
        raise InputError("may mean several models", field=field, value=name, expected=expected)
    nearest = nearest_name(name)
    expected = (
        f"a model of the catalogue; did you mean {nearest}?" if nearest else "a model such as H100-80GB"
    )
    raise InputError("no such model of GPU", field=field, value=name, expected=expected)


def create(cluster: LocalCluster, nodes: SimulatedNodes) -> None:
    """Create the nodes and their reports over a few connections at once."""
    in_parallel(cluster.api, _create_one, list(_objects(cluster.name, nodes)))


def _create_one(api: Api, pair: Object) -> None:
    """A node, and its report as the node's own, so that it goes when the node goes."""
    node = api.call("POST", NODES, pair["node"])
    report: Object = pair["report"]
    if report["spec"]["devices"]:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node["metadata"]["name"]}
        report["metadata"]["ownerReferences"] = [{**owner, "uid": node["metadata"]["uid"]}]
        if pair["few"]:
            api.apply(f"{NODE_DEVICES}/{report['metadata']['name']}", report)
        else:
            api.call("POST", NODE_DEVICES, report)


def _objects(cluster: str, nodes: SimulatedNodes) -> Iterator[Object]:
    digits = max(3, len(str(nodes.first + nodes.count - 1)))
    for number in range(nodes.first, nodes.first + nodes.count):
        name = f"{nodes.prefix}{number:0{digits}}"
        few = nodes.count <= FEW_NODES
        yield {"node": node(name, nodes), "report": report(cluster, name, nodes), "few": few}


def offered(nodes: SimulatedNodes) -> dict[str, int]:
    """The GPUs of one of these nodes, or the instances that they are cut into, by resource."""
    if nodes.mig:
        profiles = Counter(instance.profile for instance in nodes.mig)
        return {mig_resource(profile): nodes.gpus_per_node * count for profile, count in profiles.items()}
    return {RESOURCES[nodes.model.vendor]: nodes.gpus_per_node} if nodes.gpus_per_node else {}


def node(name: str, nodes: SimulatedNodes) -> Object:
    """The Node as its kubelet, feature discovery and device plugin would have made it."""
    resources = {
        "cpu": str(nodes.cpu_cores),
        "memory": f"{nodes.memory_gib}Gi",
        "ephemeral-storage": "1Ti",
        "pods": str(nodes.pods),
    }
    resources |= {name: str(count) for name, count in offered(nodes).items()}
    if nodes.gpus_per_node and not nodes.mig:
        resources[GPU_SHARE] = str(nodes.gpus_per_node * SHARE_SLOTS_PER_GPU)
    annotations = {node_labels.KWOK_NODE: SIMULATED_VALUE} if nodes.managed else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, "labels": _labels(name, nodes)},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "operatingSystem": "linux",
                "osImage": "simulated",
                "kernelVersion": "simulated",
                "kubeletVersion": "simulated",
                "kubeProxyVersion": "",
                "containerRuntimeVersion": "simulated",
                "bootID": _boot_id(name),
                "machineID": name,
                "systemUUID": name,
            },
        },
    }


def report(cluster: str, name: str, nodes: SimulatedNodes) -> Object:
    """The NodeDevices that the node's agent would write: no pod holds a device yet."""
    total_mib = nodes.model.memory_mib
    memory = (
        {}
        if total_mib is None
        else {"memoryMiB": total_mib, "usableMemoryMiB": total_mib - RESERVED_MEMORY_MIB}
    )
    sharing: Object = {"sharing": "mixed"}
    if nodes.mig:
        instances = [{"profile": one.profile, "start": one.start} for one in nodes.mig]
        sharing = {"sharing": "mig", "migInstances": instances}
    devices = [
        {
            "id": f"GPU-{uuid.uuid5(NAMES, f'{cluster}/{name}/{index}')}",
            "vendor": nodes.model.vendor.value,
            "model": str(nodes.model.name),
            **memory,
            "numaNode": index * NUMA_NODES // nodes.gpus_per_node,
            "linkGroup": 0,
            **sharing,
            "health": "healthy",
        }
        for index in range(nodes.gpus_per_node)
    ]
    return {
        "apiVersion": "gpufleet.io/v1alpha1",
        "kind": "NodeDevices",
        "metadata": {"name": name},
        "spec": {"bootID": _boot_id(name), "driver": "simulated", "devices": devices, "holders": []},
    }


def _labels(name: str, nodes: SimulatedNodes) -> dict[str, str]:
    labels = {
        node_labels.HOST_NAME: name,
        node_labels.OS: "linux",
        node_labels.ARCH: "amd64",
        "type": "simulated",
        **dict(nodes.labels),
    }
    if not nodes.gpus_per_node:
        return labels
    product = nodes.model.labels[0] if nodes.model.labels else str(nodes.model.name)
    match nodes.model.vendor:
        case Vendor.NVIDIA:
            labels |= {
                node_labels.GPU_PRESENT: "true",
                node_labels.NVIDIA_PRODUCT: product,
                node_labels.GPU_COUNT: str(nodes.gpus_per_node),
                node_labels.NVIDIA_MEMORY: str(nodes.model.memory_mib or 0),
                MIG_CAPABLE: str(nodes.model.name in BOARDS).lower(),
            }
            if nodes.mig:
                labels |= _mig_labels(nodes)
        case Vendor.AMD:
            labels[node_labels.PRODUCTS[Vendor.AMD]] = product
    return labels


def _mig_labels(nodes: SimulatedNodes) -> dict[str, str]:
    """What feature discovery says of instances with the strategy mixed: each profile is a resource."""
    labels = {node_labels.MIG_STRATEGY: "mixed"}
    return labels | {f"{resource}.count": str(count) for resource, count in offered(nodes).items()}


def _boot_id(name: str) -> str:
    return str(uuid.uuid5(NAMES, f"boot/{name}"))
