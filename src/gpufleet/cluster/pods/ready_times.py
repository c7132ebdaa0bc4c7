"""How long pods take until they are ready, on the nodes of one picture.

The copy of data is estimated as the engine weighs it. Nodes report neither which images they have nor how
fast models are loaded from their disks, so these parts are not known.
"""

from gpufleet.engine.state.data_copies import DataCopies
from gpufleet.kube import resources
from gpufleet.kube.codec.data_copies import data_copies
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.model.data import DataAsk
from gpufleet.model.identifiers import NodeName
from gpufleet.model.ready_time import ReadyTime


class ReadyTimes:
    """Estimates for any pod on any node; reads all reports of data once."""

    def __init__(self, cluster: Lookup) -> None:
        self._copies = DataCopies()
        self._row_by_node: dict[NodeName, int] = {}
        for row, report in enumerate(cluster.all(resources.NODE_DATA)):
            self._row_by_node[NodeName(report.metadata.name)] = row
            self._copies.replace(row, (), data_copies(report))

    def of(self, asks: tuple[DataAsk, ...], node: NodeName) -> ReadyTime:
        """The time to ready of a pod that reads this data."""
        copy_ms = self._copies.copy_ms(asks, self._row_by_node.get(node))
        return ReadyTime(data_s=None if copy_ms is None else copy_ms / 1000)
