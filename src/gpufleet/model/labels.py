"""Label requirements, selectors and node affinity."""

import msgspec


class NodeAffinity(msgspec.Struct, frozen=True, cache_hash=True):
    """Required node affinity: a disjunction of terms; without terms every node is accepted."""
