"""Builders of what the agent knows of a node's GPUs: what a test does not speak of is left out."""

from typing import Any

from gpufleet.agent.state.node_state import Gpu, NodeGpus
from gpufleet.devices.facts import Driver, Engines, GpuFacts, MigFacts
from gpufleet.devices.sharing.plan import Exclusive, Mig, Mode, SharingPlan
from gpufleet.model.gpu_catalogue import Vendor
from gpufleet.model.identifiers import DeviceId

NODE = "node-1"


def a_gpu(index: int = 0, mode: Mode | None = None, *, renamed: bool = False, **facts: Any) -> Gpu:
    """A GPU of NVIDIA's, the one of the published tests of its labeller, unless said otherwise."""
    uuid = DeviceId(f"GPU-{index}")
    about: dict[str, Any] = {"vendor": Vendor.NVIDIA, "product": "MOCKMODEL", "memory_mib": 300}
    about |= {"compute_capability": (8, 0), **facts}
    return Gpu(
        GpuFacts(uuid=uuid, index=index, **about), SharingPlan(uuid, mode or Exclusive(), renamed=renamed)
    )


def a_cut_gpu(index: int = 0, *instances: MigFacts, mode: Mode | None = None, **facts: Any) -> Gpu:
    """One with MIG, whose capability the published tests leave out."""
    about = {"compute_capability": None, "mig_enabled": True, "mig": instances, **facts}
    return a_gpu(index, mode or Mig(None), **about)


def an_instance(profile: str, number: int = 0, **facts: Any) -> MigFacts:
    """A MIG instance."""
    return MigFacts(f"MIG-{number}", profile, number, number, 0, **facts)


def engines(*counts: int) -> Engines:
    """Copy engines, decoders, encoders, JPEG and optical flow."""
    return Engines(*counts)


def a_node(*gpus: Gpu, drivers: tuple[Driver, ...] = (), **more: Any) -> NodeGpus:
    """What is known of a node with these GPUs."""
    return NodeGpus(NODE, "boot-1", drivers, gpus, **more)
