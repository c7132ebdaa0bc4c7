"""Whole devices for a grant alone, and no variable of a container's own that counts more than its grant."""

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from gpufleet.agent.device_plugin.delivery import BY_CDI, Delivery
from gpufleet.agent.device_plugin.driver_files import Root
from gpufleet.agent.device_plugin.static_devices import DeviceFiles
from gpufleet.agent.kubelet.pods import Pods
from gpufleet.agent.settings import AgentSettings
from gpufleet.agent.state.node_state import NodeGpus, NodePods
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.units.node_units import node_units
from gpufleet.devices.sharing.delivery_options import DeliveryOptions
from gpufleet.devices.sharing.plan import TimeSlice
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.grant import Grant
from gpufleet.model.model_errors import InputError
from tests.agent.api_world import AgentWorld, in_agent_world
from tests.agent.node_values import NODE
from tests.agent.plugin_world import (
    GPU,
    SIMULATED,
    PluginWorld,
    a_gpu,
    a_node,
    a_pod,
    answered,
    cut,
    held,
    instance,
)
from tests.agent.set_clock import SetClock

FOUR = a_node(*(a_gpu(index) for index in range(4)))
ALL = ["GPU-0", "GPU-1", "GPU-2", "GPU-3"]
BY_VARIABLE = DeliveryOptions(("envvar",))


def strict(world: PluginWorld) -> PluginWorld:
    """The same, where a grant is required."""
    world.known = msgspec.structs.replace(world.known, grant_required=True)
    return world


def given(world: PluginWorld, available: Sequence[str], size: int = 1, resource: str = GPU) -> list[str]:
    """What a container gets from a kubelet that follows our preference."""
    allocator = world.allocator(resource)
    units = answered(allocator.prefer(available, [], size))
    answered(allocator.allocate(units))
    return units


def refusals(world: PluginWorld, units: Sequence[str], resource: str = GPU) -> tuple[str, str]:
    """The words for a kubelet that asks which units are best, and for one that asks for these."""
    with pytest.raises(RefusedError) as preferred:
        answered(world.allocator(resource).prefer(units, [], len(units)))
    with pytest.raises(RefusedError) as asked:
        answered(world.allocator(resource).allocate(units))
    return str(preferred.value), str(asked.value)


def test_without_a_grant_nothing_is_given_though_all_is_free() -> None:
    for words in refusals(strict(PluginWorld(FOUR, a_pod("stranger", 1))), ["GPU-0"]):
        assert "team/stranger has no grant" in words
        assert "schedulerName" in words
        assert "--require-grant" in words


def test_whoever_asks_without_being_known_gets_nothing_either() -> None:
    for words in refusals(strict(PluginWorld(FOUR)), ["GPU-0"]):
        assert "not known" in words


@pytest.mark.parametrize(
    ("node", "resource", "unit"),
    [
        (a_node(a_gpu(0, TimeSlice(3))), GPU, "GPU-0::1"),
        (a_node(a_gpu(0, TimeSlice(3), renamed=True)), "nvidia.com/gpu.shared", "GPU-0::1"),
        (a_node(cut(0, "1g.5gb")), "nvidia.com/mig-1g.5gb", "MIG-0-0"),
        (a_node(a_gpu(0, vendor=Vendor.AMD)), "amd.com/gpu", "GPU-0"),
        (a_node(a_gpu(0, vendor=Vendor.INTEL, kernel_driver="i915")), "gpu.intel.com/i915", "GPU-0"),
    ],
)
def test_no_replica_no_instance_and_no_card_of_another_vendor_either(
    node: NodeGpus, resource: str, unit: str
) -> None:
    for words in refusals(
        strict(PluginWorld(node, a_pod("stranger", 1, resource=resource))), [unit], resource
    ):
        assert "has no grant" in words


def test_a_granted_pod_gets_its_grant_and_nothing_else_though_more_is_free() -> None:
    world = strict(PluginWorld(FOUR, a_pod("a", 2, grant=["GPU-1", "GPU-3"])))
    assert given(world, ALL, 2) == ["GPU-1", "GPU-3"]
    world.hold(held("a", "GPU-1", "GPU-3"))
    assert "not known" in refusals(world, ["GPU-0", "GPU-2"])[1]


def test_a_granted_instance_is_given() -> None:
    node = a_node(cut(0, "1g.5gb", "1g.5gb"))
    resource = "nvidia.com/mig-1g.5gb"
    world = strict(
        PluginWorld(node, a_pod("a", 1, grant=[instance("GPU-0", "1g.5gb", 1)], resource=resource))
    )
    assert given(world, ["MIG-0-0", "MIG-0-1"], resource=resource) == ["MIG-0-1"]


