"""Keeps the search for cyclic garbage from stopping decisions.

Python's collector now and then walks every object it knows; with the copy of a large cluster in memory
that is a pause of a tenth of a second and more, which a pod in a hurry would see. What survived one
such walk is part of that copy, nearly free of cycles, and freed by its reference counts: it is set
apart (``gc.freeze``) and not walked again. Whatever cycles die among it are found by one walk over
everything, once an hour.
"""

import gc
import time
from collections.abc import Callable

WHOLE_WALK_EVERY_S = 3600.0
"""Cycles that die among the frozen objects are few: an hour's worth fits in memory."""


class GarbageCollectorTuning:
    """Sets survivors apart after each full collection, while ``watch`` is on."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._whole_at_s = clock_s()

    def watch(self) -> None:
        """Begin: what there is now is set apart."""
        # First what is dead already is collected, or it would be set apart with the rest.
        gc.collect()
        gc.freeze()
        gc.callbacks.append(self._collected)

    def leave(self) -> None:
        """Stop, and let the collector have everything again."""
        gc.callbacks.remove(self._collected)
        gc.unfreeze()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        # Only a full collection walks over everything that lives.
        if info["generation"] < 2:
            return
        if phase == "start" and self._clock_s() - self._whole_at_s >= WHOLE_WALK_EVERY_S:
            self._whole_at_s = self._clock_s()
            gc.unfreeze()
        elif phase == "stop":
            gc.freeze()
