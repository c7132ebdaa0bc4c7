"""The objects of the trials: plain nodes, one-GPU pods, and gangs as native PodGroups."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model, node

Object = dict[str, Any]

NAMESPACE = "bench"
GPUS_PER_NODE = 8
MODEL = "H100-80GB"


def plain_nodes(count: int) -> list[Object]:
    """Nodes that nobody keeps alive, as their kubelets would have described them."""
    nodes = SimulatedNodes(count, GPUS_PER_NODE, gpu_model(MODEL), managed=False)
    return [node(f"gpu-{number:05}", nodes) for number in range(1, count + 1)]


def pod(name: str, scheduler: str, gang: str = "", node_name: str = "") -> Object:
    """A pod that wants one GPU, some CPU and memory."""
    resources = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "resources": {"requests": resources, "limits": resources},
    }
    spec: Object = {"schedulerName": scheduler, "containers": [container], "restartPolicy": "Never"}
    if gang:
        spec["schedulingGroup"] = {"podGroupName": gang}
    if node_name:
        spec["nodeName"] = node_name
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": "train"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def pod_group(name: str, members: int) -> Object:
    """A gang of so many members, as Kubernetes 1.37 writes it."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"schedulingPolicy": {"gang": {"minCount": members}}},
    }


@dataclass(frozen=True, slots=True)
class Workload:
    """So many pods, alone or in gangs of one size."""

    pods: int
    gang_size: int = 1

    def gangs(self, prefix: str) -> Iterator[Object]:
        """The PodGroups; none for pods that stand alone."""
        if self.gang_size > 1:
            for number in range(self.pods // self.gang_size):
                yield pod_group(f"{prefix}-{number}", self.gang_size)

    def members(self, prefix: str, scheduler: str) -> Iterator[Object]:
        """The pods; as many as make whole gangs."""
        for number in range(self.pods // self.gang_size * self.gang_size):
            gang = f"{prefix}-{number // self.gang_size}" if self.gang_size > 1 else ""
            yield pod(f"{prefix}-{number}", scheduler, gang)

    @property
    def words(self) -> str:
        """For people."""
        return "single pods" if self.gang_size == 1 else f"gangs of {self.gang_size}"
