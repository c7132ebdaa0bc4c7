"""The configuration reaches the kubelet and the containers, and an edit does without a restart."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from gpufleet.agent.device_plugin.delivery import Delivery
from gpufleet.agent.device_plugin.kubelet_link import GrpcKubeletLink
from gpufleet.agent.device_plugin.registration import KubeletRegistration
from gpufleet.agent.device_plugin.whole_device_registrar import Setup, WholeDeviceRegistrar
from gpufleet.agent.reports.node_report import node_report
from gpufleet.agent.settings import AgentSettings
from gpufleet.agent.sharing import sharing_texts
from gpufleet.agent.sharing.mps import MpsOptions
from gpufleet.agent.sharing.sharing import Sharing, SharingSetup
from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.agent.state.state_errors import RefusedError
from gpufleet.agent.units.node_units import node_units
from gpufleet.devices.sharing.plan import Fractions, Mps
from gpufleet.kube import keys
from gpufleet.kube.client import Client
from gpufleet.kube.clock import MachineClock
from gpufleet.model.grant import GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId
from gpufleet.simulation.api_server import ApiServer
from gpufleet.simulation.network import SimulatedTransport
from tests.agent.plugin_world import GPU, SIMULATED, PluginWorld, a_gpu, a_node, a_pod, held, pods_of
from tests.agent.small_kubelet import SmallKubelet
from tests.devices.fleets import fleet_of

ONE = fleet_of("model: H100-80GB").gpus
UUID = ONE[0].uuid


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, as paths of sockets must be."""
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as made:
        yield Path(made)


class Scene:
    """A kubelet and the part of the agent between a configuration's file and it."""

    def __init__(self, folder: Path, strategies: tuple[str, ...] | None = None) -> None:
        clock = MachineClock()
        server = ApiServer(clock, Random(1))
        server.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}})
        client = Client(SimulatedTransport(server, "system:masters", Random(2)), clock, Random(3))
        self.file = folder / "sharing.yaml"
        self.world = PluginWorld(NodeGpus("node-1"))
        (folder / "sockets").mkdir()
        self.kubelet = SmallKubelet(folder / "sockets")
        self.registration = KubeletRegistration(MachineClock(), GrpcKubeletLink(folder / "sockets"))
        mps = MpsOptions(root=folder / "mps")
        setup = SharingSetup(self.file, folder, mps=mps, simulated=True, strategies=strategies)
        known = self.world.known
        self.sharing = Sharing(client, "node-1", setup, known.pods, known.holders, lambda: True)
        daemons = self.sharing.daemons(known.gpus)
        keeping = Setup(self.sharing.delivery(SIMULATED), folder / "cdi")
        registrar = WholeDeviceRegistrar(
            msgspec.structs.replace(known, clock=clock), self.registration, keeping
        )
        self.parts = [
            self.sharing.run,
            daemons.run,
            lambda: self.sharing.follow_delivery(registrar, SIMULATED),
            registrar.run,
            self.registration.run,
            self.watch,
        ]

    async def watch(self) -> None:
        """As the monitor does."""
        await self.sharing.then(self._watch)

    async def _watch(self) -> None:
        async for planner in self.sharing.source.planner.follow():
            plans = planner(ONE)
            gpus = tuple(Gpu(facts, plans.plan(facts)) for facts in ONE)
            self.world.known.gpus.publish(a_node(*gpus))


def told(
    folder: Path,
    text: str,
    story: Callable[[Scene], Awaitable[None]],
    strategies: tuple[str, ...] | None = None,
) -> None:
    async def run() -> None:
        scene = Scene(folder, strategies)
        scene.file.write_text(text, encoding="utf-8")
        await scene.kubelet.start()
        parts = [asyncio.ensure_future(part()) for part in scene.parts]
        try:
            await story(scene)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            await scene.kubelet.stop()

    asyncio.run(run())


def in_turns(replicas: int, strategy: str = "cdi-cri") -> str:
    """NVIDIA's config file with so many replicas and this way of handing devices out."""
    shared = f"timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]}}"
    return f"version: v1\nflags: {{plugin: {{deviceListStrategy: {strategy}}}}}\nsharing: {{{shared}}}"


