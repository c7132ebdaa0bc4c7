"""Why a node cannot take a pod: one bit a reason, in the order in which they are told.

``eligibility``, ``fit`` and ``place.relations`` find the bits, ``verdict`` counts nodes by them and
``explanation`` puts them into words. The order is that of kube-scheduler's filters.
A node that fails for several reasons is counted once, under the lowest bit, and listed under all.
"""

import enum


class Reason(enum.IntFlag):
    """A reason of a node against a pod."""

    CORDONED = 1 << 0
    TAINT = 1 << 1
    SELECTOR = 1 << 2
    VOLUME_AFFINITY = 1 << 3
    FEATURE = 1 << 4
    GPU_UNREPORTED = 1 << 5
    NO_GPU = 1 << 6
    GPU_MODEL = 1 << 7
    GPU_SHARING = 1 << 8
    GPU_SICK = 1 << 9
    GPU_COUNT = 1 << 10
    GPU_BUSY = 1 << 11
    GPU_FRAGMENTED = 1 << 12
    GPU_MEMORY = 1 << 13
    CPU = 1 << 14
    MEMORY = 1 << 15
    PODS = 1 << 16
    STORAGE = 1 << 17
    OTHER_RESOURCE = 1 << 18
    DOMAIN = 1 << 19
    PORTS = 1 << 20
    VOLUME_IN_USE = 1 << 21
    VOLUME_LIMIT = 1 << 22
    VOLUME_UNBOUND = 1 << 23
    SPREAD = 1 << 24
    POD_AFFINITY = 1 << 25
    POD_ANTI_AFFINITY = 1 << 26
    OTHERS_ANTI_AFFINITY = 1 << 27
    GPU_APART = 1 << 28


GPU_SHORT = Reason.GPU_BUSY | Reason.GPU_FRAGMENTED | Reason.GPU_MEMORY
"""Reasons that pass when a running pod ends, as far as GPUs go."""

HOST_SHORT = Reason.CPU | Reason.MEMORY | Reason.PODS | Reason.STORAGE | Reason.OTHER_RESOURCE
"""Reasons that pass when a running pod ends, as far as the host goes."""

NEIGHBOURS = (
    Reason.PORTS
    | Reason.VOLUME_IN_USE
    | Reason.VOLUME_LIMIT
    | Reason.SPREAD
    | Reason.POD_ANTI_AFFINITY
    | Reason.OTHERS_ANTI_AFFINITY
)
"""Reasons that pass when other pods end (``place.relations``)."""

# Plain integers, which is what the kernels can read.
GPU_UNREPORTED = int(Reason.GPU_UNREPORTED)
NO_GPU = int(Reason.NO_GPU)
GPU_MODEL = int(Reason.GPU_MODEL)
GPU_SHARING = int(Reason.GPU_SHARING)
GPU_SICK = int(Reason.GPU_SICK)
GPU_COUNT = int(Reason.GPU_COUNT)
GPU_BUSY = int(Reason.GPU_BUSY)
GPU_FRAGMENTED = int(Reason.GPU_FRAGMENTED)
GPU_MEMORY = int(Reason.GPU_MEMORY)
GPU_APART = int(Reason.GPU_APART)
CPU = int(Reason.CPU)
MEMORY = int(Reason.MEMORY)
PODS = int(Reason.PODS)
STORAGE = int(Reason.STORAGE)
OTHER_RESOURCE = int(Reason.OTHER_RESOURCE)
