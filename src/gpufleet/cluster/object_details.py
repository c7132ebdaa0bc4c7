"""What a cluster's objects say beyond the events of the engine, for the words of its findings."""

import datetime as dt
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from gpufleet.cluster.facts import Facts
from gpufleet.engine.node_reasons.object_details import Names, NeededToolkit, UsedVolume
from gpufleet.kube import keys, resources
from gpufleet.kube.codec.cuda import known_driver, toolkits
from gpufleet.kube.codec.lasting_conditions import START_OF_1970
from gpufleet.kube.codec.static_volumes import volume_reach, zone_reach
from gpufleet.kube.codec.times import whole_time
from gpufleet.kube.kube_errors import ObjectError
from gpufleet.kube.objects.node import GPU_HEALTHY
from gpufleet.kube.objects.node_devices import NodeDevices
from gpufleet.kube.objects.pod import Pod
from gpufleet.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from gpufleet.model.cuda_compatibility import DriverVersion, Toolkit, driver_feature
from gpufleet.model.cuda_images import toolkit_of_image
from gpufleet.model.identifiers import DeviceId, NodeName, PodUid

DEFINITION = f"{resources.NODE_DEVICES.plural}.{resources.NODE_DEVICES.group}"
"""The name of the CustomResourceDefinition that a person has to look for."""


class ClusterObjectDetails:
    """Answers of a picture of the cluster."""

    names = Names(keys.GPUS_WITHIN, keys.CUDA_VERSION, GPU_HEALTHY, DEFINITION)

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.picture = facts.picture

    def reports_are_served(self) -> bool:
        """Whether the server knows the kind in which agents report devices."""
        return resources.NODE_DEVICES not in self.picture.absent

    def unread_report(self, node: NodeName) -> str:
        """Why the report of a node's devices cannot be read; "" where it can, or is not there."""
        return self.facts.unread_reports().get(node, "")

    def left_alone_until(self, node: NodeName) -> str:
        """Until when nothing new is placed on a node whose kubelet turned pods away, by its condition."""
        found = self.facts.nodes.distrusted_before.get(node)
        moment = None if found is None else START_OF_1970 + dt.timedelta(microseconds=found.until_us)
        return "" if moment is None else whole_time(moment)

    def sickness(self, node: NodeName, device: DeviceId) -> str:
        """What the report says of a device that is not healthy."""
        report = self._report(node)
        devices = () if report is None else report.spec.devices
        return next((one.health_reason for one in devices if one.id == device), "")

    def foreign_holders(self, node: NodeName) -> Iterator[tuple[str, str]]:
        """The devices of a node that a process of no pod holds, and what the report says of that process."""
        report = self._report(node)
        for holder in () if report is None else report.spec.holders:
            if not holder.pod_uid:
                yield holder.device, holder.foreign

    def uncounted_instances(self, node: NodeName, resource: str) -> Iterator[tuple[str, str]]:
        """The GPUs of a node with an instance of this resource that no pod's request is charged for, each
        with what the report says of the holder.
        """
        for instance in self.facts.pods.unknown_on(node).instances:
            if instance.resource == resource:
                yield instance.device, instance.holder

    def driver(self, node: NodeName) -> DriverVersion | None:
        """The version of a node's driver, by its labels or its report."""
        written = self.picture.find(resources.NODES, node)
        return None if written is None else known_driver(written, self._report(node))

    def needed_toolkits(self, pod: PodUid, features: AbstractSet[str]) -> Iterator[NeededToolkit]:
        """The versions of CUDA for which the pod needs these features of nodes."""
        entry = self.facts.pods.entries.get(pod)
        for one in () if entry is None else toolkits(entry.object):
            if entry is not None and driver_feature(one.major) in features:
                yield NeededToolkit(one, _toolkit_evidence(entry.object, one))

    def storage_class(self, claim: str) -> str:
        """The storage class of a claim ("namespace/name")."""
        namespace, _, name = claim.partition("/")
        found: PersistentVolumeClaim | None = self.picture.find(
            resources.PERSISTENT_VOLUME_CLAIMS, name, namespace
        )
        return "" if found is None else found.storage_class or ""

    def volumes(self, pod: PodUid) -> Iterator[UsedVolume]:
        """The volumes to which the pod's claims are bound, with each part of their reach."""
        entry = self.facts.pods.entries.get(pod)
        for used in () if entry is None else entry.object.spec.volumes:
            if entry is None:
                continue
            source = used.persistent_volume_claim
            # Kubernetes gives the claim of a generic ephemeral volume this name.
            name = f"{entry.name.name}-{used.name}" if source is None else source.claim_name
            claim: PersistentVolumeClaim | None = self.picture.find(
                resources.PERSISTENT_VOLUME_CLAIMS, name, entry.name.namespace
            )
            if claim is None:
                continue
            volume: PersistentVolume | None = self.picture.find(
                resources.PERSISTENT_VOLUMES, claim.spec.volume_name
            )
            if volume is None:
                continue
            try:
                for reach in (volume_reach(volume), zone_reach(volume)):
                    yield UsedVolume(name, volume.metadata.name, reach)
            except ObjectError:
                continue

    def _report(self, node: NodeName) -> NodeDevices | None:
        found: NodeDevices | None = self.picture.find(resources.NODE_DEVICES, node)
        return found


def _toolkit_evidence(pod: Pod, toolkit: Toolkit) -> str:
    """What says that the pod needs a toolkit: its annotation, an image, or an image's variable."""
    if keys.CUDA_VERSION in pod.metadata.annotations:
        return f"annotation {keys.CUDA_VERSION}"
    images = [one.image for one in pod.spec.containers if toolkit_of_image(one.image) == toolkit]
    return f"image {images[0]}" if images else keys.REQUIRE_CUDA
