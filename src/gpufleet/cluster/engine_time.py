"""The engine's time: wall time as it was when this life began, and since then our own monotonic time.

So a jump of the wall clock moves no deadline, and times that the API server wrote down (when a pod was
made, when it started) can be compared with the engine's.
"""

from gpufleet.kube.clock import Clock

US_PER_S = 1_000_000
"""The engine counts microseconds, as integers; clocks tell seconds."""


class EngineTime:
    """Integer microseconds since 1970, as the engine counts them."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._zero_us = int(clock.now().timestamp() * US_PER_S) - int(clock.monotonic_s() * US_PER_S)

    def now_us(self) -> int:
        """The engine's time now, in microseconds since 1970."""
        return self.after_us(0.0)

    def after_us(self, seconds: float) -> int:
        """The engine's time so many seconds from now."""
        return self._zero_us + int((self.clock.monotonic_s() + seconds) * US_PER_S)

    def whole_after_us(self, seconds: float) -> int:
        """The first whole second so many seconds from now, as conditions can tell it."""
        return -(-self.after_us(seconds) // US_PER_S) * US_PER_S

    def until_s(self, at_us: int) -> float:
        """How many seconds from now a moment is."""
        return (at_us - self.now_us()) / US_PER_S