def test_a_granted_pod_is_not_turned_away_because_a_stranger_was_there_a_moment_ago() -> None:
    world = strict(PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-0"]), a_pod("stranger", 1)))

    clock = SetClock(world, lambda: world.add(a_pod("stranger", 1, finished=True)))
    world.known = msgspec.structs.replace(world.known, clock=clock)
    assert given(world, ALL) == ["GPU-0"]


def test_while_a_stranger_may_be_the_one_that_asks_it_gets_nothing_that_was_granted() -> None:
    world = strict(PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-0"]), a_pod("stranger", 1)))
    allocator = world.allocator()
    for units in (answered(allocator.prefer(ALL, [], 1)), ["GPU-1"]):
        with pytest.raises(RefusedError):
            answered(allocator.allocate(units))


def test_what_a_grant_of_devices_that_are_not_here_means_is_what_is_free() -> None:
    """A node whose report came after the Binding: the pod is counted, by no device's name."""
    world = strict(PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-gone"])))
    assert given(world, ["GPU-2"]) == ["GPU-2"]


@pytest.mark.parametrize(
    ("node", "resource", "unit"),
    [
        (FOUR, GPU, "GPU-2"),
        (a_node(a_gpu(0, TimeSlice(3), renamed=True)), "nvidia.com/gpu.shared", "GPU-0::1"),
        (a_node(cut(0, "1g.5gb")), "nvidia.com/mig-1g.5gb", "MIG-0-0"),
    ],
)
def test_a_grant_without_devices_gets_what_is_free(node: NodeGpus, resource: str, unit: str) -> None:
    """The scheduler counts replicas under another name and MIG instances as resources, without ids."""
    pod = msgspec.structs.replace(a_pod("a", 1, resource=resource), grant=Grant(epoch=1))
    assert given(strict(PluginWorld(node, pod)), [unit], resource=resource) == [unit]


def by_variable(world: PluginWorld, options: DeliveryOptions = BY_VARIABLE) -> str:
    """Why a container that was granted GPU-0 is refused where this is how it learns its devices."""
    try:
        answered(world.allocator(options=options).allocate(["GPU-0"]))
    except RefusedError as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("strategy", ["envvar", "volume-mounts"])
@pytest.mark.parametrize("own", ["names_devices", "imports_variables"])
def test_where_the_variable_tells_the_devices_a_container_with_its_own_is_refused(
    strategy: str, own: str
) -> None:
    names = own == "names_devices"
    pod = a_pod("a", 1, grant=["GPU-0"], names_devices=names, imports_variables=not names)
    world = PluginWorld(FOUR, pod)
    words = by_variable(world, DeliveryOptions((strategy,)))
    assert "container main of team/a" in words
    assert "cdi-cri" in words


def test_and_one_without_gets_its_devices() -> None:
    assert by_variable(PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-0"]))) == ""


def test_a_twin_that_may_be_the_one_that_asks_counts_too() -> None:
    twin = a_pod("b", 1, grant=["GPU-1"], names_devices=True)
    assert "team/b" in by_variable(PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-0"]), twin))
    stranger = a_pod("b", 1, names_devices=True)
    world = PluginWorld(FOUR, stranger)
    assert "team/b" in by_variable(world)


@pytest.mark.parametrize("strategies", [("cdi-cri",), ("cdi-annotations",), ("envvar", "cdi-cri")])
def test_with_cdi_it_gets_its_devices_and_the_log_says_what_its_variable_counts(
    strategies: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world = PluginWorld(FOUR, a_pod("a", 1, grant=["GPU-0"], names_devices=True))
    assert by_variable(world, DeliveryOptions(strategies)) == ""
    (line,) = [one for one in caplog.records if "counts for nothing" in one.getMessage()]
    assert (line.__dict__["pod"], line.__dict__["container"]) == ("team/a", "main")


@pytest.mark.parametrize(
    ("container", "named", "imported"),
    [
        ({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}, True, False),
        ({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}, False, False),
        ({"env": [{"name": "NVIDIA_VISIBLE_DEVICES"}]}, False, False),
        ({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"secretKeyRef": {}}}]}, True, False),
        ({"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "all"}]}, False, False),
        ({"envFrom": [{"configMapRef": {"name": "x"}}]}, False, True),
        (
            {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], "envFrom": [{"configMapRef": {}}]},
            False,
            False,
        ),
    ],
)
def test_what_a_container_says_of_devices_is_known(
    container: dict[str, object], named: bool, imported: bool
) -> None:
    async def story(world: AgentWorld) -> None:
        its = {"name": "main", "image": "x", "resources": {"limits": {GPU: "1"}}, **container}
        metadata = {"name": "a", "namespace": "team"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        made = world.add({**pod, "spec": {"nodeName": NODE, "containers": [its]}})
        uid = made["metadata"]["uid"]
        topic: Topic[NodePods] = Topic({})
        world.start(Pods(world.client, NODE, topic).run())
        await world.after(1.0)
        found = topic.value[uid]
        assert (bool(found.named_devices), bool(found.imported_variables)) == (named, imported)

    in_agent_world(story)


def test_amds_runtime_is_told_to_add_nothing_to_what_is_given() -> None:
    node = a_node(a_gpu(0, vendor=Vendor.AMD))
    found = Delivery(SIMULATED, BY_CDI).give(node, list(node_units(node).values()))
    assert found.environment["AMD_VISIBLE_DEVICES"] == "void"


def test_what_is_beside_the_gpus_comes_as_device_nodes_where_no_variable_is_heeded(tmp_path: Path) -> None:
    names = ("gdrdrv", "nvidia-fs0", "nvidia-fs1", "infiniband/uverbs0", "nvidia-caps-imex-channels/channel0")
    for name in names:
        path = tmp_path / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    node = a_node(a_gpu(0))
    options = DeliveryOptions(("cdi-cri",), gdrcopy=True, gds=True, mofed=True, imex_channels=(0,))
    found = Delivery(DeviceFiles(Root(tmp_path)), options).give(node, list(node_units(node).values()))
    assert {one.container_path for one in found.device_nodes} == {f"/dev/{name}" for name in names}
    assert "NVIDIA_GDS" not in found.environment


def test_how_containers_get_devices_is_said_by_the_agents_own_option() -> None:
    def strategies(*named: str) -> tuple[str, ...] | None:
        return AgentSettings(NODE, device_list_strategy=named).strategies

    assert AgentSettings(NODE).strategies == ("cdi-cri",)
    assert strategies("envvar", "cdi-cri", "envvar") == ("envvar", "cdi-cri")
    assert strategies("as-configured") is None
    with pytest.raises(InputError, match="as-configured alone"):
        strategies("as-configured", "envvar")
