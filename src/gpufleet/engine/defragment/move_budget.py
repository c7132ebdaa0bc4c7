"""What automatic moves have cost within the last 24 hours, against what they may."""

from collections import deque
from typing import NamedTuple

from gpufleet.model.defragmentation import DAY_US, DefragmentationRules

ANY_LOSS = 1 << 62
"""More work than any fleet loses in a day: no limit."""


class Remaining(NamedTuple):
    """How many pods may still be moved at once, and how much work may end with them (GPU-milliseconds)."""

    moves: int
    lost: int


class MoveBudget:
    """Moves of the last 24 hours."""

    def __init__(self) -> None:
        self._moves: deque[tuple[int, int]] = deque()

    def recall(self, moves: tuple[tuple[int, int], ...]) -> None:
        """Moves that were made before a restart, as (when, what was lost), in any order."""
        self._moves = deque(sorted([*self._moves, *moves]))

    def note(self, at_us: int, lost: int) -> None:
        """A pod is moved."""
        self._moves.append((at_us, lost))

    def left(self, rules: DefragmentationRules, at_us: int) -> Remaining:
        """What may be spent now."""
        while self._moves and self._moves[0][0] <= at_us - DAY_US:
            self._moves.popleft()
        moves = max(0, min(rules.moves_a_run, rules.moves_a_day - len(self._moves)))
        if rules.lost_a_day is None:
            return Remaining(moves, ANY_LOSS)
        return Remaining(moves, max(0, rules.lost_a_day - sum(lost for _, lost in self._moves)))

    def more_at_us(self) -> int | None:
        """When the oldest move no longer counts."""
        return self._moves[0][0] + DAY_US if self._moves else None