def test_an_edit_changes_what_the_kubelet_is_offered_and_what_containers_get(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing_texts, "POLL_EVERY_S", 0.05)

    async def story(scene: Scene) -> None:
        await scene.kubelet.sees(GPU, [f"{UUID}::0", f"{UUID}::1"])
        given = await scene.kubelet.allocate(GPU, [f"{UUID}::1"])
        assert [one.name for one in given.cdi_devices] == [f"gpufleet.io/gpu={UUID}"]
        scene.file.write_text(in_turns(3, "envvar"), encoding="utf-8")
        await scene.kubelet.sees(GPU, [f"{UUID}::{number}" for number in range(3)])
        given = await scene.kubelet.allocate(GPU, [f"{UUID}::2"])
        assert given.envs["NVIDIA_VISIBLE_DEVICES"] == UUID
        assert not given.cdi_devices

    told(folder, in_turns(2), story)


@pytest.mark.parametrize("flags", ["", "flags: {plugin: {deviceListStrategy: envvar}}\n"])
def test_a_config_of_nvidias_plugin_changes_nothing_about_how_containers_get_devices(
    folder: Path, flags: str
) -> None:
    """The plugin's default is the variable, which a pod can overrule; the agent's own option decides."""

    async def story(scene: Scene) -> None:
        await scene.kubelet.sees(GPU, [f"{UUID}::0", f"{UUID}::1"])
        given = await scene.kubelet.allocate(GPU, [f"{UUID}::1"])
        assert [one.name for one in given.cdi_devices] == [f"gpufleet.io/gpu={UUID}"]
        assert "NVIDIA_VISIBLE_DEVICES" not in given.envs

    shared = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}"
    told(folder, f"version: v1\n{flags}{shared}", story, AgentSettings("node-1").strategies)


def test_a_container_with_a_replica_of_mps_is_a_client_of_its_daemon(folder: Path) -> None:
    async def story(scene: Scene) -> None:
        await scene.kubelet.sees(GPU, [f"{UUID}::0", f"{UUID}::1"])
        assert scene.sharing.mps is not None
        async with asyncio.timeout(20):
            async for ready in scene.sharing.mps.ready.follow():
                if ready:
                    break
        given = await scene.kubelet.allocate(GPU, [f"{UUID}::1"])
        pipe = given.envs["CUDA_MPS_PIPE_DIRECTORY"]
        mounts = {mount.container_path: (mount.host_path, mount.read_only) for mount in given.mounts}
        assert mounts[pipe] == (f"{folder}/mps/{UUID}/pipe", False)
        assert (folder / "mps" / UUID / "pipe").is_dir()

    entry = "{gpus: rest, mps: {clients: 2}}"
    told(folder, f"version: gpufleet.io/v1alpha1\npools: {{default: [{entry}]}}", story)


def delivery_of(folder: Path) -> Delivery:
    """A delivery whose daemons do not run."""

    async def make() -> Delivery:
        scene = Scene(folder)
        return scene.sharing.delivery(SIMULATED)

    return asyncio.run(make())


def test_nobody_is_started_without_limits_while_the_daemon_is_away(folder: Path) -> None:
    node = a_node(a_gpu(0, Mps(2, 1024, 50)), a_gpu(1, Mps(2, 1024, 50)))
    units, delivery = node_units(node), delivery_of(folder)
    with pytest.raises(RefusedError, match="MPS daemon of GPU-0 does not run"):
        delivery.give(node, [units["GPU-0::0"]])
    with pytest.raises(RefusedError, match="client of MPS on one GPU only"):
        delivery.give(node, [units["GPU-0::0"], units["GPU-1::0"]])


def test_a_pod_above_its_share_is_named_in_the_report_and_its_neighbour_is_not() -> None:
    share = GrantedDevice(DeviceId("GPU-0"), GrantKind.SHARE, 500, 8000)
    pods = pods_of(*(a_pod(name, 1, grant=[share], resource=keys.GPU_SHARE) for name in ("greedy", "modest")))
    holders = tuple(held(name, f"slot-{name}", resource=keys.GPU_SHARE) for name in ("greedy", "modest"))
    offenders = {("uid-greedy", DeviceId("GPU-0")): 9024}
    report = node_report(a_node(a_gpu(0, Fractions(10))), holders, pods, offenders)
    assert {one.pod_uid: one.used_memory_mib for one in report.holders} == {
        "uid-greedy": 9024,
        "uid-modest": None,
    }
