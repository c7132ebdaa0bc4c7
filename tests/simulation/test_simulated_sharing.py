"""What guides have people paste changes simulated nodes as it changes a node with an agent."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from gpufleet.devices.sharing.nvidia_places import NVIDIA_NAMES
from gpufleet.kube.client import Client
from gpufleet.kube.codec.grant import write_grant
from gpufleet.kube.keys import GRANT
from gpufleet.kube.manifests import DEFAULT_IDENTITY
from gpufleet.kube.transport import Request
from gpufleet.localkube import manifests, simulated_nodes
from gpufleet.localkube.simulated_nodes import SimulatedNodes, gpu_model
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice
from gpufleet.model.identifiers import DeviceId
from gpufleet.model.mig import MigInstance
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from gpufleet.simulation.simulated_sharing import SimulatedSharing
from gpufleet.simulation.virtual_loop import VirtualClock, VirtualLoop, run

Object = dict[str, Any]
PLACE = ("gpu-operator", "time-slicing-config")
CONFIG_LABEL = "nvidia.com/device-plugin.config"


def slices(replicas: int, more: str = "") -> str:
    """NVIDIA's configuration with so many replicas."""
    resources = f"[{{name: nvidia.com/gpu, replicas: {replicas}}}]"
    return f"version: v1\nsharing: {{timeSlicing: {{{more}resources: {resources}}}}}"


