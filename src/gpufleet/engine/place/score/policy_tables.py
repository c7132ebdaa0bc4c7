"""What the scoring kernels need to know of a policy, as arrays.

``policy`` describes policies for people and builds these; ``place.score`` reads them. Everything a
policy has learned stands here as integers that came in by an event.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.arrays.array_types import Flags, Grid, Line
from gpufleet.engine.arrays.layout import DEVICES_A_NODE_MAX
from gpufleet.engine.place.score.worth_tables import WorthTables, untaught
from gpufleet.engine.policy import NodeChoice, ScoringFunction, ShareChoice, WholeChoice

# options[...]
OPTION_NODE_CHOICE = 0
OPTION_SHARE_CHOICE = 1
OPTION_WHOLE_CHOICE = 2
OPTION_SEED = 3
OPTION_COUNT = 4

# Plain integers, which is what the kernels can read.
NODE_BEST_SCORE = int(NodeChoice.BEST_SCORE)
NODE_RANDOM = int(NodeChoice.RANDOM)
SHARE_BEST_FIT = int(ShareChoice.BEST_FIT)
SHARE_BY_SCORE = int(ShareChoice.BY_SCORE)
SHARE_RANDOM = int(ShareChoice.RANDOM)
SHARE_LEAST_LOSS = int(ShareChoice.LEAST_LOSS)
WHOLE_LOWEST_INDEX = int(WholeChoice.LOWEST_INDEX)
WHOLE_BY_LINK_GROUP = int(WholeChoice.BY_LINK_GROUP)

# weights[...]: one a scoring function
WEIGHT_FRAGMENTATION = int(ScoringFunction.FRAGMENTATION)
WEIGHT_DOT_PRODUCT = int(ScoringFunction.DOT_PRODUCT)
WEIGHT_CLUSTERING = int(ScoringFunction.GPU_CLUSTERING)
WEIGHT_PACKING = int(ScoringFunction.GPU_PACKING)
WEIGHT_BEST_FIT = int(ScoringFunction.BEST_FIT)
WEIGHT_WORTH = int(ScoringFunction.WORTH)
WEIGHT_COUNT = len(ScoringFunction)

# target[COLUMN, entry]
TARGET_CPU_MILLI = 0
TARGET_GPU_COUNT = 1
TARGET_GPU_MILLI = 2
TARGET_WEIGHT = 3
TARGET_ANY_MODEL = 4
TARGET_COLUMNS = 5


class PolicyTables(NamedTuple):
    """A policy as the kernels see it.

    ``target`` is a workload that fragmentation is measured against, with the models each entry
    accepts in ``target_models``; ``grades`` turns a fragmentation gradient into a grade (see
    ``fragmentation``); ``worth`` is what was learned. ``by_device`` and ``chosen`` are
    scratch, one cell a device of a node.
    """

    options: Line
    weights: Line
    target: Grid
    target_models: Flags
    grades: Line
    by_device: Line
    chosen: Line
    worth: WorthTables


def empty_policy_tables() -> PolicyTables:
    """A policy without weights, target or learning."""
    return PolicyTables(
        options=np.zeros(OPTION_COUNT, np.int64),
        weights=np.zeros(WEIGHT_COUNT, np.int64),
        target=np.zeros((TARGET_COLUMNS, 0), np.int64),
        # Columns to spare, as ``PolicyState.set_target`` has them.
        target_models=np.zeros((0, 8), np.bool_),
        grades=np.zeros(0, np.int64),
        by_device=np.zeros(DEVICES_A_NODE_MAX, np.int64),
        chosen=np.zeros(DEVICES_A_NODE_MAX, np.int64),
        worth=untaught(),
    )
