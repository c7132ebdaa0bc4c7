"""Which volumes take one of the places that a node has for a driver's volumes, and which drivers must be
there.

Disks of the clouds that Kubernetes once spoke to itself are served by CSI drivers now, under the
names of this table; kubelets report limits for those drivers only.
"""

from collections.abc import Iterable, Iterator

from gpufleet.kube import resources
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.objects.pod import Volume
from gpufleet.kube.objects.storage import CsiDriver, PersistentVolume
from gpufleet.model.volumes import Attachment

# The CSI drivers that serve the disks which Kubernetes once served itself.
GCE_DRIVER = "pd.csi.storage.gke.io"
AWS_DRIVER = "ebs.csi.aws.com"
AZURE_DRIVER = "disk.csi.azure.com"
CINDER_DRIVER = "cinder.csi.openstack.org"


def driver_feature(driver: str) -> str:
    """How a node's having this driver is called among its features; no kubelet declares such a name."""
    return f"CSI driver {driver}"


def needed_drivers(attachments: Iterable[Attachment], lookup: Lookup) -> Iterator[str]:
    """The drivers, as features, that say of themselves that a node must have them (Kubernetes 1.36)."""
    for name in dict.fromkeys(one.driver for one in attachments):
        driver: CsiDriver | None = lookup.find(resources.CSI_DRIVERS, name)
        if driver is not None and driver.spec.prevent_pod_scheduling_if_missing:
            yield driver_feature(name)


def attachment_of_volume(volume: PersistentVolume) -> Attachment | None:
    """The place that a volume takes; None for volumes of no CSI driver."""
    spec = volume.spec
    if spec.csi is not None:
        return Attachment(spec.csi.driver, spec.csi.volume_handle) if spec.csi.volume_handle else None
    if spec.aws_elastic_block_store is not None:
        return Attachment(AWS_DRIVER, _ebs_id(spec.aws_elastic_block_store.volume_id))
    if spec.gce_persistent_disk is not None:
        return Attachment(GCE_DRIVER, spec.gce_persistent_disk.pd_name)
    if spec.azure_disk is not None:
        return Attachment(AZURE_DRIVER, spec.azure_disk.disk_uri)
    if spec.cinder is not None:
        return Attachment(CINDER_DRIVER, spec.cinder.volume_id)
    return None


def inline_attachments(volume: Volume) -> Iterator[Attachment]:
    """The places taken by a disk that stands in the pod itself."""
    if volume.aws_elastic_block_store is not None:
        yield Attachment(AWS_DRIVER, _ebs_id(volume.aws_elastic_block_store.volume_id))
    if volume.gce_persistent_disk is not None:
        yield Attachment(GCE_DRIVER, volume.gce_persistent_disk.pd_name)
    if volume.azure_disk is not None:
        yield Attachment(AZURE_DRIVER, volume.azure_disk.disk_uri)
    if volume.cinder is not None:
        yield Attachment(CINDER_DRIVER, volume.cinder.volume_id)


def _ebs_id(text: str) -> str:
    """The disk's own id: "vol-1" of "aws://eu-west-1a/vol-1"."""
    return text.rpartition("/")[2]