class World:
    """A cluster with simulated nodes, in virtual time."""

    def __init__(self, loop: VirtualLoop, folder: Path) -> None:
        self.clock = VirtualClock(loop)
        self.folder = folder
        self.server = ApiServer(self.clock, Random(1))
        self.life: asyncio.Task[None] | None = None
        self.puts({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE[0]}})

    def adds(self, nodes: SimulatedNodes) -> None:
        """As `gpufleet up` makes them."""
        for number in range(nodes.first, nodes.first + nodes.count):
            name = f"{nodes.prefix}{number}"
            self.puts(simulated_nodes.node(name, nodes))
            self.puts(simulated_nodes.report("c", name, nodes))

    def puts(self, body: Object) -> None:
        """An object that is there now."""
        self.server.add(body)

    def pastes(self, text: str, key: str = "any") -> None:
        """The ConfigMap of a guide."""
        metadata = {"namespace": PLACE[0], "name": PLACE[1]}
        self.puts({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: text}})

    def asks(self, method: str, path: str, body: object = None) -> Object:
        """The answer to a request, which must be a good one."""
        raw = b"" if body is None else msgspec.json.encode(body)
        request = Request(method, path, raw, content_type="application/merge-patch+json")
        answer = self.server.answer(request, "system:masters")
        assert answer.status == 200, answer.body
        found: Object = msgspec.json.decode(answer.body)
        return found

    def deletes_config(self) -> None:
        """Nobody shares any more."""
        self.asks("DELETE", "/api/v1/namespaces/{}/configmaps/{}".format(*PLACE))

    def starts(self) -> None:
        """The program starts, or starts again."""
        if self.life is not None:
            self.life.cancel()
        wire = SimulatedTransport(self.server, "system:masters", Random(2))
        self.life = asyncio.ensure_future(
            SimulatedSharing(Client(wire, self.clock, Random(3)), self.folder).run()
        )

    async def settles(self) -> None:
        """A minute goes by, within which a pasted ConfigMap counts."""
        await self.clock.sleep(60.0)
        assert self.life is not None
        if self.life.done():
            self.life.result()

    def amounts(self, node: str = "gpu-1") -> dict[str, str]:
        """What the node has to give of GPUs."""
        found = self.asks("GET", f"/api/v1/nodes/{node}")["status"]
        assert {name: found["capacity"].get(name) for name in found["allocatable"]} == found["allocatable"]
        return {name: count for name, count in found["allocatable"].items() if "gpu" in name or "mig" in name}

    def label(self, name: str, node: str = "gpu-1") -> str | None:
        """A label of NVIDIA's."""
        labels: dict[str, str] = self.asks("GET", f"/api/v1/nodes/{node}")["metadata"]["labels"]
        return labels.get(f"nvidia.com/gpu.{name}")

    def devices(self, node: str = "gpu-1") -> list[Object]:
        """What its report has."""
        found: list[Object] = self.asks("GET", f"/apis/gpufleet.io/v1alpha1/nodedevices/{node}")["spec"][
            "devices"
        ]
        return found

    def events(self, reason: str) -> list[str]:
        """The notes of Events with this reason."""
        found = self.asks("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        return [one["note"] for one in found if one["reason"] == reason]

    def runs(self, name: str, device: str, node: str = "gpu-1") -> None:
        """A pod that was granted this device."""
        grant = write_grant(Grant(1, (ContainerGrant("main", (GrantedDevice(DeviceId(device)),)),)))
        metadata = {"name": name, "namespace": "default", "annotations": {GRANT: grant}}
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "any"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.server.add({**pod, "status": {"phase": "Running"}}, user=DEFAULT_IDENTITY.user)

    def ends(self, name: str) -> None:
        """The pod is over."""
        path = f"/api/v1/namespaces/default/pods/{name}/status"
        self.asks("PATCH", path, {"status": {"phase": "Succeeded"}})


def in_world(story: Callable[[World], Awaitable[None]], folder: Path) -> None:
    """Play a story."""

    async def work(loop: VirtualLoop) -> None:
        world = World(loop, folder)
        try:
            await story(world)
        finally:
            if world.life is not None:
                world.life.cancel()

    run(work)


def nodes(count: int = 1, gpus: int = 2, model: str = "H100-80GB", **more: Any) -> SimulatedNodes:
    return SimulatedNodes(count, gpus, gpu_model(model), **more)


WHOLE = {"nvidia.com/gpu": "2", "gpufleet.io/gpu-share": "200"}
SHARED = {"nvidia.com/gpu": "8", "gpufleet.io/gpu-share": "0"}


def test_time_slices_are_offered_and_end_with_the_config(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(nodes(2))
        before = world.devices()
        world.starts()
        await world.settles()
        assert world.amounts() == WHOLE
        world.pastes(slices(4))
        await world.settles()
        assert (world.amounts("gpu-1"), world.amounts("gpu-2")) == (SHARED, SHARED)
        assert (world.label("product"), world.label("replicas")) == ("NVIDIA-H100-80GB-HBM3-SHARED", "4")
        assert len(world.devices()) == 8
        assert {one["usableMemoryMiB"] for one in world.devices()} == {81920 // 4}
        said = "ConfigMap gpu-operator/time-slicing-config, key any is taken over: 2 GPUs are offered as 8"
        assert world.events("SharingConfigTaken") == [f"{said} nvidia.com/gpu"] * 2
        world.deletes_config()
        await world.settles()
        assert (world.amounts(), world.label("replicas")) == (WHOLE, None)
        assert world.label("product") == "NVIDIA-H100-80GB-HBM3"
        assert [one["id"] for one in world.devices()] == [one["id"] for one in before]
        assert {one["sharing"] for one in world.devices()} == {"mixed"}

    in_world(story, tmp_path)


def test_a_gpu_that_a_pod_holds_changes_when_the_pod_has_ended(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(nodes())
        world.runs("train", world.devices()[0]["id"])
        world.starts()
        world.pastes(slices(4))
        await world.settles()
        assert world.amounts() == {"nvidia.com/gpu": "5", "gpufleet.io/gpu-share": "100"}
        world.starts()
        await world.settles()
        assert world.amounts()["nvidia.com/gpu"] == "5"
        world.ends("train")
        await world.settles()
        assert world.amounts() == SHARED

    in_world(story, tmp_path)


def test_a_config_that_was_deleted_while_the_program_was_away_ends_too(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(nodes())
        world.starts()
        world.pastes(slices(4))
        await world.settles()
        assert world.life is not None
        world.life.cancel()
        world.deletes_config()
        world.starts()
        await world.settles()
        assert world.amounts() == WHOLE

    in_world(story, tmp_path)


def test_renamed_slices_are_a_resource_of_their_own(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(nodes())
        world.starts()
        world.pastes(slices(4, more="renameByDefault: true, "))
        await world.settles()
        assert world.amounts() == {
            "nvidia.com/gpu": "0",
            "nvidia.com/gpu.shared": "8",
            "gpufleet.io/gpu-share": "0",
        }
        world.deletes_config()
        await world.settles()
        assert world.amounts() == WHOLE

    in_world(story, tmp_path)


def test_the_label_of_a_node_chooses_the_key(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(nodes(2))
        world.starts()
        world.pastes(slices(4), key="h100")
        world.asks("PATCH", "/api/v1/nodes/gpu-2", {"metadata": {"labels": {CONFIG_LABEL: "no-such"}}})
        await world.settles()
        assert (world.amounts("gpu-1"), world.amounts("gpu-2")) == (SHARED, WHOLE)
        assert "no-such" in world.events("SharingConfigRefused")[0]

    in_world(story, tmp_path)


def test_the_program_may_read_the_configs_of_the_guides_alone() -> None:
    role = next(
        one
        for one in manifests.documents(manifests.USUAL_OBJECTS)
        if one["kind"] == "ClusterRole" and one["metadata"]["name"] == "simulated-sharing"
    )
    (rule,) = (rule for rule in role["rules"] if "configmaps" in rule["resources"])
    assert rule["resourceNames"] == list(NVIDIA_NAMES)


@pytest.mark.parametrize(
    "others",
    [
        nodes(model="MI300X"),
        nodes(gpus=0),
    ],
    ids=str,
)
def test_other_nodes_stay_as_they_are(others: SimulatedNodes, tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(others)
        before = world.amounts()
        world.starts()
        world.pastes(slices(4))
        await world.settles()
        assert world.amounts() == before
        assert world.events("SharingConfigTaken") == []

    in_world(story, tmp_path)


SEVENTHS = tuple(MigInstance(profile="1g.10gb", start=start) for start in range(7))
CUT_NODE = nodes(model="A100-80GB", mig=SEVENTHS)
INSTANCE = "nvidia.com/mig-1g.10gb"


def of_instances(replicas: int, more: str = "") -> str:
    """NVIDIA's configuration that shares MIG instances."""
    resources = f"[{{name: {INSTANCE}, replicas: {replicas}}}]"
    return f"version: v1\nsharing: {{timeSlicing: {{{more}resources: {resources}}}}}"


def test_mig_instances_are_shared_by_their_name_and_whole_again_without_the_config(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(CUT_NODE)
        path = "/api/v1/nodes/gpu-1"
        as_made = world.asks("GET", path)["metadata"]["labels"]
        world.starts()
        world.pastes(of_instances(4))
        await world.settles()
        assert world.amounts() == {INSTANCE: str(2 * 7 * 4)}
        labels = world.asks("GET", path)["metadata"]["labels"]
        assert labels[f"{INSTANCE}.replicas"] == "4"
        assert labels[f"{INSTANCE}.count"] == "14"
        assert labels[f"{INSTANCE}.product"].endswith("-MIG-1g.10gb-SHARED")
        said = "ConfigMap gpu-operator/time-slicing-config, key any is taken over: 2 GPUs are offered as 56"
        assert world.events("SharingConfigTaken") == [f"{said} {INSTANCE}"]
        assert world.life is not None
        world.life.cancel()
        world.deletes_config()
        world.starts()
        await world.settles()
        assert world.amounts() == {INSTANCE: "14"}
        assert world.asks("GET", path)["metadata"]["labels"] == as_made

    in_world(story, tmp_path)


def test_renamed_shares_of_mig_instances_are_a_resource_of_their_own(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(CUT_NODE)
        world.starts()
        world.pastes(of_instances(2, more="renameByDefault: true, "))
        await world.settles()
        assert world.amounts() == {INSTANCE: "0", f"{INSTANCE}.shared": "28"}
        world.deletes_config()
        await world.settles()
        assert world.amounts() == {INSTANCE: "14"}

    in_world(story, tmp_path)


def test_the_single_strategy_offers_instances_as_gpus(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(CUT_NODE)
        before = world.devices()
        world.starts()
        world.pastes("version: v1\nflags: {migStrategy: single}")
        await world.settles()
        assert world.amounts() == {INSTANCE: "0", "nvidia.com/gpu": "14"}
        assert len(world.devices()) == 14
        assert (world.label("product") or "").endswith("-MIG-1g.10gb")
        world.starts()
        world.deletes_config()
        await world.settles()
        assert world.amounts() == {INSTANCE: "14"}
        assert [one["id"] for one in world.devices()] == [one["id"] for one in before]
        assert {one["sharing"] for one in world.devices()} == {"mig"}

    in_world(story, tmp_path)


def test_a_config_for_whole_gpus_leaves_instances_and_says_so(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(CUT_NODE)
        world.starts()
        world.pastes(slices(4))
        await world.settles()
        assert world.amounts() == {INSTANCE: "14"}
        (said,) = world.events("SharingConfigTaken")
        assert f"no device of that name, as its GPUs are cut into {INSTANCE}" in said

    in_world(story, tmp_path)


def test_a_config_beside_nvidias_plugin_is_left_to_the_plugin(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.adds(nodes())
        plugin = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": "kube-system",
                "name": "plugin-1",
                "labels": {"name": "nvidia-device-plugin-ds"},
            },
            "spec": {"nodeName": "gpu-1", "containers": [{"name": "main", "image": "x"}]},
        }
        world.puts(plugin)
        world.starts()
        world.pastes(slices(4))
        await world.settles()
        assert world.amounts() == WHOLE
        assert world.events("SharingConfigTaken") == []
        (said,) = world.events("SharingConfigLeft")
        assert "the device plugin that serves this node (pod kube-system/plugin-1)" in said

    in_world(story, tmp_path)
