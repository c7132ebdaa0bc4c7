"""How large models and datasets are, as the nodes report them: an index by name, kept report by report.

A pod that waits for data of an unknown size asks for it. Without the index each such pod would read the
reports of all nodes.
"""

from gpufleet.kube import resources
from gpufleet.kube.codec.data_copies import data_copies
from gpufleet.kube.codec.lookup import Lookup
from gpufleet.model.data import DataAsk, DataCopy


class DataSizes:
    """The complete copies of all reports that were heard of."""

    def __init__(self, cluster: Lookup) -> None:
        self.cluster = cluster
        self._by_name: dict[str, dict[str, tuple[DataCopy, ...]]] = {}
        self._names_by_node: dict[str, frozenset[str]] = {}

    def hear(self, node: str) -> None:
        """A node's report appeared, changed or went."""
        report = self.cluster.find(resources.NODE_DATA, node)
        copies = () if report is None else tuple(one for one in data_copies(report) if one.complete)
        for name in self._names_by_node.pop(node, frozenset()):
            del self._by_name[name][node]
            if not self._by_name[name]:
                del self._by_name[name]
        by_name: dict[str, list[DataCopy]] = {}
        for one in copies:
            by_name.setdefault(one.name, []).append(one)
        for name, found in by_name.items():
            self._by_name.setdefault(name, {})[node] = tuple(found)
        if by_name:
            self._names_by_node[node] = frozenset(by_name)

    def largest(self, ask: DataAsk) -> int | None:
        """The size of the largest complete copy in the cluster; None where there is none."""
        copies = (one for found in self._by_name.get(ask.name, {}).values() for one in found)
        return max((one.size_bytes for one in copies if ask.is_of(one)), default=None)
