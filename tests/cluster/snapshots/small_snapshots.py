"""Snapshot files of small clusters, written as an API server would have told them.

fleet = Fleet()
fleet.node("gpu-1", gpus=4)
fleet.queue("team-a", gpu=4)
fleet.pod("train", gpus=2, queue="team-a", node="gpu-1")
fleet.write(path)
"""

import datetime as dt
import json
from pathlib import Path
from typing import Any

from gpufleet.cluster.settings import Settings
from gpufleet.cluster.snapshots.document import written
from gpufleet.cluster.watching.picture import Picture
from gpufleet.kube import resources
from gpufleet.kube.objects.fleet_queues import FleetQueue
from gpufleet.kube.objects.namespace import Namespace
from gpufleet.kube.objects.node import Node
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.resources import Kind
from tests.kube.wire_objects import decoded

AT = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
HOUR_AGO = "2026-03-01T11:00:00Z"
QUEUE = "gpufleet.io/queue"


class Fleet:
    """A cluster under construction."""

    def __init__(self) -> None:
        self.picture = Picture()
        self.put(resources.NAMESPACES, Namespace, {"metadata": {"name": "default"}})

    def put(self, kind: Kind, meant: type[Any], written_as: dict[str, Any]) -> None:
        """Any object."""
        found = decoded(written_as, meant)
        key = (found.metadata.namespace, found.metadata.name)
        self.picture.objects.setdefault(kind, {})[key] = found

    def node(self, name: str, *, gpus: int = 4, **spec: Any) -> None:
        """A node of H100s, with its report."""
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        labels = {"kubernetes.io/hostname": name, **spec.pop("labels", {})}
        metadata = {"name": name, "labels": labels}
        self.put(
            resources.NODES, Node, {"metadata": metadata, "spec": spec, "status": {"allocatable": amounts}}
        )
        devices = [
            {"id": f"GPU-{name}-{index}", "vendor": "NVIDIA", "model": "H100-80GB", "memoryMiB": 81920}
            for index in range(gpus)
        ]
        self.put(
            resources.NODE_DEVICES, NodeDevices, {"metadata": {"name": name}, "spec": {"devices": devices}}
        )

    def queue(self, name: str, *, gpu: int, **spec: Any) -> None:
        """A queue with so many GPUs of its own."""
        quotas = [{"resource": "gpu", "nominal": gpu, **spec.pop("limits", {})}]
        self.put(
            resources.FLEET_QUEUES,
            FleetQueue,
            {"metadata": {"name": name}, "spec": {"quotas": quotas, **spec}},
        )

    def pod(
        self,
        name: str,
        *,
        gpus: int = 1,
        queue: str = "",
        node: str = "",
        job: str = "",
        gang: int = 0,
        devices: str = "",
        deleted: str | None = None,
        **spec: Any,
    ) -> None:
        """A pod of ours; with ``node`` it runs there, on the GPUs whose numbers ``devices`` lists."""
        metadata: dict[str, Any] = {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "creationTimestamp": HOUR_AGO,
            "labels": {QUEUE: queue} if queue else {},
            "annotations": {},
        }
        if job:
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": job, "controller": True}
            metadata["ownerReferences"] = [owner]
        if gang:
            metadata["annotations"] = {"gpufleet.io/gang": job, "gpufleet.io/gang-min-members": str(gang)}
        if deleted:
            metadata["deletionTimestamp"] = deleted
        if node:
            granted = [{"id": f"GPU-{node}-{one}", "kind": "whole"} for one in devices or range(gpus)]
            grant = {"v": 1, "epoch": 1, "containers": {"main": granted}}
            metadata["annotations"]["gpufleet.io/grant"] = json.dumps(grant)
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        body = {
            "metadata": metadata,
            "spec": {
                "schedulerName": "gpufleet",
                "nodeName": node,
                "containers": [{"name": "main", "resources": {"limits": limits}}],
                **spec,
            },
            "status": {"phase": "Running" if node else "Pending"},
        }
        self.put(resources.PODS, Pod, body)

    def write(self, path: Path) -> Path:
        """The file, without decisions."""
        path.write_bytes(b"".join(written(self.picture, Settings(identity="test"), AT, [])))
        return path
