"""Pods, nodes and pages that a test holds in its hands, in the place of a cluster and its servers."""

import random
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.transport import Transport
from gpufleet.metrics.catalogue import ENGINE_NAMES
from gpufleet.metrics.cluster_objects import ClusterObjects
from gpufleet.metrics.sources import queues
from gpufleet.metrics.sources.pages import Pages
from gpufleet.model.model_errors import WorldError
from gpufleet.usage import agent_use
from tests.metrics.values_at_hand import NOW_S

NAMESPACE = "gpufleet-system"
NAMES = agent_use.NAMES | queues.NAMES | ENGINE_NAMES
"""The series that sources read."""


class StoppedClock(MachineClock):
    """A clock that needs no loop, because nothing is waited for."""

    def monotonic_s(self) -> float:
        """Always the same."""
        return 0.0


class NoServer:
    """A way to no server: nothing is asked of one."""


def objects(
    pods: Iterable[Mapping[str, Any]] = (), nodes: Iterable[Mapping[str, Any]] = ()
) -> ClusterObjects:
    """What a cluster with these pods and nodes looks like."""
    transport: Transport = NoServer()  # type: ignore[assignment]
    found = ClusterObjects(Client(transport, StoppedClock(), random.Random()))
    found.pods.catch_up([msgspec.Raw(msgspec.json.encode(one)) for one in pods], "1")
    found.nodes.catch_up([msgspec.Raw(msgspec.json.encode(one)) for one in nodes], "1")
    return found


def pod(
    name: str,
    namespace: str = "default",
    *,
    node: str = "node-0",
    address: str = "10.0.0.1",
    ready: bool = True,
    owner: str = "",
    host_network: bool = False,
    labels: Mapping[str, str] = {},
    port: int = 0,
    annotations: Mapping[str, str] = {},
) -> dict[str, Any]:
    """A pod as the API server tells of it."""
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    metadata |= {"resourceVersion": "1", "labels": dict(labels), "annotations": dict(annotations)}
    if owner:
        metadata["ownerReferences"] = [{"kind": "DaemonSet", "name": owner, "controller": True}]
    ports = [{"name": "metrics", "containerPort": port}] if port else []
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": node,
            "hostNetwork": host_network,
            "containers": [{"name": "c", "ports": ports}],
        },
        "status": {
            "phase": "Running",
            "podIP": address,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def agent(node: str, address: str) -> dict[str, Any]:
    """The agent of a node."""
    return pod(f"agent-{node}", NAMESPACE, node=node, address=address, owner="gpufleet-agent", port=9400)


def engine(name: str, address: str, **more: Any) -> dict[str, Any]:
    """A pod that says where its page is."""
    return pod(name, address=address, annotations={"gpufleet.io/metrics-port": "8000"}, **more)


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        """Seconds since 1970."""
        return self.now_s


class PageTexts:
    """Pages by URL; one that is not there cannot be read."""

    def __init__(self, pages: Mapping[str, str] = {}) -> None:
        self.pages = dict(pages)
        self.read: list[str] = []

    def __call__(self, url: str) -> str:
        """The page."""
        self.read.append(url)
        if url not in self.pages:
            raise WorldError("its page of metrics cannot be read: connection refused")
        return self.pages[url]


def pages(texts: PageTexts, clock: Clock) -> Pages:
    """A reader of these pages."""
    return Pages(NAMES, read=texts, now=clock)
