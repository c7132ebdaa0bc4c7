"""What an allocator of one resource answers the kubelet: which units suit, and what a container gets.

The kubelet counts units of a resource and knows nothing else about them. A ``Allocator`` decides which
units suit and what a container gets for them; ``plugin_server`` carries its answers.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class DeviceNode(msgspec.Struct, frozen=True):
    """A device file that appears in the container."""

    container_path: str
    host_path: str
    permissions: str = "rw"


class HostMount(msgspec.Struct, frozen=True):
    """A path of the node that appears in the container."""

    container_path: str
    host_path: str
    read_only: bool = True


class AllocateResponse(msgspec.Struct, frozen=True):
    """What one container gets."""

    environment: dict[str, str] = {}
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[HostMount, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    annotations: dict[str, str] = {}


class Allocator(Protocol):
    """Decides about the units of one resource. Any of its answers may be a RefusedError."""

    @property
    def resource(self) -> str:
        """The name of the resource, such as nvidia.com/gpu."""

    @property
    def prefers(self) -> bool:
        """Whether it wants a say in which units a container gets."""

    @property
    def prepares(self) -> bool:
        """Whether it wants to be called before each container starts."""

    async def prefer(self, available: Sequence[str], required: Sequence[str], size: int) -> list[str]:
        """The units that suit best, ``required`` among them; advice, which the kubelet may not follow."""

    async def allocate(self, units: Sequence[str]) -> AllocateResponse:
        """What a container gets for these units."""

    async def prepare(self, units: Sequence[str]) -> None:
        """Make ready what was promised for these units; the container starts when this returns."""
