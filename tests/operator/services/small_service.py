"""A service on a real API server with the controllers of Kubernetes, for the controller of services."""

import datetime as dt
from typing import Any

from gpufleet.operator.services.services_controller import ServicesController
from gpufleet.operator.services.unplaced_replicas import CONDITION
from tests import waiting
from tests.operator.parking.stage import PATIENCE_S, Stage, play


class Service:
    """A Deployment whose pods have two GPUs each, on nodes of four. No kubelet runs: a test says what is."""

    def __init__(self, stage: Stage, replicas: int) -> None:
        self.stage = stage
        container = {
            "name": "c",
            "image": "example.com/none",
            "resources": {"limits": {"nvidia.com/gpu": "2"}},
        }
        spec = {"schedulerName": "gpufleet", "containers": [container], "terminationGracePeriodSeconds": 0}
        labels = {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        written = {"metadata": {"name": "web"}, "spec": body}
        assert stage.admin.ask("POST", stage.path("deployments"), written)[0] == 201
        self.has(replicas)

    def pods(self) -> list[dict[str, Any]]:
        """Those that are there, by name."""
        found: list[dict[str, Any]] = self.stage.admin.ask("GET", self.stage.path("pods", group=""))[1][
            "items"
        ]
        return sorted(found, key=lambda one: str(one["metadata"]["name"]))

    def has(self, replicas: int) -> None:
        """Wait until so many are there, and the status says so."""
        waiting.until(lambda: len(self.pods()) == replicas, PATIENCE_S, f"there are not {replicas} pods")
        waiting.until(lambda: self.counted() == replicas, PATIENCE_S, "the status is old")

    def counted(self) -> int:
        """How many the status counts."""
        found: int = self.stage.get("deployments", "web")["status"].get("replicas", 0)
        return found

    def scaled(self, replicas: int) -> None:
        """Ask for so many."""
        asked = {"spec": {"replicas": replicas}}
        assert self.stage.admin.merge(self.stage.path("deployments", "web"), asked)[0] == 200
        self.has(replicas)

    def runs(self, name: str, node: str) -> None:
        """A pod is bound, and ready."""
        target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        assert self.stage.admin.ask("POST", f"{self.stage.path('pods', name, '')}/binding", target)[0] == 201
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        assert (
            self.stage.admin.merge(f"{self.stage.path('pods', name, '')}/status", {"status": ready})[0] == 200
        )

    def waits(self, name: str, reason: str) -> None:
        """The scheduler has said why a pod has no place."""
        said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": "the queue is full"}
        self.says(name, {"conditions": [said]})

    def says(self, name: str, status: dict[str, Any]) -> None:
        """A pod's status is this."""
        path = f"{self.stage.path('pods', name, '')}/status"
        assert self.stage.admin.merge(path, {"status": status})[0] == 200

    def turn(self) -> int:
        """One round, a minute later."""
        self.stage.clock.later += dt.timedelta(minutes=1)
        stage = self.stage
        return play(stage.cluster, lambda it: ServicesController(it, lambda: True).turn(), stage.clock)

    def condition(self) -> dict[str, Any]:
        """What the Deployment says of its replicas."""
        found = self.stage.get("deployments", "web")["status"]["conditions"]
        return next((one for one in found if one["type"] == CONDITION), {})
