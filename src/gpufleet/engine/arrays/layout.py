"""The layout of the engine's arrays: which column means what.

A *row* is a node, a device, a pod or a shape; tables named ``[COLUMN, row]`` keep one column
together in memory, those named ``[row, COLUMN]`` one row. ``tables`` allocates them, ``journal``
writes them, everything else reads.
"""

import enum

# No row, count or code is negative.
NOT_SET = -1

# nodes[COLUMN, node row]
NODE_PRESENT = 0
NODE_FIRST_DEVICE = 1
NODE_DEVICE_COUNT = 2
NODE_FREE_GPU_MILLI = 3  # over healthy devices
NODE_FREE_WHOLE_GPUS = 4  # healthy, serving whole requests, without users
NODE_COLUMNS = 5

# resources_free[node row, COLUMN] and shape_resources[shape row, COLUMN]; further columns are
# given to extended resources as their names turn up
RESOURCE_CPU_MILLI = 0
RESOURCE_MEMORY_BYTES = 1
RESOURCE_PODS = 2
RESOURCE_EPHEMERAL_STORAGE_BYTES = 3
RESOURCE_FIXED_COLUMNS = 4

# kinds[node row, KIND]: how many running GPU pods of each kind: 0 = shares, k = k whole GPUs
# Pods of 17 GPUs and more share the last column (``state.shapes.kind_of``).
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
DEVICE_WHOLE_FREE = 11  # 1 if healthy, serving whole requests, and without users
DEVICE_HARDWARE = (
    12  # the first row of those that are replicas of one card or instance; its own if none other is
)
DEVICE_NUMA_NODE = 13  # NOT_SET where the machine does not tell
DEVICE_COLUMNS = 14

# pods[COLUMN, pod row]
POD_STATE = 0
POD_SHAPE = 1
POD_NODE = 2
POD_QUEUE = 3  # row of the queue that is charged, NOT_SET while no queue is described
POD_PROTECTED = 4  # 1 if it is never evicted for another's sake
POD_COLUMNS = 5

# shapes[COLUMN, shape row]
SHAPE_GPU_COUNT = 0
SHAPE_GPU_MILLI = 1
SHAPE_GPU_MIB = 2  # NOT_SET: in proportion to the milli
SHAPE_KIND = 3  # NOT_SET without GPUs
SHAPE_ANY_MODEL = 4
SHAPE_WITHIN = 5  # model.shape.Within
SHAPE_COLUMNS = 6

# queues[COLUMN, queue row]
QUEUE_PARENT = 0  # NOT_SET for a root
QUEUE_ROOT = 1
QUEUE_CLOSED = 2  # 1: no work of this queue may start
QUEUE_FELL = 3  # of a root, 1: usage below it fell since this was last read; never taken back
QUEUE_COLUMNS = 4

# queue_limits[LIMIT, queue row, resource column]; NO_LIMIT where there is none
LIMIT_NAMED = 0  # 1 if the queue or one above it names the resource
LIMIT_POOLED = 1  # 1 if, besides, one below it names the resource
LIMIT_NOMINAL = 2
LIMIT_BORROWING = 3
LIMIT_LENDING = 4
LIMIT_HARD = 5
LIMIT_SUBTREE = 6
LIMIT_GUARANTEED = 7
LIMIT_OWNER = 8  # row of the nearest queue, from it upwards, that names the resource; NOT_SET where none does
LIMIT_KINDS = 9
NO_LIMIT = 1 << 62

# quota_columns[COLUMN, resource column]; resource columns are given out by quota.resources
QUOTA_KIND = 0  # NOT_SET: the column is free
QUOTA_MODEL = 1  # of GPUs of one model: which
QUOTA_COLUMNS = 2

# quota_columns[QUOTA_KIND]: what the charge follows from
CHARGE_BY_SHAPE = 0  # from the shape alone: shape_charges has it
CHARGE_GPU = 1
CHARGE_GPU_OF_MODEL = 2
CHARGE_GPU_MEMORY = 3
CHARGE_COST = 4

# Prices are in thousandths of that of a GPU without a price, so that costs are integers.
ONE_PRICE_MILLI = 1000

# tables a journal entry may point into
TABLE_NODES = 0
TABLE_RESOURCES = 1
TABLE_KINDS = 2
TABLE_DEVICES = 3
TABLE_PODS = 4
TABLE_POD_DEVICES = 5
TABLE_QUEUE_COUNTED = 6
TABLE_QUEUE_TOTAL = 7
TABLE_QUEUE_PROTECTED = 8

# counters[...]
COUNTER_JOURNAL_LENGTH = 0
COUNTER_CHANGES = 1  # changes of nodes ever made
COUNTER_RANDOM = 2  # random numbers drawn
COUNTER_QUEUES = 3  # queues described; 0: nothing is charged
COUNTER_COLUMNS = 4

# ranking_state[slot, COLUMN]
RANKING_SHAPE = 0
RANKING_SEEN_CHANGES = 1  # the counter up to which the scores are fresh
RANKING_STALE = 2  # 1: every score must be made anew
RANKING_COLUMNS = 3

# The best of 10,000 nodes is found by comparing 157 blocks, and then the nodes of one.
RANKING_BLOCK = 64
INFEASIBLE = -(1 << 62)
DEVICES_A_NODE_MAX = 256
"""Far above any machine with GPUs: rows of scratch in kernels, and the most that a pod may ask for."""

DEVICES_A_POD_AT_FIRST = 16
"""Columns of devices that a pod's row begins with; a shape that asks for more adds some."""


class PodState(enum.IntEnum):
    """Where a pod stands; exactly one of these at any time.

    ``NOMINATED``: booked where others still run that are told to end; not bound yet.
    """

    ABSENT = 0
    WAITING = 1
    BACKOFF = 2
    ASSUMED = 3
    BOUND = 4
    NOMINATED = 5
