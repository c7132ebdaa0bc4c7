"""How a report of a node's agent is written: NodeDevices and NodeData, each named as its node."""

import msgspec

from gpufleet.kube.objects.metadata import OwnerReference
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import Kind


class _WrittenMetadata(Structure, frozen=True):
    name: str
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()


class _Written(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    metadata: _WrittenMetadata
    spec: msgspec.Struct


_ENCODER = msgspec.json.Encoder()


def encode_report(
    kind: Kind, name: str, spec: msgspec.Struct, resource_version: str, owner: OwnerReference | None
) -> bytes:
    """The report as it is created, or as a merge patch of the version that is there."""
    metadata = _WrittenMetadata(name, resource_version, () if owner is None else (owner,))
    return _ENCODER.encode(_Written(kind.api_version, kind.name, metadata, spec))
