"""What is chosen together with a pod's place: volumes and devices for its claims."""

from typing import NamedTuple

from gpufleet.dra_allocation.results import Allocation
from gpufleet.model.identifiers import NodeName

Volumes = tuple[tuple[str, str], ...]
"""(claim, volume) pairs, the volume "" where one is to be provisioned."""

ClaimedDevices = tuple[tuple[str, Allocation], ...]
"""(resource claim, devices) pairs; claims that have devices already are not among them."""


class PlaceChoice(NamedTuple):
    """What was chosen for a pod, and for which node."""

    node: NodeName
    volumes: Volumes = ()
    devices: ClaimedDevices = ()
