"""The models and datasets of a node, from its NodeData."""

from gpufleet.kube.objects.node_data import DATA_KINDS, NodeData
from gpufleet.model.data import DataCopy


def data_copies(report: NodeData) -> tuple[DataCopy, ...]:
    """The copies that the report names, without entries of unknown kinds or negative sizes."""
    return tuple(
        DataCopy(f"{one.kind}/{one.name}", one.size_bytes, one.complete, one.revision, one.branches)
        for one in report.spec.entries
        if one.kind in DATA_KINDS and one.size_bytes >= 0
    )
