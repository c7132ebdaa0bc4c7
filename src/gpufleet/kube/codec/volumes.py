"""What a pod's volumes ask of its place, with the meaning kube-scheduler gives them.

A claim that is bound says where its volume can be used. A claim that waits for its first consumer is decided
together with the place: ``static_volumes`` finds volumes that are there already, ``provisioning`` says where
one can be made. Everything else is a reason to wait, told to the pod's owner: the claim is missing, lost, on
its way out, another pod's, or should be bound already.
"""

from collections.abc import Iterator

import msgspec

from gpufleet.kube import keys, resources
from gpufleet.kube.codec.attachments import attachment_of_volume, inline_attachments, needed_drivers
from gpufleet.kube.codec.data_read import data_of_claim
from gpufleet.kube.codec.field_path import harmless, of_object
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.codec.pod import PodVolumes
from gpufleet.kube.codec.provisioning import provision_reach, provisions
from gpufleet.kube.codec.static_volumes import candidates, volume_reach, zone_reach
from gpufleet.kube.codec.waits import Wait, WaitReason
from gpufleet.kube.objects.pod import Pod, Volume
from gpufleet.kube.objects.storage import (
    LOST,
    READ_WRITE_ONCE_POD,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from gpufleet.model.data import DataAsk
from gpufleet.model.labels import NodeAffinity
from gpufleet.model.volumes import Attachment, UnboundClaim, Volumes


class VolumesRead(msgspec.Struct, frozen=True):
    """What the volumes ask, and what must happen before the pod can be placed at all."""

    volumes: PodVolumes = PodVolumes()
    waits: tuple[Wait, ...] = ()


NOTHING = VolumesRead()


def read_volumes(pod: Pod, lookup: Lookup) -> VolumesRead:
    """What the pod's volumes ask. Raises ObjectError where a volume or claim says what cannot be."""
    if not pod.spec.volumes:
        return NOTHING
    reader = _Reader(pod, lookup)
    for volume in pod.spec.volumes:
        reader.take(volume)
    return reader.read()


class _Reader:
    """Collects what the volumes of one pod ask."""

    def __init__(self, pod: Pod, lookup: Lookup) -> None:
        self.pod = pod
        self.lookup = lookup
        self.affinities: dict[NodeAffinity, None] = {}
        self.attachments: dict[Attachment, None] = {}
        self.exclusive: dict[str, None] = {}
        self.unbound: dict[str, UnboundClaim] = {}
        self.data: dict[DataAsk, None] = {}
        self.waits: list[Wait] = []

    def read(self) -> VolumesRead:
        volumes = Volumes(
            attachments=tuple(sorted(self.attachments)),
            exclusive=tuple(sorted(self.exclusive)),
            unbound=tuple(self.unbound[name] for name in sorted(self.unbound)),
        )
        drivers = tuple(sorted(needed_drivers(self.attachments, self.lookup)))
        asked = PodVolumes(tuple(self.affinities), volumes, drivers, tuple(self.data))
        return VolumesRead(asked, tuple(self.waits))

    def take(self, volume: Volume) -> None:
        self.attachments.update(dict.fromkeys(inline_attachments(volume)))
        claim = self._claim(volume)
        if claim is None:
            return
        self.data.update(dict.fromkeys(data_of_claim(claim)))
        name = claim.metadata.path
        if volume.ephemeral is None and READ_WRITE_ONCE_POD in claim.spec.access_modes:
            self.exclusive[name] = None
        with of_object("claim", name):
            if claim.bound:
                self._take_bound(claim)
            else:
                self._take_unbound(claim)

    def _claim(self, volume: Volume) -> PersistentVolumeClaim | None:
        """The claim behind the volume, if there is one and it can be used; otherwise a wait."""
        source = volume.persistent_volume_claim
        if source is None and volume.ephemeral is None:
            return None
        metadata = self.pod.metadata
        name = f"{metadata.name}-{volume.name}" if source is None else source.claim_name
        claim: PersistentVolumeClaim | None = self.lookup.find(
            resources.PERSISTENT_VOLUME_CLAIMS, name, metadata.namespace
        )
        if claim is None:
            maker = "; it is made for the pod's ephemeral volume" if source is None else ""
            self._wait(WaitReason.CLAIM_MISSING, f"claim {harmless(name)} is not there{maker}")
            return None
        problem = next(_problems(claim), None)
        if problem is not None:
            self.waits.append(problem)
            return None
        owner = claim.metadata.controller
        # As kube-scheduler: a claim that only has the name may hold the data of another pod.
        if source is None and (owner is None or owner.uid != metadata.uid):
            message = (
                f"claim {harmless(name)} has the name of the pod's ephemeral volume, but is not the pod's"
            )
            self._wait(WaitReason.CLAIM_FOREIGN, message)
            return None
        return claim

    def _take_bound(self, claim: PersistentVolumeClaim) -> None:
        name = claim.spec.volume_name
        volume: PersistentVolume | None = self.lookup.find(resources.PERSISTENT_VOLUMES, name)
        if volume is None:
            message = f"volume {harmless(name)} of claim {harmless(claim.metadata.name)} is not there"
            self._wait(WaitReason.VOLUME_MISSING, message)
            return
        for reach in (volume_reach(volume), zone_reach(volume)):
            if reach.terms is not None:
                self.affinities[reach] = None
        attachment = attachment_of_volume(volume)
        if attachment is not None:
            self.attachments[attachment] = None

    def _take_unbound(self, claim: PersistentVolumeClaim) -> None:
        name = claim.metadata.path
        class_name = claim.storage_class
        storage_class: StorageClass | None = (
            self.lookup.find(resources.STORAGE_CLASSES, class_name) if class_name else None
        )
        if class_name and storage_class is None and not claim.spec.volume_name:
            claimed = harmless(claim.metadata.name)
            message = f"claim {claimed} names class {harmless(class_name)}, which is not there"
            self._wait(WaitReason.CLASS_MISSING, message)
            return
        # Only then the scheduler chooses the node first; other claims are bound by their controller.
        delayed = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        if storage_class is None or not delayed or claim.spec.volume_name:
            message = f"claim {harmless(claim.metadata.name)} is not bound to a volume yet"
            self._wait(WaitReason.CLAIM_UNBOUND, message)
            return
        selected_node = claim.metadata.annotations.get(keys.SELECTED_NODE)
        # A node was chosen already, and a volume is being made for it.
        found = () if selected_node is not None else candidates(claim, self.lookup)
        reach = provision_reach(claim, storage_class, selected_node, self.lookup)
        self.unbound[name] = UnboundClaim(name, found, reach)
        if provisions(storage_class):
            self.attachments[Attachment(storage_class.provisioner, f"claim/{name}")] = None

    def _wait(self, reason: WaitReason, message: str) -> None:
        self.waits.append(Wait(reason, message))


def _problems(claim: PersistentVolumeClaim) -> Iterator[Wait]:
    name = harmless(claim.metadata.name)
    if claim.status.phase == LOST:
        yield Wait(WaitReason.CLAIM_LOST, f"claim {name} has lost its volume")
    if claim.metadata.deletion_timestamp is not None:
        yield Wait(WaitReason.CLAIM_DELETED, f"claim {name} is being deleted")
