"""Waiting for what a real server does in its own time."""

import time
from collections.abc import Callable

LOOK_EVERY_S = 0.05


def until(holds: Callable[[], bool], wait_s: float = 60.0, problem: str = "") -> None:
    """Wait until something holds; fail, with the problem in words, where it does not."""
    limit_s = time.monotonic() + wait_s
    while not holds():
        assert time.monotonic() < limit_s, problem or f"waited {wait_s:.0f} s in vain"
        time.sleep(LOOK_EVERY_S)
