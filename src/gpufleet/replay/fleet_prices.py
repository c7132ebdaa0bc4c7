"""What nodes of a fleet cost an hour, as values that travel to another process."""

import msgspec

from gpufleet.model.identifiers import NodeName


class NodePrice(msgspec.Struct, frozen=True):
    """An hour of all GPUs of a node and an hour of its CPUs and memory, in millionths of the currency."""

    gpus_micro: int
    host_micro: int


class FleetPrices(msgspec.Struct, frozen=True):
    """The prices of nodes with GPUs; a node without a price is not here."""

    currency: str
    by_node: dict[NodeName, NodePrice]
