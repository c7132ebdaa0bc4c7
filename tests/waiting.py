"""Waiting for what a real server does in its own time."""

import time
from collections.abc import Callable

FIRST_LOOK_AGAIN_S = 0.05
LAST_LOOK_AGAIN_S = 0.4
"""A look at a server costs about ten milliseconds of a processor, most of it for a new connection."""

PART_OF_WAIT = 0.2
"""What is waited for longer is looked at more rarely: it is seen late by at most this part of its time."""


def pause_after(waited_s: float) -> float:
    """How long to wait until the next look, after so much waiting."""
    return min(LAST_LOOK_AGAIN_S, max(FIRST_LOOK_AGAIN_S, waited_s * PART_OF_WAIT))


def until(holds: Callable[[], bool], wait_s: float = 60.0, problem: str = "") -> None:
    """Wait until something holds; fail, with the problem in words, where it does not."""
    began_s = time.monotonic()
    while not holds():
        waited_s = time.monotonic() - began_s
        assert waited_s < wait_s, problem or f"waited {wait_s:.0f} s in vain"
        time.sleep(pause_after(waited_s))
