"""Why a node cannot take a pod: one bit a reason, in the order in which they are told.

``fit`` finds the bits, ``verdict`` counts nodes by them and ``explanation`` puts them into words.
A node that fails for several reasons is counted once, under the lowest bit, and listed under all.
"""

import enum


class Reason(enum.IntFlag):
    """A reason of a node against a pod."""

    CORDONED = 1 << 0
    TAINT = 1 << 1
    SELECTOR = 1 << 2
    NO_GPU = 1 << 3
    GPU_MODEL = 1 << 4
    GPU_SHARING = 1 << 5
    GPU_SICK = 1 << 6
    GPU_COUNT = 1 << 7
    GPU_BUSY = 1 << 8
    GPU_FRAGMENTED = 1 << 9
    GPU_MEMORY = 1 << 10
    CPU = 1 << 11
    MEMORY = 1 << 12
    PODS = 1 << 13
    STORAGE = 1 << 14
    OTHER_RESOURCE = 1 << 15
    DOMAIN = 1 << 16


GPU_SHORT = Reason.GPU_BUSY | Reason.GPU_FRAGMENTED | Reason.GPU_MEMORY
"""Reasons that pass when a running pod ends, as far as GPUs go."""

HOST_SHORT = Reason.CPU | Reason.MEMORY | Reason.PODS | Reason.STORAGE | Reason.OTHER_RESOURCE
"""Reasons that pass when a running pod ends, as far as the host goes."""

# Plain integers, which is what the kernels can read.
NO_GPU = int(Reason.NO_GPU)
GPU_MODEL = int(Reason.GPU_MODEL)
GPU_SHARING = int(Reason.GPU_SHARING)
GPU_SICK = int(Reason.GPU_SICK)
GPU_COUNT = int(Reason.GPU_COUNT)
GPU_BUSY = int(Reason.GPU_BUSY)
GPU_FRAGMENTED = int(Reason.GPU_FRAGMENTED)
GPU_MEMORY = int(Reason.GPU_MEMORY)
CPU = int(Reason.CPU)
MEMORY = int(Reason.MEMORY)
PODS = int(Reason.PODS)
STORAGE = int(Reason.STORAGE)
OTHER_RESOURCE = int(Reason.OTHER_RESOURCE)
