"""Random small fleets and shapes, drawn from a seed, for tests that want thousands of them.

Amounts come from short lists on purpose: round numbers meet, ties happen and nodes fill up.
"""

import random

from gpufleet.model.device import Serves
from gpufleet.model.node import Node
from gpufleet.model.shape import Shape, Within
from tests.engine.fleet_builder import GIB, device, node, shape

MODELS = ("A100", "T4", "V100")
MILLI = (100, 190, 200, 250, 333, 350, 500, 500, 810, 900)
SERVES = (Serves.ANY, Serves.ANY, Serves.ANY, Serves.WHOLE, Serves.SHARE, Serves.NOTHING)
MEMORY_MIB = (None, 16_000, 40_000, 40_001)


def plain_node(chance: random.Random, name: str) -> Node:
    """A healthy node of one model, as in the published experiments."""
    return node(
        name,
        chance.choice((0, 1, 2, 2, 4, 8)),
        model=chance.choice(MODELS),
        cpu_milli=chance.choice((4_000, 16_000, 64_000, 96_000, 128_000)),
        memory_bytes=chance.choice((8, 64, 256)) * GIB,
        pods=chance.choice((3, 20, 1001)),
    )


def plain_shape(chance: random.Random) -> Shape:
    """CPU-only, a share of one GPU, or whole GPUs."""
    gpus, milli = chance.choice(
        ((0, 1000), (1, chance.choice(MILLI)), (1, chance.choice(MILLI)), (1, 1000), (2, 1000), (4, 1000))
    )
    models = tuple(chance.sample(MODELS, chance.choice((0, 0, 0, 1, 2)))) if gpus else ()
    return shape(
        gpus,
        milli=milli,
        models=models,
        cpu_milli=chance.choice((0, 500, 1000, 4000, 7999)),
        memory_bytes=chance.choice((0, 1, 4)) * GIB,
    )


def odd_node(chance: random.Random, name: str) -> Node:
    """A node with mixed, sick, dedicated and unmeasured devices in link groups."""
    devices = tuple(
        device(
            f"{name}/{index}",
            model=chance.choice(MODELS),
            memory_mib=chance.choice(MEMORY_MIB),
            link_group=chance.randrange(3),
            numa_node=chance.choice((None, 0, 1)),
            serves=chance.choice(SERVES),
            healthy=chance.random() < 0.85,
        )
        for index in range(chance.choice((0, 1, 2, 4, 8)))
    )
    return node(
        name,
        devices=devices,
        cpu_milli=chance.choice((2_000, 8_000, 64_000)),
        memory_bytes=chance.choice((4, 64)) * GIB,
        pods=chance.choice((2, 8, 110)),
        other=chance.choice(((), (("example.com/nic", 2),))),
    )


def odd_shape(chance: random.Random) -> Shape:
    """Anything a pod may ask for: shares of several devices and of memory alone among it."""
    gpus = chance.choice((0, 1, 1, 1, 2, 3))
    milli = chance.choice((1000, 1000, 0, *MILLI))
    memory_mib = chance.choice((None, 1, 8_000, 20_000, 40_001))
    if milli == 0 and memory_mib is None:
        memory_mib = 4_000
    within = chance.choice((Within.NODE, *Within)) if gpus > 1 and milli == 1000 else Within.NODE
    return shape(
        gpus,
        milli=milli,
        memory_mib=memory_mib,
        models=tuple(chance.sample(MODELS, chance.choice((0, 0, 1, 2)))),
        cpu_milli=chance.choice((0, 500, 1000, 3000)),
        memory_bytes=chance.choice((0, 1, 3)) * GIB,
        other=chance.choice(((), (), (("example.com/nic", 1),), (("example.com/unheard-of", 1),))),
        within=within,
    )
