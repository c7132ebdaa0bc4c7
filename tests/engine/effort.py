"""How long the random tests of the engine search: GPUFLEET_EFFORT multiplies every count.

The default suits each change; a night's search sets 50. Seeds are counted up from 0, so a longer
search begins with the shorter one, and the seed in a failure's message reproduces it.
"""

import os

EFFORT = int(os.environ.get("GPUFLEET_EFFORT", "1"))


def seeds(count: int) -> range:
    """The seeds to try: ``count`` of them, times the effort."""
    return range(count * EFFORT)
