"""Builders for tests of the plugin: a node's GPUs, pods with and without grants, and who holds what.

    node = a_node(a_gpu(0), a_gpu(1, plan=TimeSlice(4)), cut(2, "1g.5gb", "1g.5gb"))
    pods = pods_of(a_pod("a", 1, granted=["GPU-0"]), a_pod("stranger", 1))

GPUs are GPU-0, GPU-1 and so on; the instances of GPU-2 are MIG-2-0, MIG-2-1. Calls of allocators are
answered at once and in virtual time (``now``).
"""

from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from gpufleet.agent.device_plugin.delivery import BY_CDI, Delivery
from gpufleet.agent.device_plugin.static_devices import DeviceFiles
from gpufleet.agent.device_plugin.whole_device_allocator import AllocatorInputs, WholeDeviceAllocator
from gpufleet.agent.holders.holder_memory import HolderMemory, SeenHolder
from gpufleet.agent.state.node_state import Gpu, Held, Holders, NodeGpus, NodePod, NodePods
from gpufleet.agent.state.topic import Topic
from gpufleet.agent.units.node_units import node_units
from gpufleet.devices.facts import Driver, GpuFacts, Link, MigFacts
from gpufleet.devices.health import Verdict
from gpufleet.devices.sharing.delivery_options import DeliveryOptions
from gpufleet.devices.sharing.plan import Exclusive, Mig, Mode, SharingPlan
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId
from tests.agent.set_clock import SetClock

GPU = "nvidia.com/gpu"
SIMULATED = DeviceFiles(stand_in="/dev/null")
Value = TypeVar("Value")


def a_gpu(
    index: int,
    mode: Mode | None = None,
    *,
    vendor: Vendor = Vendor.NVIDIA,
    mig: Sequence[MigFacts] = (),
    numa_node: int | None = 0,
    health: Verdict = Verdict.HEALTHY,
    sick: Sequence[str] = (),
    renamed: bool = False,
    one_at_most: bool = False,
    kernel_driver: str | None = None,
) -> Gpu:
    """One GPU; whole unless ``mode`` says otherwise."""
    uuid = DeviceId(f"GPU-{index}")
    nodes = {Vendor.NVIDIA: f"/dev/nvidia{index}"}.get(vendor, f"/dev/dri/renderD{128 + index}")
    facts = GpuFacts(
        uuid,
        vendor,
        index,
        "a card",
        minor=index,
        numa_node=numa_node,
        mig_enabled=bool(mig) or None,
        mig=tuple(mig),
        device_nodes=(nodes,),
        kernel_driver=kernel_driver,
    )
    plan = SharingPlan(uuid, mode or Exclusive(), renamed, one_at_most)
    return Gpu(facts, plan, health, sick_instances=dict.fromkeys(sick, "Xid 95"))


def cut(index: int, *profiles: str, mode: Mig | None = None, **more: Any) -> Gpu:
    """A GPU with these instances, one after the other; their own device nodes are nvidia-cap10 and so on."""
    parts = [
        MigFacts(
            f"MIG-{index}-{at}", profile, at, at, 0, device_nodes=(f"/dev/nvidia-caps/nvidia-cap{10 + at}",)
        )
        for at, profile in enumerate(profiles)
    ]
    return a_gpu(index, mode or Mig(None), mig=parts, **more)


def a_node(
    *gpus: Gpu, links: dict[tuple[int, int], Link] | None = None, driver: str = "580.95.05"
) -> NodeGpus:
    """A node; ``links`` by index."""
    named = {_pair(*ends): link for ends, link in (links or {}).items()}
    return NodeGpus("node-1", "boot-1", drivers=(Driver(Vendor.NVIDIA, driver),), gpus=gpus, links=named)


def _pair(one: int, other: int) -> tuple[DeviceId, DeviceId]:
    first, second = sorted((f"GPU-{one}", f"GPU-{other}"))
    return DeviceId(first), DeviceId(second)


def granted(*devices: str | GrantedDevice) -> tuple[GrantedDevice, ...]:
    """Whole GPUs by their ids, or other devices."""
    return tuple(one if isinstance(one, GrantedDevice) else GrantedDevice(DeviceId(one)) for one in devices)


def instance(gpu: str, profile: str, start: int) -> GrantedDevice:
    """A MIG instance as grants name it."""
    return GrantedDevice(DeviceId(gpu), GrantKind.MIG, mig_profile=profile, mig_start=start)


