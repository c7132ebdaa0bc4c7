"""How fast copies come to this node, by those that were made: nothing is copied to measure it."""

import math

NEWEST_SHARE = 0.5
"""How much the newest copy counts: stores change within hours, and a node copies a few times a day."""

BYTES_LEAST = 1 << 30
"""A smaller copy says more about the opening of files than about the network."""

DIGITS = 2
"""Digits that are told: NodeData is not written for less."""


class CopyRate:
    """A mean of rates that forgets older copies by half each time."""

    def __init__(self, bytes_least: int = BYTES_LEAST) -> None:
        self._bytes_least = bytes_least
        self._s_per_byte: float | None = None

    def copied(self, size_bytes: int, took_s: float) -> None:
        """A copy of so many bytes took so long."""
        if size_bytes < self._bytes_least or took_s <= 0:
            return
        newest = took_s / size_bytes
        before = self._s_per_byte
        # Times are what adds up, so that one copy that hung is not outweighed by a fast one.
        self._s_per_byte = newest if before is None else before + NEWEST_SHARE * (newest - before)

    @property
    def bytes_per_s(self) -> int | None:
        """The rate in two digits; None before the first copy."""
        if self._s_per_byte is None:
            return None
        rate = 1 / self._s_per_byte
        step = int(10 ** max(0, math.floor(math.log10(rate)) - DIGITS + 1))
        return max(1, round(rate / step) * step)
