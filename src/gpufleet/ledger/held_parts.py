"""How much of a GPU a pod holds, and how much it pays for.

A pod holds the part of a card that it keeps others from: of an instance the larger of its part of the
memory and of the compute, of a share the larger of time and memory. Such parts may add up to more than a
card: 4g, 2g and 1g.20gb on one board of 80 GB hold 4/7 + 2/7 + 2/8, which is 1.1071. So the charge of a pod
is its part divided by the sum of parts where that sum is above 1. It is never above its own part, and all
charges together are never above the card. ``node_hour`` divides time and money by these charges.
"""

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

from gpufleet.model.device import WHOLE_GPU_MILLI
from gpufleet.model.mig import MigGeometry
from gpufleet.model.model_errors import InputError
from gpufleet.model.money import apportion

CARD_PARTS = 10**12
"""Charges are counted in trillionths of a card: finer than a micro-unit of any price of a card and hour."""

WHOLE = Fraction(1)


def replica(replicas: int) -> Fraction:
    """One of so many equal slots of a time-sliced card, or one of so many partitions of it."""
    if replicas < 1:
        raise InputError("no number of replicas", field="replicas", value=replicas, expected="at least 1")
    return Fraction(1, replicas)


def instance(geometry: MigGeometry, profile_name: str) -> Fraction:
    """A MIG instance: the larger of its parts of the board's memory and compute slices."""
    profile = geometry.profile(profile_name)
    memory = Fraction(profile.memory_slices, geometry.memory_slices)
    return max(memory, Fraction(profile.compute_slices, geometry.compute_slices))


def share(gpu_milli: int, memory_mib: int | None, usable_mib: int | None) -> Fraction:
    """A share by time, by memory, or by both: the larger part, and never more than the card.

    A share by memory alone of a card whose memory is not known counts as the card: less would be a guess.
    """
    time = Fraction(gpu_milli, WHOLE_GPU_MILLI)
    if memory_mib is None:
        return min(WHOLE, time)
    if not usable_mib:
        return min(WHOLE, time) if gpu_milli else WHOLE
    return min(WHOLE, max(time, Fraction(memory_mib, usable_mib)))


def dominant(amounts: Sequence[int], capacities: Sequence[int]) -> Fraction:
    """The part of a node's host that a pod holds: the largest of its parts, such as of CPU and of memory."""
    parts = (
        Fraction(amount, capacity) for amount, capacity in zip(amounts, capacities, strict=True) if capacity
    )
    return min(WHOLE, max(parts, default=Fraction(0)))


def charges(parts: Sequence[Fraction]) -> tuple[tuple[int, ...], int]:
    """What each of the parts of one card is charged, and what is free, in trillionths of the card.

    The charge is ``w / max(1, sum of all w)``. Of charges that differ by less than a trillionth the first
    may get one more, so the order of parts has to follow from their owners.
    """
    return charges_of_ratios(tuple([part.as_integer_ratio() for part in parts]))


@functools.lru_cache(maxsize=65_536)
def charges_of_ratios(ratios: tuple[tuple[int, int], ...]) -> tuple[tuple[int, ...], int]:
    """What each of the parts of one card is charged, and what is free, of numerators and denominators.

    Answers are kept, since few combinations of parts make up most of a month. They are kept by whole
    numbers, because fractions take many times as long to be found again.
    """
    parts = [Fraction(*ratio) for ratio in ratios]
    held = sum(parts, Fraction(0))
    free = max(WHOLE, held) - held
    # ``apportion`` takes whole weights: floats would not add up to the card.
    denominator = math.lcm(free.denominator, *(part.denominator for part in parts))
    weights = [part.numerator * (denominator // part.denominator) for part in (*parts, free)]
    *charged, left = apportion(CARD_PARTS, weights)
    return tuple(charged), left
