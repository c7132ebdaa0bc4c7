"""Hand-written histories for the auditor: a small cluster whose every write is said by a test.

story = Story()
story.node("n", gpus=2)
pod = story.pod("a", gpus=1)
story.bind(pod, "n", [whole("n-0")])
assert story.findings() == []
"""

import itertools
import json
from collections.abc import Sequence
from typing import Any

from gpufleet.auditor.audit import judge
from gpufleet.auditor.finding import Finding
from gpufleet.auditor.record import (
    EVENTS,
    FLEET_QUEUES,
    NAMESPACES,
    NODE_DEVICES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    Document,
    Write,
)
from gpufleet.auditor.rules import Evidence, Rules

SCHEDULER = "system:serviceaccount:gpufleet-system:gpufleet-scheduler"
TENANT = "tenant"
GRANT = "gpufleet.io/grant"
STEP_S = 10.0
MEMORY_MIB = 80_000


def whole(device: str, **fields: Any) -> Document:
    """A whole GPU, as in a grant."""
    return {"id": device, "kind": "whole", "gpuMilli": 1000, "memoryMiB": MEMORY_MIB, **fields}


def share(device: str, milli: int, memory_mib: int = 0) -> Document:
    """A part of a GPU, as in a grant."""
    return {"id": device, "kind": "share", "gpuMilli": milli, "memoryMiB": memory_mib}


def instance(device: str, profile: str, start: int) -> Document:
    """A MIG instance, as in a grant."""
    return {"id": device, "kind": "mig", "gpuMilli": 143, "migProfile": profile, "migStart": start}


def held(pod: Document, *parts: Document) -> list[Document]:
    """What a node reports that a pod holds."""
    uid = pod["metadata"]["uid"]
    return [
        {**{key: value for key, value in part.items() if key != "id"}, "device": part["id"], "podUID": uid}
        for part in parts
    ]


class Story:
    """A cluster, one write after another."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules(
            scheduler_users=frozenset({SCHEDULER}), tenants=frozenset({TENANT}), grants_required=True
        )
        self.writes: list[Write] = []
        self.evidence = Evidence()
        self._now: dict[tuple[str, str, str], Document] = {}
        self._numbers = itertools.count(1)
        self.at_s = 0.0
        self.namespace("space")

    def put(self, kind: str, value: Document, user: str = "", *, gone: bool = False) -> Document:
        """A write of an object."""
        key = kind, value["metadata"].get("namespace", ""), value["metadata"]["name"]
        before = self._now.pop(key, None)
        if not gone:
            self._now[key] = value
        self.at_s += STEP_S
        self.writes.append(Write(kind, None if gone else value, before, self.at_s, user))
        return value

    def findings(self) -> list[Finding]:
        """What the auditor says of it all."""
        return judge(self.writes, self.rules, self.evidence)

    def broken(self) -> set[str]:
        """The promises that broke."""
        return {finding.promise for finding in self.findings()}

    def namespace(self, name: str, user: str = "", **labels: str) -> Document:
        """A namespace with these labels."""
        found = {key.replace("__", "/"): value for key, value in labels.items()}
        return self.put(NAMESPACES, {"metadata": {"name": name, "labels": found}}, user)

    def node(self, name: str, gpus: int, model: str = "NVIDIA-H100-80GB-HBM3") -> None:
        """A node with its report."""
        amounts = {"nvidia.com/gpu": str(gpus)}
        self.put(NODES, {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}})
        devices = [
            {"id": f"{name}-{number}", "model": model, "memoryMiB": MEMORY_MIB} for number in range(gpus)
        ]
        self.put(NODE_DEVICES, {"metadata": {"name": name}, "spec": {"devices": devices, "holders": []}})

    def report(self, node: str, holders: Sequence[Document], *, gone: bool = False) -> None:
        """What a node says that pods hold; or its report vanishes."""
        known = self._now[NODE_DEVICES, "", node]
        self.put(NODE_DEVICES, {**known, "spec": {**known["spec"], "holders": list(holders)}}, gone=gone)

    def queue(self, name: str, user: str = "", **spec: Any) -> Document:
        """A queue with this spec; ``gpus`` is its nominal amount of GPUs."""
        gpus = spec.pop("gpus", None)
        if gpus is not None:
            spec["quotas"] = [{"resource": "gpu", "nominal": gpus}]
        return self.put(FLEET_QUEUES, {"metadata": {"name": name}, "spec": spec}, user)

    def class_never_evicted(self, name: str) -> None:
        """A PriorityClass of which no pod is evicted for others' sake."""
        self.put(
            PRIORITY_CLASSES, {"metadata": {"name": name, "labels": {"gpufleet.io/preemptible": "false"}}}
        )

    def pod(self, name: str, gpus: int = 1, queue: str = "", space: str = "space", **spec: Any) -> Document:
        """A pod that waits."""
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        user = spec.pop("user", "")
        notes = spec.pop("annotations", {})
        container = {"name": "main", "resources": {"limits": limits}, "env": spec.pop("env", [])}
        metadata = {"name": name, "namespace": space, "uid": f"{name}-{next(self._numbers)}"}
        labels = {"gpufleet.io/queue": queue} if queue else {}
        found = {
            "metadata": {**metadata, "labels": labels, "annotations": notes},
            "spec": {"containers": [container], **spec},
            "status": {"phase": "Pending"},
        }
        return self.put(PODS, found, user)

    def bind(
        self,
        pod: Document,
        node: str,
        parts: Sequence[Document] | None,
        user: str = SCHEDULER,
        **terms: Any,
    ) -> Document:
        """A Binding with a grant; with None instead of parts there is no grant."""
        metadata = pod["metadata"]
        if parts is not None:
            said: Document = {"v": 2, "epoch": 1, "terms": terms} if terms else {"v": 1, "epoch": 1}
            text = json.dumps({**said, "containers": {"main": list(parts)} if parts else {}})
            metadata = {**metadata, "annotations": {**metadata["annotations"], GRANT: text}}
        return self.put(PODS, {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}}, user)

    def phase(self, pod: Document, phase: str, container_id: str = "", restarts: int = 0) -> Document:
        """What the kubelet says of a pod."""
        status: Document = {"phase": phase}
        if container_id:
            one = {"name": "main", "containerID": container_id, "restartCount": restarts}
            status["containerStatuses"] = [one]
        return self.put(PODS, {**pod, "status": status}, "kubelet")

    def running(self, name: str, node: str, *parts: Document, **pod: Any) -> Document:
        """A pod that runs with these parts."""
        bound = self.bind(self.pod(name, **pod), node, parts)
        return self.phase(bound, "Running", f"container-of-{name}")

    def leave(self, pod: Document, user: str) -> Document:
        """A pod is told to end."""
        metadata = {**pod["metadata"], "deletionTimestamp": "2026-11-23T06:00:00Z"}
        return self.put(PODS, {**pod, "metadata": metadata}, user)

    def gone(self, pod: Document, user: str = "kubelet") -> None:
        """A pod vanishes."""
        self.put(PODS, pod, user, gone=True)

    def event(self, pod: Document, reason: str) -> None:
        """An Event about a pod."""
        metadata = {"name": f"{reason}-{next(self._numbers)}", "namespace": "space"}
        self.put(
            EVENTS, {"metadata": metadata, "reason": reason, "regarding": {"uid": pod["metadata"]["uid"]}}
        )
