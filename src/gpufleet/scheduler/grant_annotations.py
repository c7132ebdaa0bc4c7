"""How the devices of a placed pod are told to its node, and what it is bound with: the seam between deciding
and delivering.

``PluginDelivery`` writes the grant into the Binding's annotations, where the node agent's device
plugin finds it. Delivery by claims (dynamic resource allocation) will stand beside it: there the
claim's status is the grant.
"""

from collections.abc import Sequence
from typing import Protocol

from gpufleet.kube import keys
from gpufleet.kube.codec.containers import gpu_containers
from gpufleet.kube.codec.grant import make_grant, write_grant
from gpufleet.kube.objects.pod import Pod
from gpufleet.model.bound_terms import BoundTerms
from gpufleet.model.device import Device
from gpufleet.model.shape import GpuRequest


class Delivery(Protocol):
    """A way to tell a node which devices a pod was given."""

    def annotations(
        self, pod: Pod, request: GpuRequest, devices: Sequence[Device], epoch: int, terms: BoundTerms
    ) -> dict[str, str]:
        """What travels with the Binding, in the same write."""
        ...


class PluginDelivery:
    """The grant as an annotation. Every pod of ours gets one: it carries the epoch of its leader."""

    def annotations(
        self, pod: Pod, request: GpuRequest, devices: Sequence[Device], epoch: int, terms: BoundTerms
    ) -> dict[str, str]:
        """The grant's annotation."""
        grant = make_grant(gpu_containers(pod.spec), request, devices, epoch, terms)
        return {keys.GRANT: write_grant(grant)}
