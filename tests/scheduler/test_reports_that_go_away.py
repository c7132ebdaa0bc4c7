"""A report that goes away, comes back older, or names other GPUs gives nothing to two pods."""

from typing import Any

import pytest

from tests.scheduler.world import World, in_world

REPORT = "/apis/gpufleet.io/v1alpha1/nodedevices/a"
KIND = ("gpufleet.io", "nodedevices")


def running(world: World) -> list[str]:
    """The pods of ours that have a node."""
    return sorted(
        pod["metadata"]["name"] for pod in world.objects("/api/v1/pods") if pod["spec"].get("nodeName")
    )


def put_report(world: World, spec: Any) -> None:
    """A report is there that says just this."""
    report = {"apiVersion": "gpufleet.io/v1alpha1", "kind": "NodeDevices", "metadata": {"name": "a"}}
    at_s = world.clock.monotonic_s()
    metadata = {"name": "a", "uid": "report-a"}
    world.server.store.put(
        KIND, ("", "a"), {**report, "metadata": metadata, "spec": spec}, at_s=at_s, user="x"
    )


def listed(*ids: str) -> list[dict[str, Any]]:
    """Healthy devices of these ids."""
    model = {"model": "NVIDIA-H100-80GB-HBM3", "memoryMiB": 81559, "usableMemoryMiB": 80000}
    return [{"id": one, "sharing": "whole", "health": "healthy", **model} for one in ids]


async def full_node(world: World, pods: int = 8) -> None:
    """A node with 8 GPUs, so many of them in use."""
    world.node("a")
    for number in range(pods):
        world.pod(f"first-{number}")
    await world.settle()
    assert len(running(world)) == pods


def more(world: World, pods: int = 8) -> None:
    """More pods come."""
    for number in range(pods):
        world.pod(f"more-{number}")


@pytest.mark.parametrize("pods", [1, 8])
def test_a_node_whose_report_was_deleted_gets_no_gpu_work_until_it_reports_again(pods: int) -> None:
    async def story(world: World) -> None:
        await full_node(world, pods)
        before = world.get("first-0")
        assert world.request("DELETE", REPORT) == 200
        await world.settle(5)
        more(world)
        world.pod("plain", gpus=0)
        await world.settle()
        assert running(world) == [*(f"first-{number}" for number in range(pods)), "plain"]
        assert "of 1 node 1 without a readable report of their GPUs (NodeDevices)" in world.why("more-0")
        assert any("readable report" in note for note in world.events("FailedScheduling"))
        world.report("a", gpus=8)
        await world.settle()
        assert len(running(world)) == 8 + 1
        granted = [world.devices_of(name)[0] for name in running(world) if name != "plain"]
        assert sorted(granted) == [f"GPU-a-{number}" for number in range(8)]
        assert world.get("first-0")["spec"] == before["spec"]

    in_world(story)


def test_a_scheduler_that_starts_without_the_report_places_nothing_beside_named_devices() -> None:
    async def story(world: World) -> None:
        await full_node(world, 3)
        await world.stop()
        assert world.request("DELETE", REPORT) == 200
        more(world)
        world.start()
        await world.settle(60)
        assert len(running(world)) == 3
        assert "readable report" in world.why("more-0")

    in_world(story)


def test_a_node_whose_last_named_device_was_given_back_is_counted_by_its_kubelet() -> None:
    async def story(world: World) -> None:
        await full_node(world, 1)
        assert world.request("DELETE", REPORT) == 200
        await world.settle(5)
        more(world)
        await world.settle()
        assert running(world) == ["first-0"]
        world.finish("first-0")
        await world.settle()
        assert len(running(world)) == 1 + 8
        assert world.devices_of("more-0") == []

    in_world(story)


def test_a_node_of_an_agent_gets_no_gpu_work_without_its_report_even_if_it_is_empty() -> None:
    async def story(world: World) -> None:
        world.node("a", devices=False)
        told = {"type": "gpufleet.io/GPUHealthy", "status": "True", "reason": "AllHealthy"}
        world.request("PATCH", "/api/v1/nodes/a/status", {"status": {"conditions": [told]}})
        world.pod("p")
        world.pod("plain", gpus=0)
        await world.settle()
        assert running(world) == ["plain"]
        assert "readable report" in world.why("p")
        world.report("a", gpus=8)
        await world.settle()
        assert world.devices_of("p")

    in_world(story)


