"""The time that is asked for: from when to when, at which step, in parts that a server answers.

A server refuses more than 11,000 points a series; parts are kept far smaller, so that an answer is of handy
size and a person sees that something moves. Points stand at multiples of the step, so that those of every
series and of every part are the same instants.
"""

from collections.abc import Iterator

import msgspec

from gpufleet.model.model_errors import InputError

SERVER_POINTS_MAX = 11_000
"""Prometheus refuses a query with more points a series; the parts below stay far from it."""

PART_POINTS_MAX = 2_000
"""Smaller parts keep each answer small and show progress."""

POINTS_MAX = 1_000_000
"""Bounds the time and the memory that a question takes."""

# The longest step: facts that hardly change are asked for once a day.
DAY_S = 86_400


class Window(msgspec.Struct, frozen=True):
    """Points at ``first_s``, each ``step_s`` later, up to ``last_s``, which is one of them."""

    first_s: int
    last_s: int
    step_s: int

    @property
    def points(self) -> int:
        """How many points that is."""
        return (self.last_s - self.first_s) // self.step_s + 1

    def parts(self, points_max: int = PART_POINTS_MAX) -> Iterator["Window"]:
        """The window in parts of at most ``points_max`` points, in order."""
        span_s = (points_max - 1) * self.step_s
        for first_s in range(self.first_s, self.last_s + 1, points_max * self.step_s):
            yield Window(first_s, min(first_s + span_s, self.last_s), self.step_s)

    def by_day(self) -> "Window":
        """Points with ranges of a day (less, if the window is shorter) that together reach over the window.

        For facts that hardly change: what a pod requests, what owns it.
        """
        step_s = min(DAY_S, self.last_s - self.first_s + self.step_s)
        count = -(-(self.last_s - self.first_s + self.step_s) // step_s)
        return Window(self.last_s - (count - 1) * step_s, self.last_s, step_s)


def window_until(end_s: int, length_s: int, step_s: int) -> Window:
    """The window that ends at this time; each point speaks for the step before it."""
    if not 1 <= step_s <= DAY_S:
        raise InputError("not a step", field="--step", value=f"{step_s}s", expected="a second to a day")
    if length_s < step_s:
        raise InputError(
            "shorter than a step", field="--window", value=f"{length_s}s", expected=f"{step_s}s or longer"
        )
    last_s = end_s // step_s * step_s
    points = length_s // step_s
    if points > POINTS_MAX:
        expected = f"at most {POINTS_MAX} steps; a longer --step or a shorter --window"
        raise InputError("too many points", field="--window", value=points, expected=expected)
    first_s = last_s - (points - 1) * step_s
    if first_s < 0:
        raise InputError("begins before 1970", field="--window", value=f"{length_s}s")
    return Window(first_s, last_s, step_s)
