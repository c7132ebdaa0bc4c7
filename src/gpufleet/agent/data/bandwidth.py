"""How fast a copy may go, and when it is to end."""

import threading
from collections.abc import Callable

from gpufleet.agent.data.staging_errors import CopyStoppedError


def pause(length_s: float) -> None:
    """Stop this thread for so long."""
    threading.Event().wait(length_s)


class Bandwidth:
    """Called after each piece of a copy, in the copy's thread: waits until so many bytes may have passed.

    ``wanted`` says whether the copy is still to be made.
    """

    def __init__(
        self,
        bytes_per_s: float,
        wanted: Callable[[], bool],
        now_s: Callable[[], float],
        sleep: Callable[[float], None] = pause,
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._wanted = wanted
        self._now_s = now_s
        self._sleep = sleep
        self._due_s = now_s()

    def __call__(self, number: int) -> None:
        """So many bytes more were copied. Raises CopyStoppedError."""
        if not self._wanted():
            raise CopyStoppedError("the copy is not wanted any more")
        # Time that a slow disk took is not made up for by a burst.
        self._due_s = max(self._now_s(), self._due_s) + number / self._bytes_per_s
        wait_s = self._due_s - self._now_s()
        if wait_s > 0:
            self._sleep(wait_s)