@pytest.mark.parametrize("spec", [
    "none",
    {"devices": "none"},
    {"devices": [{"id": ""}]},
    {"devices": [{"id": "GPU-a-0", "sharing": "sometimes"}]},
    {"devices": [{"id": "GPU-a-0", "health": "well"}]},
    {"devices": [{"id": "GPU-a-0"}, {"id": "GPU-a-0"}]},
    {"devices": [{"id": "GPU-a-0", "memoryMiB": -1}]},
    {"devices": []},
])  # fmt: skip
@pytest.mark.parametrize("anew", [False, True])
def test_a_report_that_cannot_be_read_or_lists_nothing_counts_as_none(spec: Any, anew: bool) -> None:
    async def story(world: World) -> None:
        await full_node(world, 2)
        if anew:
            await world.stop()
        put_report(world, spec)
        if not anew:
            await world.settle(5)
        more(world)
        world.pod("plain", gpus=0)
        if anew:
            world.start()
        await world.settle(60)
        assert running(world) == ["first-0", "first-1", "plain"]
        assert "readable report" in world.why("more-0")

    in_world(story)


def test_an_older_report_without_its_holders_frees_nothing() -> None:
    async def story(world: World) -> None:
        await full_node(world, 5)
        devices = listed(*(f"GPU-a-{number}" for number in range(8)))
        put_report(world, {"bootID": "another", "devices": devices, "holders": []})
        more(world)
        await world.settle()
        assert len(running(world)) == 8
        granted = [world.devices_of(name)[0] for name in running(world)]
        assert len(set(granted)) == 8

    in_world(story)


def test_an_older_report_whose_holders_have_gone_frees_nothing_until_the_agent_reports_again() -> None:
    async def story(world: World) -> None:
        await full_node(world, 5)
        devices = listed(*(f"GPU-a-{number}" for number in range(8)))
        gone = [{"device": f"GPU-a-{number}", "podUID": f"gone-{number}"} for number in range(8)]
        put_report(world, {"devices": devices, "holders": gone})
        await world.settle()
        more(world)
        await world.settle()
        assert len(running(world)) == 5
        put_report(world, {"devices": devices, "holders": []})
        await world.settle()
        assert len(running(world)) == 8
        assert len({world.devices_of(name)[0] for name in running(world)}) == 8

    in_world(story)


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize(("ids", "expected"), [
    ([f"GPU-other-{number}" for number in range(8)], 8),
    ([f"GPU-a-{number}" for number in range(4)], 8),
    ([*(f"GPU-a-{number}" for number in range(4)), *(f"GPU-other-{number}" for number in range(4))], 8),
])  # fmt: skip
def test_a_report_with_other_devices_leaves_no_more_room_than_the_kubelet_counts(
    ids: list[str], expected: int, anew: bool
) -> None:
    async def story(world: World) -> None:
        await full_node(world, 6)
        if anew:
            await world.stop()
        put_report(world, {"devices": listed(*ids)})
        if not anew:
            await world.settle(5)
        more(world)
        if anew:
            world.start()
        await world.settle(60)
        assert len(running(world)) <= expected
        granted = [world.devices_of(name)[0] for name in running(world)]
        assert len(set(granted)) == len(granted)
        # The agent's next report says how it is.
        put_report(world, {"devices": listed(*(f"GPU-a-{number}" for number in range(8)))})
        await world.settle()
        granted = [
            one for one in (world.devices_of(name)[0] for name in running(world)) if "other" not in one
        ]
        assert len(set(granted)) == len(granted)
        assert len(running(world)) == 8

    in_world(story)


