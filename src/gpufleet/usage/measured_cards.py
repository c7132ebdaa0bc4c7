"""GPUs that were measured, whole, and the nodes they are in; ``sharing.fleet`` makes a fleet of them."""

import msgspec


class Card(msgspec.Struct, frozen=True, order=True):
    """A GPU of a node by its index there; ``model`` is the catalogue's name.

    ``is_free`` is False where it is not to be counted on: it is cut, or others than the judged pods run on
    it.
    """

    host: str
    index: int
    model: str
    is_free: bool = True


class Host(msgspec.Struct, frozen=True):
    """CPU and memory: what a node has for pods, or what a pod asks of its node."""

    cpu_milli: int = 0
    memory_mib: int = 0
