"""Nodes that were chosen and have not joined yet: they count as there, so that nothing is bought twice.

The autoscaler counts them too, and offers no pods that fit them. Where it offers such pods again, it has
given nodes up, and they count no more.
"""

import datetime as dt
from collections.abc import Collection
from fractions import Fraction

import msgspec

from gpufleet.cluster.watching.picture import Picture
from gpufleet.expander.template_nodes import joined
from gpufleet.kube.objects.node import Node
from gpufleet.model.identifiers import PodUid

JOINS_WITHIN = dt.timedelta(minutes=15)
"""The autoscaler's --max-node-provision-time: it gives up nodes that did not join by then."""


class ComingNodes(msgspec.Struct, frozen=True):
    """What was chosen ``at``: so many nodes for these pods."""

    group: str
    node: Node
    node_count: int
    pods: frozenset[PodUid]
    at: dt.datetime

    def still_coming(self, picture: Picture, offered: Collection[PodUid], now: dt.datetime) -> int:
        """How many of the nodes will still come, where these pods are offered."""
        if now - self.at > JOINS_WITHIN:
            return 0
        again = sum(uid in offered for uid in self.pods)
        given_up = -(-Fraction(self.node_count * again, max(1, len(self.pods))) // 1)
        return max(0, self.node_count - int(given_up) - joined(self.node, picture, self.at))
