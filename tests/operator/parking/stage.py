"""What a test makes on a real API server to try controllers of the operator: a namespace, work, and rounds.

There are no nodes: that a pod runs is written by the test.
"""

import asyncio
import datetime as dt
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from gpufleet.cli.main import main
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.kube.connection import ClusterChoice, connect
from gpufleet.localkube.cluster import LocalCluster
from gpufleet.operator.parking.hub_sessions import SessionSource
from gpufleet.operator.parking.parking_controller import ParkingController
from tests import waiting
from tests.kube.manifests.real_server import Person
from tests.operator.parking.measurements import Measurements

PATIENCE_S = 30.0
NAMESPACES = "/api/v1/namespaces"
NUMBERS = itertools.count()
GPU = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
POD = {"schedulerName": "gpufleet", "containers": [{"name": "main", "image": "example.com/lab", **GPU}]}
STARTED = "2026-01-01T00:00:00Z"


class LaterClock(MachineClock):
    """The machine's time, moved forward as a test says."""

    def __init__(self) -> None:
        self.later = dt.timedelta()

    def now(self) -> dt.datetime:
        """The moved time."""
        return super().now() + self.later


class Stage:
    """A namespace of one test, and what is in it."""

    def __init__(
        self, cluster: LocalCluster, admin: Person, name: str = "", annotations: dict[str, str] | None = None
    ) -> None:
        self.cluster, self.admin = cluster, admin
        self.namespace = name or f"stage-{next(NUMBERS)}"
        metadata = {"name": self.namespace, "annotations": annotations or {}}
        assert admin.ask("POST", NAMESPACES, {"metadata": metadata})[0] == 201
        self.measurements = Measurements()
        self.hub: SessionSource | None = None
        self.clock = LaterClock()

    def path(self, plural: str, name: str = "", group: str = "apps/v1") -> str:
        """The path of objects, or of one."""
        root = "/api/v1" if not group else f"/apis/{group}"
        return f"{root}/namespaces/{self.namespace}/{plural}{f'/{name}' if name else ''}"

    def get(self, plural: str, name: str, group: str = "apps/v1") -> dict[str, Any]:
        """An object as it is; {} if there is none."""
        status, found = self.admin.ask("GET", self.path(plural, name, group))
        return found if status == 200 else {}

    def stateful_set(
        self, name: str, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None
    ) -> None:
        """A StatefulSet of one pod with a GPU and a volume."""
        chosen = {"app": name, **(labels or {})}
        claim = {
            "metadata": {"name": "home"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        spec = {
            "replicas": 1,
            "serviceName": name,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": chosen}, "spec": POD},
            "volumeClaimTemplates": [claim],
        }
        body = {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}
        status, answer = self.admin.ask("POST", self.path("statefulsets"), body)
        assert status == 201, answer

    def pod_runs(self, name: str) -> None:
        """Wait for a pod, and say that it runs as a kubelet would."""
        waiting.until(lambda: bool(self.get("pods", name, "")), PATIENCE_S, f"there is no pod {name}")
        status = {
            "phase": "Running",
            "startTime": STARTED,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        assert self.admin.merge(f"{self.path('pods', name, '')}/status", {"status": status})[0] == 200
        owner = name.rpartition("-")[0]

        def is_counted() -> bool:
            found = self.get("statefulsets", owner)
            return not found or found["status"].get("readyReplicas", 0) > 0

        # The controller counts the pod a moment later, and work without a running pod is not looked at.
        waiting.until(is_counted, PATIENCE_S, f"no pod of {owner} is counted as ready")

    def pod_is_gone(self, name: str) -> None:
        """Wait until there is no such pod."""
        waiting.until(lambda: not self.get("pods", name, ""), PATIENCE_S, f"pod {name} stays")

    def turn(self, later: dt.timedelta = dt.timedelta(), *, dies_after: int | None = None) -> int:
        """One round of the operator; how much it wrote."""
        self.clock.later += later

        async def story(client: Client) -> int:
            left = itertools.count()
            parking = ParkingController(
                client,
                self.measurements,
                lambda: dies_after is None or next(left) < dies_after,
                self.hub,
            )
            return await parking.turn()

        return play(self.cluster, story, self.clock)

    def reasons(self) -> list[str]:
        """The reasons of all Events about parking here, in order of time."""
        found = self.admin.ask("GET", self.path("events", group="events.k8s.io/v1"))[1]["items"]
        ours = [one for one in found if one["reportingController"] == "gpufleet.io/operator"]
        return [one["reason"] for one in sorted(ours, key=lambda one: str(one["eventTime"]))]

    def command(self, *words: str) -> int:
        """Type a command of gpufleet as the administrator."""
        return main([*words, "--kubeconfig", str(self.cluster.kubeconfig)])


def play(cluster: LocalCluster, story: Callable[[Client], Awaitable[int]], clock: LaterClock) -> int:
    """Run a story with a connection to the cluster."""

    async def run() -> int:
        async with connect(ClusterChoice(cluster.kubeconfig), connections=8) as connection:
            connection.client.clock = clock
            return await story(connection.client)

    return asyncio.run(run())
