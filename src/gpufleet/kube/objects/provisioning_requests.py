"""ProvisioningRequest: pods that ask Cluster Autoscaler for their nodes together.

The spec cannot be changed once it is written. The autoscaler writes the conditions.
"""

import msgspec

from gpufleet.kube.objects.fleet_queues import Condition
from gpufleet.kube.objects.metadata import Metadata
from gpufleet.kube.objects.structure import Structure


class ProvisioningRequestSpec(Structure, frozen=True):
    """What is asked for; of the pods nothing is read here."""

    provisioning_class_name: str = ""


class ProvisioningRequestStatus(Structure, frozen=True):
    """How far it is."""

    conditions: tuple[Condition, ...] = ()


class ProvisioningRequest(Structure, frozen=True):
    """The ProvisioningRequest of autoscaling.x-k8s.io."""

    metadata: Metadata
    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = msgspec.field(default_factory=ProvisioningRequestStatus)
