"""Chance with a seed, with the few questions that a generator of cases asks of it."""

import random
from collections.abc import Sequence
from typing import TypeVar

Option = TypeVar("Option")


class Draw(random.Random):
    """Drawing for one case: the same seed and case number always draw the same."""

    def chance(self, share: float) -> bool:
        """True in this share of all draws."""
        return self.random() < share

    def one(self, *options: Option) -> Option:
        """One of the options."""
        return self.choice(options)

    def some(self, options: Sequence[Option], least: int, most: int) -> list[Option]:
        """Different options, at least and at most so many."""
        return self.sample(options, min(len(options), self.randint(least, most)))
