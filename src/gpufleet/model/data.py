"""Models and datasets: which a node has in its folders, and which a pod reads when it starts.

A name begins with its kind: ``model/meta-llama/Llama-3.1-8B``, ``dataset/imagenet``. Another revision is
another thing: a pod that asks for one finds no use in a copy of the other.
"""

import enum
from collections.abc import Iterable

import msgspec

SIZE_MAX = 1 << 50
"""A pebibyte: more than any disk of a node, and sums of times stay within 64 bits."""


class DataCopy(msgspec.Struct, frozen=True):
    """One revision of a model or a dataset on a node.

    ``branches`` are names that pointed to the revision when it was copied. ``size_bytes`` is what is there,
    also of a copy that is not ``complete``.
    """

    name: str
    size_bytes: int
    complete: bool
    revision: str = ""
    branches: tuple[str, ...] = ()


class DataAsk(msgspec.Struct, frozen=True):
    """One model or dataset that a pod reads; ``revision`` "" is any, ``size_bytes`` None is unknown."""

    name: str
    revision: str = ""
    size_bytes: int | None = None

    def is_of(self, copy: DataCopy) -> bool:
        """True if the copy is one of what is asked for."""
        if self.name != copy.name:
            return False
        return not self.revision or self.revision == copy.revision or self.revision in copy.branches

    def is_met_by(self, copies: Iterable[DataCopy]) -> bool:
        """True if there is a complete one among the copies."""
        return any(one.complete and self.is_of(one) for one in copies)

    def __str__(self) -> str:
        """The name as it is written in a pod: "model/org/name@revision"."""
        return f"{self.name}@{self.revision}" if self.revision else self.name


class DataPolicy(enum.Enum):
    """What a pod does where its data is not: come and copy it, wait a while and then come, or never come."""

    PREFER = "Prefer"
    WAIT_UP_TO = "WaitUpTo"
    REQUIRE = "Require"


class DataNeeds(msgspec.Struct, frozen=True, cache_hash=True):
    """All data that a pod reads, and what its absence means.

    ``images`` are large images of the pod that some node has: they count for how soon it is ready, and are
    never required. ``wait_us`` is how long a pod with the policy WAIT_UP_TO waits.
    ``cluster.pods.data_waits`` makes of it one of the other two, so the engine knows only these.
    """

    asks: tuple[DataAsk, ...] = ()
    policy: DataPolicy = DataPolicy.PREFER
    wait_us: int | None = None
    images: tuple[DataAsk, ...] = ()

    @property
    def read(self) -> tuple[DataAsk, ...]:
        """All that a node lacks or has of it."""
        return (*self.asks, *self.images) if self.images else self.asks


NO_DATA = DataNeeds()
"""A pod that says nothing of data."""
