"""Ports of nodes that pods take for themselves (kube-scheduler: NodePorts)."""

import numpy as np

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.node_reasons.ports import BIT as PORTS
from gpufleet.model.host_port import HostPort

PortKey = tuple[int, str]
"""Port and protocol: two ports that differ in either never conflict."""


class HostPorts:
    """Ports in use: by port and protocol, by node, how many pods hold it with which address."""

    def __init__(self) -> None:
        self._holders: dict[PortKey, dict[int, dict[HostPort, int]]] = {}

    def count(self, ports: tuple[HostPort, ...], node: int, pods: int) -> None:
        """So many more (or fewer) pods on the node hold these ports."""
        for port in ports:
            port_key = (port.port, port.protocol)
            by_node = self._holders.setdefault(port_key, {})
            held = by_node.setdefault(node, {})
            held[port] = held.get(port, 0) + pods
            if not held[port]:
                del held[port]
            if not held:
                del by_node[node]
            if not by_node:
                del self._holders[port_key]

    def reasons(self, ports: tuple[HostPort, ...], rows: int) -> Int64Array:
        """Nodes on which one of the ports is taken."""
        found = np.zeros(rows, np.int64)
        for port in ports:
            for node, held in self._holders.get((port.port, port.protocol), {}).items():
                if any(port.conflicts(other) for other in held):
                    found[node] = PORTS
        return found
