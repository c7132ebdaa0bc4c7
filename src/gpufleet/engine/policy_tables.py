"""What the scoring kernels need to know of a policy, as arrays.

``policy`` describes policies for people and builds these; ``scoring`` reads them. Everything a
policy has learned stands here as integers that came in by an event.
"""

from typing import NamedTuple

import numpy as np

from gpufleet.engine.tables import BoolArray, Int64Array
from gpufleet.engine.worth_tables import WorthTables, untaught

# options[...]
OPTION_NODE_CHOICE = 0
OPTION_SHARE_CHOICE = 1
OPTION_WHOLE_CHOICE = 2
OPTION_SEED = 3
OPTION_TARGET_TOTAL = 4
OPTION_COUNT = 5

NODE_BEST_SCORE = 0
NODE_RANDOM = 1
SHARE_BEST_FIT = 0
SHARE_BY_SCORE = 1
SHARE_RANDOM = 2
SHARE_LEAST_LOSS = 3
WHOLE_LOWEST_INDEX = 0
WHOLE_BY_LINK_GROUP = 1

# weights[...]: one a scoring function
WEIGHT_FRAGMENTATION = 0
WEIGHT_DOT_PRODUCT = 1
WEIGHT_CLUSTERING = 2
WEIGHT_PACKING = 3
WEIGHT_BEST_FIT = 4
WEIGHT_WORTH = 5
WEIGHT_COUNT = 6

# target[COLUMN, entry]
TARGET_CPU_MILLI = 0
TARGET_GPU_COUNT = 1
TARGET_GPU_MILLI = 2
TARGET_WEIGHT = 3
TARGET_ANY_MODEL = 4
TARGET_COLUMNS = 5

DEVICES_A_NODE_MAX = 256


class PolicyTables(NamedTuple):
    """A policy as the kernels see it.

    ``target`` is a workload that fragmentation is measured against, with the models each entry
    accepts in ``target_models``; ``grades`` turns a fragmentation gradient into a grade (see
    ``scoring.fragmentation``); ``worth`` is what was learned. ``by_device`` and ``chosen`` are
    scratch, one cell a device of a node.
    """

    options: Int64Array
    weights: Int64Array
    target: Int64Array
    target_models: BoolArray
    grades: Int64Array
    by_device: Int64Array
    chosen: Int64Array
    worth: WorthTables


def empty_policy_tables() -> PolicyTables:
    """A policy without weights, target or learning."""
    return PolicyTables(
        options=np.zeros(OPTION_COUNT, np.int64),
        weights=np.zeros(WEIGHT_COUNT, np.int64),
        target=np.zeros((TARGET_COLUMNS, 0), np.int64),
        target_models=np.zeros((0, 8), np.bool_),
        grades=np.zeros(0, np.int64),
        by_device=np.zeros(DEVICES_A_NODE_MAX, np.int64),
        chosen=np.zeros(DEVICES_A_NODE_MAX, np.int64),
        worth=untaught(),
    )