def a_pod(
    name: str,
    size: int,
    *,
    grant: Iterable[str | GrantedDevice] | None = None,
    resource: str = GPU,
    since_s: float = 0.0,
    finished: bool = False,
    names_devices: bool = False,
    imports_variables: bool = False,
    init: tuple[int, Iterable[str | GrantedDevice]] | None = None,
    running: bool = False,
) -> NodePod:
    """A pod with one container, and one before it where ``init`` has its size and grant."""
    requests = {"main": {resource: size}}
    containers = [] if grant is None else [ContainerGrant("main", granted(*grant))]
    if init is not None:
        requests = {"init": {resource: init[0]}} | requests
        containers.insert(0, ContainerGrant("init", granted(*init[1])))
    its = None if grant is None else Grant(1, tuple(containers))
    return NodePod(
        f"uid-{name}",
        "team",
        name,
        requests,
        grant=its,
        finished=finished,
        named_devices=frozenset({"main"} if names_devices else ()),
        imported_variables=frozenset({"main"} if imports_variables else ()),
        started=frozenset({"main"} if running else ()),
        running=frozenset({"main"} if running else ()),
        lenders=frozenset({"init"} if init else ()),
        first_seen_s=since_s,
    )


def pods_of(*pods: NodePod) -> NodePods:
    """Pods by UID."""
    return {pod.uid: pod for pod in pods}


def held(pod: str, *units: str, container: str = "main", resource: str = GPU) -> Held:
    """What the kubelet says that a pod holds."""
    return Held("team", pod, container, resource, units, f"uid-{pod}")


class PluginWorld:
    """An allocator's surroundings: what is known, what others would say if asked, and the time."""

    def __init__(self, node: NodeGpus, *pods: NodePod, holders: Holders = ()) -> None:
        self.known = AllocatorInputs(
            Topic(node),
            Topic(pods_of(*pods)),
            Topic(holders),
            self._ask_pods,
            self._ask_holders,
            HolderMemory(SetClock(self)),
            SetClock(self),
        )
        self.now_s = 100.0
        self.pods = pods_of(*pods)
        self.ended: set[str] = set()
        self.holders = holders
        self.silent = False
        self.asked = 0

    def allocator(self, resource: str = GPU, options: DeliveryOptions = BY_CDI) -> WholeDeviceAllocator:
        """An allocator of this world."""
        units = node_units(self.known.gpus.value)
        return WholeDeviceAllocator(resource, self.known, Delivery(SIMULATED, options), units)

    def add(self, *pods: NodePod) -> None:
        """The API server has these pods; our copy learns of them later (``catch_up``)."""
        self.pods = self.pods | pods_of(*pods)

    def hold(self, *more: Held) -> None:
        """The kubelet gave these; told to everybody."""
        self.holders = (*self.holders, *more)
        self.catch_up()

    def catch_up(self) -> None:
        """Our copies are what is true."""
        self.known.pods.publish(self.pods)
        self.known.holders.publish(self.joined())

    def joined(self) -> Holders:
        """What the kubelet lists, and what the agent remembers."""
        return self.known.memory.joined(
            self.holders, SeenHolder(self.known.gpus.value, self.pods, ended=self.ended)
        )

    async def _ask_pods(self) -> NodePods:
        self.asked += 1
        if self.silent:
            raise TimeoutError
        return self.pods

    async def _ask_holders(self) -> Holders:
        return self.joined()


def answered(call: Coroutine[Any, Any, Value]) -> Value:
    """The answer of a call that waits for nothing real."""
    try:
        call.send(None)
    except StopIteration as stop:
        value: Value = stop.value
        return value
    raise AssertionError("it waited for something")


def driver_files(root: Path, version: str, *, hook: bool = False) -> None:
    """A machine with a driver of this version below a folder."""
    library = root / "usr/lib/x86_64-linux-gnu"
    library.mkdir(parents=True)
    for name in ("libcuda", "libnvidia-ml"):
        (library / f"{name}.so.{version}").touch()
    (library / "libc.so.6").touch()
    programs = root / "usr/bin"
    programs.mkdir()
    (programs / "nvidia-smi").touch()
    if hook:
        (programs / "nvidia-cdi-hook").touch()
    firmware = root / "lib/firmware/nvidia" / version
    firmware.mkdir(parents=True)
    (firmware / "gsp_ga10x.bin").touch()
