"""Orders of victims at random, in stories that are told by a seed."""

import random

from gpufleet.model.queue import VictimOrder


def random_victim_order(chance: random.Random) -> VictimOrder:
    """Any order, by how far a generator has come, which it leaves as it is: what else a seed tells stays."""
    return random.Random(str(chance.getstate())).choice(tuple(VictimOrder))
