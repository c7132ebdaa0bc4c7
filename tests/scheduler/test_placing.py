"""Pods get a node and their devices in one write, and those that cannot are told why."""

import pytest

from tests.scheduler.world import World, in_world


def test_a_pod_gets_a_node_and_a_device_of_it() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("p", gpus=1)
        await world.settle()
        assert world.node_of("p") == "a"
        assert len(world.devices_of("p")) == 1
        assert world.devices_of("p")[0].startswith("GPU-a-")
        assert world.grant_of("p")["epoch"] == 1

    in_world(story)


def test_no_device_is_granted_twice() -> None:
    async def story(world: World) -> None:
        for name in ("a", "b"):
            world.node(name, gpus=4)
        for number in range(4):
            world.pod(f"p{number}", gpus=2)
        await world.settle()
        devices = [device for number in range(4) for device in world.devices_of(f"p{number}")]
        assert len(devices) == 8
        assert len(set(devices)) == 8

    in_world(story)


def test_on_a_node_without_a_report_whole_gpus_are_counted_and_the_grant_names_none() -> None:
    async def story(world: World) -> None:
        for name in ("a", "b"):
            world.node(name, gpus=1, devices=False)
        for name in ("p", "q", "r"):
            world.pod(name, gpus=1)
        await world.settle()
        assert sorted(world.node_of(name) for name in ("p", "q", "r")) == ["", "a", "b"]
        assert world.devices_of("p") == []

    in_world(story)


def test_who_cannot_run_is_told_in_condition_and_event() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("large", gpus=3)
        await world.settle()
        assert "needs 3 whole GPUs" in world.why("large")
        assert world.events("FailedScheduling") == [world.why("large")]

    in_world(story)


def test_who_waits_is_placed_when_room_is_freed() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("first")
        await world.settle()
        world.pod("second")
        await world.settle()
        assert world.node_of("second") == ""
        world.finish("first")
        await world.settle()
        assert world.node_of("second") == "a"
        assert world.devices_of("second") == ["GPU-a-0"]

    in_world(story)


def test_a_pod_that_is_deleted_but_still_runs_holds_its_devices() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("first")
        await world.settle()
        assert world.request("DELETE", "/api/v1/namespaces/default/pods/first") in {200, 202}
        world.pod("second")
        await world.settle(10.0)
        assert world.get("first")["metadata"]["deletionTimestamp"]
        assert world.node_of("second") == ""

    in_world(story)


