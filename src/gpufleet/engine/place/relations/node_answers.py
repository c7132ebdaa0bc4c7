"""Which nodes serve claims, kept by what the claims ask, until something of a node or its devices changes.

Claims of one template are thus asked for once, and of a node anew only when something of its pools changed.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from gpufleet.engine.state.fleet import Fleet
from gpufleet.model.identifiers import NodeName
from gpufleet.model.node import Node

ASKS_KEPT_MAX = 256
"""Kinds of claims for which the answers of nodes are kept: a cluster has fewer templates in use at once."""

# UNKNOWN is 0, so that rows of zeros are rows that were not asked yet.
UNKNOWN = 0
SERVES = 1
REFUSES = 2

Answers = npt.NDArray[np.int8]
"""By node row one of the three."""


class NodeAnswers:
    """The answers of all nodes, by what is asked."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._by_asks: dict[tuple[bytes, ...], Answers] = {}
        self._nodes: list[Node | None] = []
        self._as_of = -1

    def of(self, asks: tuple[bytes, ...]) -> Answers:
        """What nodes said to such claims, to be filled in where it is not known."""
        found = self._by_asks.pop(asks, None)
        if found is None:
            while len(self._by_asks) >= ASKS_KEPT_MAX:
                del self._by_asks[next(iter(self._by_asks))]
            found = np.zeros(self._fleet.row_count, np.int8)
        # The kind that was asked for last goes to the end, so that the oldest is the first to go.
        self._by_asks[asks] = found
        return found

    def take_described(self) -> list[str]:
        """The nodes that were described anew since the last call; what they said is forgotten."""
        if self._as_of == self._fleet.description_changes:
            return []
        self._as_of = self._fleet.description_changes
        before, self._nodes = self._nodes, list(self._fleet.nodes)
        before += [None] * (len(self._nodes) - len(before))
        rows = [row for row, node in enumerate(self._nodes) if node is not before[row]]
        for asks, answers in self._by_asks.items():
            grown = np.zeros(len(self._nodes), np.int8)
            grown[: len(answers)] = answers
            grown[rows] = UNKNOWN
            self._by_asks[asks] = grown
        named = (node for row in rows for node in (before[row], self._nodes[row]))
        return [node.name for node in named if node is not None]

    def forget(self, names: Iterable[str]) -> None:
        """Something of the devices of these nodes changed."""
        rows_by_name = self._fleet.row_by_name
        rows = [row for name in names if (row := rows_by_name.get(NodeName(name))) is not None]
        for answers in self._by_asks.values():
            # A node that came since then has no answer yet.
            answers[[row for row in rows if row < len(answers)]] = UNKNOWN

    def forget_all(self) -> None:
        """Something changed that may concern all nodes."""
        self._by_asks.clear()