@pytest.mark.parametrize("anew", [False, True])
def test_a_node_without_its_report_has_no_more_gpus_than_its_kubelet_counts_whatever_names_pods_hold(
    anew: bool,
) -> None:
    async def story(world: World) -> None:
        await full_node(world, 6)
        usual = [f"GPU-a-{number}" for number in range(8)]
        put_report(world, {"devices": listed(*usual[:7], "GPU-a-other")})
        # Reports and pods come by streams of their own: the pods shall be decided by this report.
        await world.settle(1)
        more(world, 2)
        await world.settle()
        assert "GPU-a-other" in {world.devices_of(name)[0] for name in running(world)}
        put_report(world, {"devices": listed(*usual)})
        await world.settle(5)
        put_report(world, {"devices": []})
        await world.settle(5)
        if anew:
            await world.stop()
            world.start()
        world.pod("huge", gpus=9)
        await world.settle(60)
        assert "1 with fewer GPUs than asked for" in world.why("huge")

    in_world(story)


@pytest.mark.parametrize("anew", [False, True])
def test_a_node_made_anew_under_its_name_while_pods_run_there_gives_nothing_twice(anew: bool) -> None:
    async def story(world: World) -> None:
        await full_node(world, 4)
        if anew:
            await world.stop()
        assert world.request("DELETE", REPORT) == 200
        assert world.request("DELETE", "/api/v1/nodes/a") == 200
        await world.clock.sleep(1)
        world.node("a", devices=False)
        more(world)
        if anew:
            world.start()
        await world.settle(60)
        assert len(running(world)) == 4
        world.report("a", gpus=8)
        await world.settle()
        assert len({world.devices_of(name)[0] for name in running(world)}) == 8

    in_world(story)


def test_a_kubelet_that_counts_no_gpu_for_a_while_frees_nothing() -> None:
    async def story(world: World) -> None:
        await full_node(world, 4)
        for report in (True, False):
            if not report:
                assert world.request("DELETE", REPORT) == 200
            world.request(
                "PATCH", "/api/v1/nodes/a/status", {"status": {"allocatable": {"nvidia.com/gpu": "0"}}}
            )
            await world.settle(5)
            if report:
                more(world)
            await world.settle(5)
            assert len(running(world)) == 4
        world.request("PATCH", "/api/v1/nodes/a/status", {"status": {"allocatable": {"nvidia.com/gpu": "8"}}})
        await world.settle(5)
        assert len(running(world)) == 4
        world.report("a", gpus=8)
        await world.settle()
        assert len({world.devices_of(name)[0] for name in running(world)}) == 8

    in_world(story)


def test_shares_and_instances_are_no_exception() -> None:
    async def story(world: World) -> None:
        world.node("a", shares=True)
        half: dict[str, Any] = {"gpus": 0, "annotations": {"gpufleet.io/gpu-fraction": "0.5"}}
        slot = {"gpufleet.io/gpu-share": "1"}
        world.request(
            "PATCH", "/api/v1/nodes/a/status", {"status": {"allocatable": {"nvidia.com/mig-1g.10gb": "7"}}}
        )
        world.pod("share", resources=slot, **half)
        await world.settle()
        assert world.request("DELETE", REPORT) == 200
        await world.settle(5)
        world.pod("other-share", resources=slot, **half)
        world.pod("instance", gpus=0, resources={"nvidia.com/mig-1g.10gb": "1"})
        await world.settle()
        assert running(world) == ["share"]
        assert "readable report" in world.why("other-share")
        assert "readable report" in world.why("instance")

    in_world(story)


def test_a_cluster_without_agents_is_counted_by_its_kubelets_as_before() -> None:
    async def story(world: World) -> None:
        world.node("a", devices=False)
        more(world, 9)
        await world.settle()
        assert len(running(world)) == 8
        await world.stop()
        world.start()
        world.delete("more-0")
        await world.settle(60)
        assert len(running(world)) == 8

    in_world(story)


@pytest.mark.parametrize("anew", [False, True])
def test_pods_without_ids_count_when_their_node_names_its_gpus_at_last(anew: bool) -> None:
    async def story(world: World) -> None:
        world.node("a", devices=False)
        more(world, 5)
        await world.settle()
        for name in running(world):
            running_now = {"status": {"phase": "Running", "containerStatuses": [{"name": "main"}]}}
            world.request("PATCH", f"/api/v1/namespaces/default/pods/{name}/status", running_now)
        await world.settle(5)
        if anew:
            await world.stop()
            world.start()
            await world.settle(60)
        world.report("a", gpus=8)
        await world.settle(5)
        for number in range(8):
            world.pod(f"later-{number}")
        await world.settle()
        assert len(running(world)) == 8

    in_world(story)
