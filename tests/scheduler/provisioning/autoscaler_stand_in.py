"""A small stand-in for Cluster Autoscaler's side of ProvisioningRequests, in virtual time.

As the autoscaler it refuses a request whose PodTemplates are missing, takes up one at a time, sets
Provisioned when nodes were asked for and not when they are there, and keeps capacity for ten minutes. It
knows one group of nodes, of which each has room for one pod.
"""

import asyncio
import datetime as dt
from typing import Any

from tests.scheduler.world import Object, World

NAMESPACE = "default"
REQUESTS = f"/apis/autoscaling.x-k8s.io/v1/namespaces/{NAMESPACE}/provisioningrequests"
TEMPLATES = f"/api/v1/namespaces/{NAMESPACE}/podtemplates"
SCAN_S = 10.0
BOOKED_S = 600.0


class Autoscaler:
    """Reads requests every ten seconds. ``can_buy`` is how many nodes there are to buy."""

    def __init__(self, world: World, *, can_buy: int = 0, joins_after_s: float = 60.0) -> None:
        self.world = world
        self.can_buy = can_buy
        self.joins_after_s = joins_after_s
        self.bought = 0
        self._joining: list[tuple[float, str]] = []
        self._booked_until_s: dict[str, float] = {}

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await asyncio.sleep(SCAN_S)
            self.scan()

    def scan(self) -> None:
        """One loop."""
        now_s = self.world.clock.monotonic_s()
        for at_s, name in list(self._joining):
            if at_s <= now_s:
                self._joining.remove((at_s, name))
                self.world.node(name, gpus=8)
        found = requests(self.world)
        for one in found:
            name = one["metadata"]["name"]
            if stage(one) == "Provisioned" and now_s >= self._booked_until_s.get(name, now_s + 1):
                self.says(name, "BookingExpired", "CapacityReservationTimePassed")
        fresh = next((one for one in found if stage(one) == ""), None)
        if fresh is not None:
            self._take_up(fresh, now_s)

    def _take_up(self, request: Object, now_s: float) -> None:
        name, pod_sets = request["metadata"]["name"], request["spec"]["podSets"]
        there = {one["metadata"]["name"] for one in self.world.objects(TEMPLATES)}
        if not {one["podTemplateRef"]["name"] for one in pod_sets} <= there:
            self.says(name, "Failed", "FailedToCreatePods", "podTemplate not found")
            return
        count = sum(one["count"] for one in pod_sets)
        if count > self.can_buy:
            self.says(name, "Failed", "CapacityIsNotFound", "no group can grow by so many")
            return
        self.says(name, "Accepted", "RequestAccepted")
        self.can_buy -= count
        for _ in range(count):
            self.bought += 1
            self._joining.append((now_s + self.joins_after_s, f"bought-{self.bought}"))
        self._booked_until_s[name] = now_s + BOOKED_S
        self.says(name, "Provisioned", "CapacityIsProvisioned")

    def says(self, name: str, condition: str, reason: str, message: str = "") -> None:
        """Add a condition to a request, beside those that stand there."""
        before = next(one for one in requests(self.world) if one["metadata"]["name"] == name)
        now = self.world.clock.now().astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"type": condition, "status": "True", "reason": reason, "message": message}
        conditions = [*before.get("status", {}).get("conditions", []), {**said, "lastTransitionTime": now}]
        code = self.world.request(
            "PATCH", f"{REQUESTS}/{name}/status", {"status": {"conditions": conditions}}
        )
        assert code == 200


def requests(world: World) -> list[Any]:
    """The requests that stand, by name."""
    return sorted(world.objects(REQUESTS), key=lambda one: str(one["metadata"]["name"]))


def stage(request: Object) -> str:
    """The last condition of a request."""
    conditions = request.get("status", {}).get("conditions", [])
    return str(conditions[-1]["type"]) if conditions else ""
