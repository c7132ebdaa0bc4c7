"""Dividing one amount among several, so that the parts are never negative and make up the whole.

Amounts that are counted (millijoules) are whole numbers and stay so: what is left after rounding down
goes, one by one, to the parts that lost most of a unit by it (the method of largest remainders).
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def capped(parts: Mapping[Key, float]) -> dict[Key, float]:
    """The parts, made smaller in proportion where they are more than 1 together."""
    total = sum(parts.values())
    return {key: part / total for key, part in parts.items()} if total > 1 else dict(parts)


def proportional(whole: float, weights: Mapping[Key, float]) -> dict[Key, float]:
    """The whole in the weights' proportion; nothing where all weights are 0."""
    total = sum(weights.values())
    return {key: whole * (weight / total) if total > 0 else 0.0 for key, weight in weights.items()}


def apportioned(amount: int, parts: Mapping[Key, float]) -> tuple[dict[Key, int], int]:
    """The amount by parts of 1, and the rest that no part has; together they are the amount.

    ``parts`` are 0 or more, and at most 1 together (``capped``).
    """
    exact = [amount * part for part in (*parts.values(), max(0.0, 1 - sum(parts.values())))]
    given = [int(share) for share in exact]
    # By what was lost, then in order: the same answer every time.
    by_loss = sorted(range(len(exact)), key=lambda at: (given[at] - exact[at], at))
    for at in by_loss[: amount - sum(given)]:
        given[at] += 1
    return dict(zip(parts, given, strict=False)), given[-1]
