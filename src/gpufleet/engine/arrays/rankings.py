"""The scores of the shapes in use, as arrays: one slot a shape, one column a node.

``state.shapes`` gives out the slots, ``place.choose.ranking`` keeps the scores.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays import layout
from gpufleet.engine.arrays.array_types import Grid


class Rankings(NamedTuple):
    """Scores of the shapes in use.

    ``state[slot, COLUMN]``, ``scores[slot, node]``, ``best[slot, block]``, and ``refused[slot,
    node]``: the reasons of labels, taints and cordons against the node (0: eligible).
    """

    state: Grid
    scores: Grid
    best: Grid
    refused: Grid


def empty_rankings(slots: int, node_rows: int) -> Rankings:
    """Rankings for that many shapes over that many rows of nodes, all stale."""
    blocks = -(-node_rows // layout.RANKING_BLOCK)
    state = np.zeros((slots, layout.RANKING_COLUMNS), np.int64)
    state[:, layout.RANKING_SHAPE] = layout.NOT_SET
    state[:, layout.RANKING_STALE] = 1
    return Rankings(
        state=state,
        scores=np.full((slots, blocks * layout.RANKING_BLOCK), layout.INFEASIBLE, np.int64),
        best=np.full((slots, blocks), layout.INFEASIBLE, np.int64),
        refused=np.zeros((slots, blocks * layout.RANKING_BLOCK), np.int64),
    )
