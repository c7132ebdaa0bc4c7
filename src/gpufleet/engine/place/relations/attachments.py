"""How many volumes of a driver a node can attach (kube-scheduler: NodeVolumeLimits).

A volume takes one place on a node, however many of its pods use it, or none while it is still attached.
Only a pod that brings a new volume is held to the limit: a node that has too many already still takes a
pod that brings none. A volume that is attached but in use by no pod of the node counts as new, too.
"""

from collections.abc import Iterator

import numpy as np

from gpufleet.engine.arrays.array_types import Int64Array
from gpufleet.engine.node_reasons.volume_limit import BIT as VOLUME_LIMIT
from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.volumes import Attachment

NO_LIMIT = 1 << 62
"""More volumes than any node could attach."""


class Attachments:
    """Which volumes are in use where: by driver, by node, how many pods use each."""

    def __init__(self) -> None:
        self._in_use: dict[str, dict[int, dict[str, int]]] = {}

    def count(self, attachments: tuple[Attachment, ...], node: int, pods: int) -> None:
        """So many more (or fewer) pods on the node use these volumes."""
        for one in attachments:
            by_node = self._in_use.setdefault(one.driver, {})
            users = by_node.setdefault(node, {})
            users[one.volume] = users.get(one.volume, 0) + pods
            if not users[one.volume]:
                del users[one.volume]
            if not users:
                del by_node[node]
            if not by_node:
                del self._in_use[one.driver]

    def reasons(self, attachments: tuple[Attachment, ...], fleet: Fleet) -> Int64Array:
        """Nodes that have not enough places left for the volumes that would be new to them."""
        found = np.zeros(fleet.row_count, np.int64)
        by_driver: dict[str, dict[str, None]] = {}
        for one in attachments:
            by_driver.setdefault(one.driver, {})[one.volume] = None
        for driver, volumes in by_driver.items():
            limits = limits_of(driver, fleet)
            new = np.full(fleet.row_count, len(volumes), np.int64)
            used = np.zeros(fleet.row_count, np.int64)
            in_use = self._in_use.get(driver, {})
            for node, users in in_use.items():
                used[node] = len(users)
                # A volume that a pod there uses is attached already, however many more pods use it.
                new[node] -= sum(volume in users for volume in volumes)
            for node, attached in attached_volumes(driver, fleet):
                # A volume that no known pod uses still takes a place until its driver detaches it.
                used[node] += len(attached - in_use.get(node, {}).keys())
            found[(new > 0) & (used + new > limits)] = VOLUME_LIMIT
        return found


def attached_volumes(driver: str, fleet: Fleet) -> Iterator[tuple[int, frozenset[str]]]:
    """The node rows that have volumes of the driver attached, with these volumes."""
    for row, node in enumerate(fleet.nodes):
        if node is not None and node.attached:
            yield row, frozenset(one.volume for one in node.attached if one.driver == driver)


def limits_of(driver: str, fleet: Fleet) -> Int64Array:
    """For each node row, how many volumes of the driver it can attach."""
    limits = np.full(fleet.row_count, NO_LIMIT, np.int64)
    for row, node in enumerate(fleet.nodes):
        if node is not None and node.volume_limits:
            limits[row] = dict(node.volume_limits).get(driver, NO_LIMIT)
    return limits
