"""The models, datasets and images of a node, from its NodeData."""

from gpufleet.kube.objects.node_data import DATA_KINDS, IMAGE, DataEntry, NodeData
from gpufleet.model.data import DataCopy

_KINDS = (*DATA_KINDS, IMAGE)


def data_copies(report: NodeData) -> tuple[DataCopy, ...]:
    """The copies that the report names, without entries of unknown kinds or negative sizes."""
    return tuple(copy_of(one) for one in report.spec.entries if one.kind in _KINDS and one.size_bytes >= 0)


def copy_of(entry: DataEntry) -> DataCopy:
    """What a pod may find in an entry."""
    name = f"{entry.kind}/{entry.name}"
    return DataCopy(name, entry.size_bytes, entry.complete, entry.revision, entry.branches)
