"""How long to wait before trying again: exponential, jittered, never sooner than the server asked.

Without jitter, a thousand clients that failed together come back together.
"""

import random

import msgspec

FACTOR = 2.0
"""Each pause is twice the one before: a server that stays down is asked ever less often."""


class RetryLimits(msgspec.Struct, frozen=True):
    """How long and how often a caller tries again before it hears of a failure."""

    attempts: int = 6
    budget_s: float = 30.0
    first_s: float = 0.1
    longest_s: float = 10.0


RETRY_LIMITS = RetryLimits()
"""The default of requests: after six tries, or half a minute, the caller hears of the failure."""

ONE_TRY = RetryLimits(attempts=1)
"""For callers that count failures and pause themselves, such as a watch."""


class Backoff:
    """The growing pauses of one row of failures."""

    def __init__(self, retry_limits: RetryLimits, jitter: random.Random) -> None:
        self._retry_limits = retry_limits
        self._jitter = jitter
        self._failures = 0

    @property
    def failures(self) -> int:
        """How many failures in a row."""
        return self._failures

    def reset(self) -> None:
        """A try worked: the next failure counts as the first."""
        self._failures = 0

    def next_s(self, retry_after_s: float | None = None) -> float:
        """Count a failure; the pause until the next try, in seconds.

        Between half the full pause and all of it. A pause that the server asked for is kept and lengthened by
        up to a half, so that clients that were told at one moment spread.
        """
        # A float overflows after 1,023 doublings; sixty are far beyond any longest pause.
        full_s = min(
            self._retry_limits.longest_s, self._retry_limits.first_s * FACTOR ** min(self._failures, 60)
        )
        self._failures += 1
        pause_s = full_s * self._jitter.uniform(0.5, 1.0)
        if retry_after_s is None:
            return pause_s
        return max(pause_s, retry_after_s * self._jitter.uniform(1.0, 1.5))
