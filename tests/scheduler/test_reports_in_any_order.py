"""Whatever becomes of reports, nodes, pods and schedulers, no GPU is given away beyond what there is."""

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scheduler.world import World, in_world

GPUS = 8
REPORT = "/apis/gpufleet.io/v1alpha1/nodedevices/a"
KIND = ("gpufleet.io", "nodedevices")
IDS = {
    "whole": [f"GPU-a-{number}" for number in range(GPUS)],
    "smaller": [f"GPU-a-{number}" for number in range(3)],
    "other": [f"GPU-other-{number}" for number in range(GPUS)],
    "half other": [f"GPU-{'a' if number % 2 else 'other'}-{number}" for number in range(GPUS)],
    "empty": [],
}
REPORTS = st.sampled_from([*IDS, "bad", "none"])
STEPS = st.one_of(
    st.tuples(st.just("report"), REPORTS, st.booleans()),
    st.tuples(st.just("pods"), st.integers(1, 5), st.sampled_from([1, 2])),
    st.tuples(st.just("shares"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("end"), st.integers(0, 30), st.integers(1, 4)),
    st.tuples(st.just("restart"), st.just(0), st.just(0)),
    st.tuples(st.just("node anew"), st.just(0), st.just(0)),
    st.tuples(st.just("allocatable"), st.sampled_from([0, GPUS]), st.just(0)),
)


class Fortune:
    """Carries steps out, and looks after each."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.made = 0

    async def take(self, step: tuple[Any, ...]) -> None:
        """One step, with or without time for it to be heard of before the next."""
        match step:
            case ("report", what, keeps_holders):
                self.report(what, keeps_holders=keeps_holders)
            case ("pods", count, gpus):
                for _ in range(count):
                    self.made += 1
                    self.world.pod(f"p{self.made}", gpus=gpus)
            case ("shares", count, _):
                for _ in range(count):
                    self.made += 1
                    fraction = {"gpufleet.io/gpu-fraction": "0.5"}
                    slot = {"gpufleet.io/gpu-share": "1"}
                    self.world.pod(f"p{self.made}", gpus=0, annotations=fraction, resources=slot)
            case ("end", first, count):
                running = sorted(self.running())
                for name in running[first % max(1, len(running)) :][:count]:
                    self.world.finish(name)
            case ("restart", _, _):
                await self.world.stop()
                self.world.start()
            case ("node anew", _, _):
                self.world.request("DELETE", REPORT)
                self.world.request("DELETE", "/api/v1/nodes/a")
                await self.world.settle(2)
                self.world.node("a", gpus=GPUS, devices=False, shares=True)
            case ("allocatable", count, _):
                status = {"status": {"allocatable": {"nvidia.com/gpu": str(count)}}}
                self.world.request("PATCH", "/api/v1/nodes/a/status", status)
        await self.world.settle(20)
        self.look()

    def report(self, what: str, *, keeps_holders: bool) -> None:
        """The report is deleted, or says this from now on."""
        if what == "none":
            self.world.request("DELETE", REPORT)
            return
        spec: Any = "none"
        if what != "bad":
            devices = [
                {"id": one, "sharing": "mixed", "health": "healthy", "usableMemoryMiB": 80000}
                for one in IDS[what]
            ]
            spec = {"devices": devices, "holders": self.holders() if keeps_holders else []}
        report = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "NodeDevices"}
        metadata = {"name": "a", "uid": f"report-{self.made}"}
        value = {**report, "metadata": metadata, "spec": spec}
        self.world.server.store.put(
            KIND, ("", "a"), value, at_s=self.world.clock.monotonic_s(), user="system:node:a"
        )

    def running(self) -> dict[str, dict[str, Any]]:
        """The unfinished pods that have a node."""
        pods = self.world.objects("/api/v1/pods")
        return {
            pod["metadata"]["name"]: pod
            for pod in pods
            if pod["spec"].get("nodeName") and pod["status"].get("phase") not in {"Succeeded", "Failed"}
        }

    def holders(self) -> list[dict[str, Any]]:
        """What an agent reports that believes the grants."""
        pods = self.running()
        return [
            {"device": device, "podUID": pod["metadata"]["uid"], "gpuMilli": milli}
            for name, pod in pods.items()
            for device, milli in self.granted(name).items()
        ]

    def granted(self, name: str) -> dict[str, int]:
        """The thousandths of each device that a pod was granted."""
        containers = self.world.grant_of(name).get("containers", {})
        return {one["id"]: one.get("gpuMilli", 1000) for granted in containers.values() for one in granted}

    def look(self) -> None:
        """No device and no node is given away beyond what it has."""
        by_device: Counter[str] = Counter()
        total = 0
        for name, pod in self.running().items():
            granted = self.granted(name)
            by_device.update(granted)
            asked = pod["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu", "0")
            total += sum(granted.values()) if granted else 1000 * int(asked)
        assert all(held <= 1000 for held in by_device.values()), by_device
        assert total <= 1000 * GPUS, (total, by_device)


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, min_size=4, max_size=12))
def test_nothing_is_given_twice_in_any_order_of_reports_pods_and_restarts(
    steps: list[tuple[Any, ...]],
) -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=GPUS, devices=False, shares=True)
        fortune = Fortune(world)
        await fortune.take(("report", "whole", False))
        await fortune.take(("pods", 5, 1))
        for step in steps:
            await fortune.take(step)

    in_world(story)
