"""What the agent touches of its machine: drivers, kubelet, disk and time. Only the API server is beside it.

``access_to_machine`` gives that of the real machine. The simulation gives another to the very same agent.
"""

import secrets
from collections.abc import Callable

import msgspec

from gpufleet.agent.device_plugin.kubelet_link import GrpcKubeletLink
from gpufleet.agent.device_plugin.other_plugins import other_plugins
from gpufleet.agent.device_plugin.registration import KubeletLink
from gpufleet.agent.dra.kubelet_plugin import KubeletPlugin, MakeSocket
from gpufleet.agent.dra.lost_claims import InUse
from gpufleet.agent.gpus.backends import Backends, read_machine, real_backends, simulated_backends
from gpufleet.agent.gpus.gpu_monitor import read_boot_id
from gpufleet.agent.holders.holder_monitor import Lister
from gpufleet.agent.kubelet.pod_resources import ClaimUse, PodResources
from gpufleet.agent.settings import AgentSettings
from gpufleet.agent.state.disk import DISK, Disk
from gpufleet.devices.hardware import vendors
from gpufleet.devices.simulated.machine import Machine
from gpufleet.model.gpu_catalogue import Vendor


async def no_claims() -> tuple[ClaimUse, ...]:
    """A kubelet without a claim."""
    return ()


class MachineAccess(msgspec.Struct, frozen=True):
    """What one agent has of its machine.

    ``present`` says whether a vendor's hardware is there. ``clock_s`` is the time of the client's clock, for
    threads. ``machine`` is the simulated machine, if there is one. ``new_name`` makes names that no other
    call of the kubelet was answered with. ``other_plugins`` names the sockets of other device plugins for
    NVIDIA's GPUs that serve the kubelet. ``listens`` lets the agent open sockets of its own, for metrics and
    probes and for orders to a simulated machine. ``claim_socket`` makes the socket of a driver of claims.
    ``claims_in_use`` asks the kubelet which claims pods have.
    """

    boot_id: str
    backends: Backends
    present: Callable[[Vendor], bool]
    link: KubeletLink
    lister: Lister
    clock_s: Callable[[], float]
    disk: Disk = DISK
    machine: Machine | None = None
    new_name: Callable[[], str] = lambda: secrets.token_hex(16)
    other_plugins: Callable[[], tuple[str, ...]] = tuple
    listens: bool = True
    claim_socket: MakeSocket = KubeletPlugin
    claims_in_use: InUse = no_claims


def access_to_machine(
    settings: AgentSettings, clock_s: Callable[[], float], wall_s: Callable[[], float]
) -> MachineAccess:
    """The access to this machine, or to the simulated one that the settings name. Raises InputError."""
    pod_resources = PodResources(settings.pod_resources)
    machine = None
    if settings.simulated is not None:
        machine = read_machine(settings.simulated, settings.node, list, clock_s)
    return MachineAccess(
        read_boot_id(),
        real_backends(clock_s, wall_s) if machine is None else simulated_backends(machine),
        lambda vendor: machine is not None or vendor in vendors(),
        GrpcKubeletLink(settings.device_plugins),
        pod_resources,
        clock_s,
        machine=machine,
        other_plugins=lambda: other_plugins(settings.device_plugins),
        claims_in_use=pod_resources.claims,
    )
