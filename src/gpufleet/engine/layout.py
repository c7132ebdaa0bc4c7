"""The layout of the engine's arrays: which column means what.

A *row* is a node, a device, a pod or a shape; tables named ``[COLUMN, row]`` keep one column
together in memory, those named ``[row, COLUMN]`` one row. ``tables`` allocates them, ``journal``
writes them, everything else reads.
"""

import enum

NOT_SET = -1

# nodes[COLUMN, node row]
NODE_PRESENT = 0
NODE_FIRST_DEVICE = 1
NODE_DEVICE_COUNT = 2
NODE_FREE_GPU_MILLI = 3  # over healthy devices
NODE_FREE_WHOLE_GPUS = 4  # healthy, serving whole requests, nobody on them
NODE_COLUMNS = 5

# resources_free[node row, COLUMN] and shape_resources[shape row, COLUMN]; further columns are
# given to extended resources as their names turn up
RESOURCE_CPU_MILLI = 0
RESOURCE_MEMORY_BYTES = 1
RESOURCE_PODS = 2
RESOURCE_EPHEMERAL_STORAGE_BYTES = 3
RESOURCE_FIXED_COLUMNS = 4

# kinds[node row, KIND]: how many running GPU pods of each kind: 0 = shares, k = k whole GPUs
KIND_SHARE = 0
KIND_COLUMNS = 18

# devices[COLUMN, device row]
DEVICE_NODE = 0
DEVICE_MODEL = 1
DEVICE_FREE_MILLI = 2
DEVICE_FREE_MIB = 3
DEVICE_TOTAL_MIB = 4  # NOT_SET where unknown
DEVICE_SERVES = 5  # model.device.Serves
DEVICE_HEALTHY = 6
DEVICE_LINK_GROUP = 7
DEVICE_USERS = 8  # pods holding some part of it
DEVICE_MEMORY_SHARES = 9  # users whose share was given in MiB
DEVICE_IDLE_MILLI = 10  # free milli of a healthy device, 0 of a sick one
DEVICE_WHOLE_FREE = 11  # 1 if healthy, serving whole requests, and nobody on it
DEVICE_COLUMNS = 12

# pods[COLUMN, pod row]
POD_STATE = 0
POD_SHAPE = 1
POD_NODE = 2
POD_COLUMNS = 3

# shapes[COLUMN, shape row]
SHAPE_GPU_COUNT = 0
SHAPE_GPU_MILLI = 1
SHAPE_GPU_MIB = 2  # NOT_SET: in proportion to the milli
SHAPE_KIND = 3  # NOT_SET without GPUs
SHAPE_ANY_MODEL = 4
SHAPE_COLUMNS = 5

# tables a journal entry may point into
TABLE_NODES = 0
TABLE_RESOURCES = 1
TABLE_KINDS = 2
TABLE_DEVICES = 3
TABLE_PODS = 4
TABLE_POD_DEVICES = 5

# counters[...]
COUNTER_JOURNAL_LENGTH = 0
COUNTER_CHANGES = 1  # changes of nodes ever made
COUNTER_RANDOM = 2  # random numbers drawn
COUNTER_COLUMNS = 3

# ranking_state[slot, COLUMN]
RANKING_SHAPE = 0
RANKING_SEEN_CHANGES = 1  # the counter up to which the scores are fresh
RANKING_STALE = 2  # 1: every score must be made anew
RANKING_COLUMNS = 3

RANKING_BLOCK = 64
INFEASIBLE = -(1 << 62)
DEVICES_A_POD_MAX = 16


class PodState(enum.IntEnum):
    """Where a pod stands; exactly one of these at any time."""

    ABSENT = 0
    WAITING = 1
    BACKOFF = 2
    ASSUMED = 3
    BOUND = 4