def test_a_pod_that_is_deleted_but_still_runs_is_not_spread_against() -> None:
    async def story(world: World) -> None:
        constraint = {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        world.node("a", labels={"zone": "x"})
        world.node("full", gpus=0, labels={"zone": "y"})
        for name in ("first", "second"):
            world.pod(name, labels={"app": "web"}, topologySpreadConstraints=[constraint])
        await world.settle()
        placed, waiting = sorted(("first", "second"), key=world.node_of, reverse=True)
        assert (world.node_of(placed), world.node_of(waiting)) == ("a", "")
        assert world.request("DELETE", f"/api/v1/namespaces/default/pods/{placed}") in {200, 202}
        await world.settle(10.0)
        assert world.get(placed)["metadata"]["deletionTimestamp"]
        assert world.node_of(waiting) == "a"

    in_world(story)


def test_a_resize_of_a_running_pod_makes_room_only_when_it_is_done() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("first", resources={"cpu": "32"})
        await world.settle()
        assert world.node_of("first") == "a"

        def kubelet_says(cpu: str) -> None:
            allocated = {"cpu": cpu, "nvidia.com/gpu": "1"}
            told = {
                "phase": "Running",
                "containerStatuses": [{"name": "main", "allocatedResources": allocated}],
            }
            path = "/api/v1/namespaces/default/pods/first/status"
            assert world.request("PATCH", path, {"status": told}) == 200

        kubelet_says("64")
        world.pod("second", resources={"cpu": "32"})
        await world.settle()
        assert world.node_of("second") == ""
        kubelet_says("32")
        await world.settle()
        assert world.node_of("second") == "a"

    in_world(story)


def test_volumes_attached_to_a_node_are_counted_until_they_are_detached() -> None:
    async def story(world: World) -> None:
        storage = {"apiVersion": "storage.k8s.io/v1"}
        driver = {"name": "disk.example.com", "nodeID": "a", "allocatable": {"count": 1}}
        world.node("a")
        world.add({**storage, "kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [driver]}})
        for name in ("old", "new"):
            spec: dict[str, object] = {"csi": {"driver": "disk.example.com", "volumeHandle": name}}
            spec["claimRef"] = {"namespace": "default", "name": name}
            world.add(
                {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
            )
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        metadata: dict[str, object] = {"name": "new", "namespace": "default", "annotations": bound}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        world.add({**claim, "spec": {"volumeName": "new"}, "status": {"phase": "Bound"}})
        spec = {
            "attacher": "disk.example.com",
            "nodeName": "a",
            "source": {"persistentVolumeName": "old"},
        }
        world.add({**storage, "kind": "VolumeAttachment", "metadata": {"name": "one"}, "spec": spec})
        world.pod("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "new"}}])
        await world.settle()
        assert world.node_of("p") == ""
        assert world.request("DELETE", "/apis/storage.k8s.io/v1/volumeattachments/one") == 200
        await world.settle()
        assert world.node_of("p") == "a"

    in_world(story)


def test_pods_of_other_schedulers_are_counted_and_left_alone() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.pod("foreign", schedulerName="default-scheduler", nodeName="a")
        world.pod("waiting-foreign", schedulerName="default-scheduler")
        world.pod("ours")
        await world.settle()
        assert world.node_of("ours") == ""
        assert world.node_of("waiting-foreign") == ""
        assert world.why("waiting-foreign") == ""

    in_world(story)


@pytest.mark.parametrize("annotation", ["gpufleet.io/gpu-fraction", "gpu-fraction"])
def test_fractions_share_a_device_within_its_capacity(annotation: str) -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1, shares=True)
        for number in range(3):
            slot = {"gpufleet.io/gpu-share": "1"}
            world.pod(f"p{number}", gpus=0, annotations={annotation: "0.5"}, resources=slot)
        await world.settle()
        placed = [f"p{number}" for number in range(3) if world.node_of(f"p{number}")]
        assert len(placed) == 2
        granted = [world.grant_of(name)["containers"]["main"][0] for name in placed]
        assert [one["gpuMilli"] for one in granted] == [500, 500]
        assert [one["memoryMiB"] for one in granted] == [40000, 40000]

    in_world(story)


def test_a_malformed_pod_is_told_so_and_harms_nobody() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2, shares=True)
        world.pod(
            "bad",
            gpus=0,
            annotations={"gpufleet.io/gpu-fraction": "1_0"},
            resources={"gpufleet.io/gpu-share": "1"},
        )
        world.pod("good", gpus=1)
        await world.settle()
        assert world.node_of("good") == "a"
        assert "gpufleet.io/gpu-fraction" in world.why("bad")

    in_world(story)


@pytest.mark.parametrize(
    "amounts", [{"nvidia.com/gpu": "1", "amd.com/gpu": "1"}, {"memory": "9223372036854775807Ki"}]
)
def test_a_running_pod_that_cannot_be_read_harms_nobody(amounts: dict[str, str]) -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.node("b", gpus=2)
        world.pod("strange", gpus=0, resources=amounts, schedulerName="other", nodeName="a")
        world.pod("good", gpus=2)
        await world.settle()
        assert world.node_of("good") == ("b" if "amd.com/gpu" in amounts else world.node_of("good"))
        assert world.node_of("good")

    in_world(story)


def test_gpus_of_another_vendor_are_not_taken_for_those_asked_for() -> None:
    async def story(world: World) -> None:
        world.node("nvidia", gpus=2)
        world.pod("p", gpus=0, resources={"amd.com/gpu": "1"})
        world.pod("q", gpus=1)
        await world.settle()
        assert (world.node_of("p"), world.node_of("q")) == ("", "nvidia")
        assert "whose GPUs have another resource name" in world.why("p")

    in_world(story)


def test_a_gated_pod_waits_for_its_gates() -> None:
    async def story(world: World) -> None:
        world.node("a")
        world.pod("p", schedulingGates=[{"name": "example.com/quota"}])
        await world.settle()
        assert world.node_of("p") == ""
        opened: dict[str, object] = {"spec": {"schedulingGates": []}}
        assert world.request("PATCH", "/api/v1/namespaces/default/pods/p", opened) == 200
        await world.settle()
        assert world.node_of("p") == "a"

    in_world(story)


def test_a_node_that_rejects_pods_is_left_alone() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=8)
        for number in range(3):
            world.pod(f"p{number}")
        await world.settle()
        for number in range(3):
            world.finish(f"p{number}", "Failed", "OutOfcpu")
        world.node("b", gpus=8)
        world.pod("next")
        await world.settle()
        assert world.node_of("next") == "b"

    in_world(story)


def test_a_pod_that_was_put_on_a_node_with_impossible_amounts_harms_nobody() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=2)
        world.pod("gpus", gpus=10**9, nodeName="a")
        world.pod("cpu", gpus=0, resources={"cpu": "1e18"}, nodeName="a")
        world.pod("p", gpus=2)
        await world.settle()
        assert world.node_of("p") == "a"

    in_world(story)


def test_what_a_user_writes_into_the_status_decides_nothing() -> None:
    async def story(world: World) -> None:
        world.node("a", gpus=1)
        world.node("b", gpus=1, unschedulable=True)
        world.pod("p", gpus=2)
        await world.settle()
        told = [{"type": "PodScheduled", "status": "True", "reason": "Mine", "message": "it runs"}]
        status = {"status": {"conditions": told, "nominatedNodeName": "b"}}
        assert world.request("PATCH", "/api/v1/namespaces/default/pods/p/status", status) == 200
        await world.settle(60.0)
        assert world.node_of("p") == ""
        assert "needs 2 whole GPUs" in world.why("p")

    in_world(story)
