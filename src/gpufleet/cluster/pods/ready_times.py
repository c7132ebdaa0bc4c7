"""How long pods take until they are ready, on the nodes of one picture.

The copy of data is estimated by the rate of the node's own copies, where it reports one, else by the one by
which the engine weighs. Nodes report neither which images they have nor how
fast models are loaded from their disks, so these parts are not known.
"""

from gpufleet.engine.state.data_copies import COPY_BYTES_PER_S, DataCopies
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
        self._rate_by_row: dict[int, int] = {}
        for row, report in enumerate(cluster.all(resources.NODE_DATA)):
            self._row_by_node[NodeName(report.metadata.name)] = row
            if report.spec.copy_bytes_per_s:
                self._rate_by_row[row] = report.spec.copy_bytes_per_s
            self._copies.replace(row, (), data_copies(report))

    def of(self, asks: tuple[DataAsk, ...], node: NodeName) -> ReadyTime:
        """The time to ready of a pod that reads this data."""
        row = self._row_by_node.get(node)
        lacking = self._copies.lacking_bytes(asks, row)
        rate = COPY_BYTES_PER_S if row is None else self._rate_by_row.get(row, COPY_BYTES_PER_S)
        return ReadyTime(data_s=None if lacking is None else lacking // (rate / 1000) / 1000)
