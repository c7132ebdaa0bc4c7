"""How long pods take until they are ready, on the nodes of one picture.

The copy of data is estimated by the rate of the node's own copies, where it reports one, else by the one by
which the engine weighs; the pull of images likewise, where the node reports images. Nodes do not report how
fast models are loaded from their disks, so this part is not known.
"""

import msgspec

from gpufleet.engine.state.data_copies import COPY_BYTES_PER_S, DataCopies
from gpufleet.kube import resources
from gpufleet.kube.codec.data_copies import data_copies
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.kube.objects.node_data import IMAGE
from gpufleet.model.data import DataAsk
from gpufleet.model.identifiers import NodeName
from gpufleet.model.ready_time import ReadyTime


class _Rates(msgspec.Struct, frozen=True):
    """How fast a node copies and pulls, in bytes a second; None where it does not report images at all."""

    copied: int
    pulled: int | None


class ReadyTimes:
    """Estimates for any pod on any node; reads all reports of data once."""

    def __init__(self, cluster: Lookup) -> None:
        self._copies = DataCopies()
        self._row_by_node: dict[NodeName, int] = {}
        self._rates: list[_Rates] = []
        for row, report in enumerate(cluster.all(resources.NODE_DATA)):
            spec = report.spec
            self._row_by_node[NodeName(report.metadata.name)] = row
            pulled = spec.pull_bytes_per_s or COPY_BYTES_PER_S
            has_images = spec.pulls or any(one.kind == IMAGE for one in spec.entries)
            self._rates.append(
                _Rates(spec.copy_bytes_per_s or COPY_BYTES_PER_S, pulled if has_images else None)
            )
            self._copies.replace(row, (), data_copies(report))

    def of(self, asks: tuple[DataAsk, ...], node: NodeName, images: tuple[DataAsk, ...] = ()) -> ReadyTime:
        """The time to ready of a pod that reads this data and runs these images."""
        row = self._row_by_node.get(node)
        rates = _Rates(COPY_BYTES_PER_S, None) if row is None else self._rates[row]
        return ReadyTime(
            image_s=None if not images else self._takes_s(images, row, rates.pulled),
            data_s=self._takes_s(asks, row, rates.copied),
        )

    def _takes_s(self, asks: tuple[DataAsk, ...], row: int | None, rate: int | None) -> float | None:
        """How long it takes to get what the node lacks; None where that or the rate is not known."""
        lacking = self._copies.lacking_bytes(asks, row)
        return None if lacking is None or rate is None else lacking // (rate / 1000) / 1000
