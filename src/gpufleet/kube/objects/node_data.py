"""NodeData: the models and datasets that lie in folders of a node, and the room that is left there.

Written by the node's agent alone, cluster-scoped, named as the node. An object of its own beside NodeDevices,
since it changes at another pace: at most once a minute, and a placement never waits for it. ``manifests``
holds the definition that the API server checks.
"""

import msgspec

from gpufleet.kube.answer import decode
from gpufleet.kube.objects.metadata import Metadata, OwnerReference
from gpufleet.kube.objects.node_report import encode_report
from gpufleet.kube.objects.structure import Structure
from gpufleet.kube.resources import NODE_DATA

MODEL = "model"
DATASET = "dataset"
DATA_KINDS = (MODEL, DATASET)
IMAGE = "image"
"""An image of the container runtime: a kind of entry, and nothing that a pod names as data."""


class DataEntry(Structure, frozen=True):
    """One revision of a model or a dataset in a folder, or an image, which has no folder.

    ``branches`` are those of the hub that pointed to the revision when it was copied. ``size_bytes`` is what
    is there, also of a copy that is not ``complete``.
    """

    kind: str
    name: str
    size_bytes: int = msgspec.field(name="bytes")
    complete: bool
    folder: str
    revision: str = ""
    branches: tuple[str, ...] = ()


class DataFolder(Structure, frozen=True):
    """A folder that the agent reads. Sizes are those of its file system, None where that is not known."""

    path: str
    size_bytes: int | None = msgspec.field(default=None, name="bytes")
    free_bytes: int | None = None
    problem: str = ""


class NodeDataSpec(Structure, frozen=True):
    """The report: entries with the largest first, and how many smaller ones are left out.

    ``stages`` says that the agent copies what the annotation ``gpufleet.io/data-wanted`` names,
    ``copy_bytes_per_s`` how fast it did so, None before its first copy. ``pulls`` and ``pull_bytes_per_s``
    say the same of images.
    """

    entries: tuple[DataEntry, ...] = ()
    omitted: int = 0
    folders: tuple[DataFolder, ...] = ()
    stages: bool = False
    copy_bytes_per_s: int | None = None
    pulls: bool = False
    pull_bytes_per_s: int | None = None


class NodeData(Structure, frozen=True):
    """A node's models and datasets."""

    metadata: Metadata
    spec: NodeDataSpec = NodeDataSpec()


class _WrittenSpec(msgspec.Struct, frozen=True, rename="camel"):
    entries: tuple[DataEntry, ...]
    omitted: int
    folders: tuple[DataFolder, ...]
    stages: bool
    copy_bytes_per_s: int | None
    pulls: bool
    pull_bytes_per_s: int | None


_DECODER = msgspec.json.Decoder(NodeData)


def encode_node_data(
    name: str, spec: NodeDataSpec, *, resource_version: str = "", owner: OwnerReference | None = None
) -> bytes:
    """The report as it is created, or as a merge patch of the version that is there.

    An empty list is written too: it says that there are none.
    """
    written = _WrittenSpec(
        spec.entries,
        spec.omitted,
        spec.folders,
        spec.stages,
        spec.copy_bytes_per_s,
        spec.pulls,
        spec.pull_bytes_per_s,
    )
    return encode_report(NODE_DATA, name, written, resource_version, owner)


def decode_node_data(body: bytes) -> NodeData:
    """The object as the server has it. Raises AnswerUnreadable."""
    return decode(body, _DECODER)
