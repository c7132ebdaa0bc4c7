"""Builders of what the agent's parts tell each other; what a test does not speak of has a default."""

from typing import Any

from gpufleet.agent.state.node_state import Gpu, Held, NodeGpus, NodePod
from gpufleet.devices.facts import Driver, GpuFacts, MigFacts
from gpufleet.devices.sharing.plan import Exclusive, Fractions, Mode, SharingPlan
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.grant import ContainerGrant, Grant, GrantedDevice, GrantKind
from gpufleet.model.identifiers import DeviceId

NODE = "node-1"
BOOT = "boot-1"
SHARE = "gpufleet.io/gpu-share"
GPU = "nvidia.com/gpu"
FRACTIONS = Fractions(10)


def a_gpu(
    uuid: str, mode: Mode | None = None, *, renamed: bool = False, mig: tuple[MigFacts, ...] = (), **more: Any
) -> Gpu:
    """A healthy card of 81,559 MiB, of which 1,559 are reserved; ``more`` are facts or fields of the GPU."""
    known = {name: more.pop(name) for name in ("health", "reason", "sick_instances") if name in more}
    index = more.pop("index", int(uuid[-1]) if uuid[-1].isdecimal() else 0)
    facts = GpuFacts(
        uuid=DeviceId(uuid),
        vendor=Vendor.NVIDIA,
        index=index,
        product=more.pop("product", "NVIDIA H100 80GB HBM3"),
        memory_mib=more.pop("memory_mib", 81_559),
        reserved_mib=more.pop("reserved_mib", 1_559),
        mig_enabled=bool(mig),
        mig=mig,
        device_nodes=more.pop("device_nodes", (f"/dev/nvidia{index}",)),
        **more,
    )
    return Gpu(facts, SharingPlan(facts.uuid, mode or Exclusive(), renamed), **known)


def a_node(*gpus: Gpu, **more: Any) -> NodeGpus:
    """A node with these cards."""
    driver = Driver(Vendor.NVIDIA, "580.95.05")
    return NodeGpus(NODE, more.pop("boot_id", BOOT), more.pop("drivers", (driver,)), gpus, **more)


def a_share(device: str, milli: int, memory_mib: int | None = None) -> GrantedDevice:
    """A part of a card."""
    return GrantedDevice(DeviceId(device), GrantKind.SHARE, milli, memory_mib)


def whole(device: str) -> GrantedDevice:
    """A whole card."""
    return GrantedDevice(DeviceId(device))


def a_grant(*devices: GrantedDevice, epoch: int = 1, **containers: tuple[GrantedDevice, ...]) -> Grant:
    """A grant of these devices to container main, or of others to containers by name."""
    named = {"main": devices} if devices else containers
    return Grant(epoch, tuple(ContainerGrant(name, its) for name, its in named.items()))


def a_pod(name: str, grant: Grant | None = None, **more: Any) -> NodePod:
    """A pod of namespace team, with the UID uid-NAME."""
    return NodePod(more.pop("uid", f"uid-{name}"), "team", name, grant=grant, **more)


def by_uid(*pods: NodePod) -> dict[str, NodePod]:
    """Pods as the topic has them."""
    return {pod.uid: pod for pod in pods}


def held(pod: str, resource: str, *units: str, container: str = "main", uid: str | None = None) -> Held:
    """What the kubelet gave to a container of a pod of namespace team."""
    return Held("team", pod, container, resource, units, f"uid-{pod}" if uid is None else uid)
