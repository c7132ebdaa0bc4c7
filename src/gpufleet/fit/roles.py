"""What a matrix of weights is for: formats treat the parts of a model differently, and leave some in 16
bits.
"""

from enum import Enum

# Stands for a layer's number; layers count from 0.
EVERY_LAYER = -1


class Role(Enum):
    """The part of a model that a matrix belongs to."""

    EMBEDDING = "embedding"
    HEAD = "head"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    FEED_FORWARD = "feed-forward"
    SHARED = "shared expert"
    EXPERT = "expert"
    SMALL = "small"
    VISION = "vision"
