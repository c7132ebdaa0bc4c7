"""Python's collector of cyclic garbage does not run while a command reads much and frees nothing."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Keeps the collector from walking over all that was read, again and again.

    Nearly everything that a diagnosis or a plan makes lives until its end, so that such walks are up to half
    of its time and find nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # What was made meanwhile counts as old: else the collector would walk over all of it at once.
            gc.freeze()
            gc.unfreeze()
            gc.enable()
