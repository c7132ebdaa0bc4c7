"""How many evictions a load needs where each queue has its own cores alone and neither borrows nor lends.

A reference for Kueue's generators that has nothing of the engine: one queue, its cores, and two rules. Work
starts at once, by priority and then by age, and work of higher priority takes what lower priority holds. In
these generators all queues have the same work at the same time, so none has much to lend, and whatever starts
work as soon as it fits evicts about as often.
"""

import heapq
from collections.abc import Iterable
from typing import NamedTuple


class Piece(NamedTuple):
    """One piece of work: its priority, when it arrives, for how long it runs and on how many cores."""

    priority: int
    arrives_us: int
    runs_us: int
    cores: int


def evictions(work: Iterable[Piece], cores: int) -> int:
    """How often work is evicted until all of it has run to its end."""
    coming = sorted(work, key=lambda piece: piece.arrives_us)
    waiting: list[Piece] = []
    running: list[tuple[int, int, Piece]] = []
    evicted, number, free = 0, 0, cores
    while coming or waiting or running:
        at_us = min([one.arrives_us for one in coming[:1]] + [end_us for end_us, _, _ in running[:1]])
        while running and running[0][0] == at_us:
            free += heapq.heappop(running)[2].cores
        while coming and coming[0].arrives_us == at_us:
            waiting.append(coming.pop(0))
        for piece in sorted(waiting, key=lambda one: (-one.priority, one.arrives_us)):
            lower = sorted(one for one in running if one[2].priority < piece.priority)
            if piece.cores > free + sum(one[2].cores for one in lower):
                continue
            # The least important goes first, and of equals the one that was started last.
            for victim in sorted(lower, key=lambda one: (one[2].priority, -one[1])):
                if piece.cores <= free:
                    break
                running.remove(victim)
                waiting.append(victim[2])
                free += victim[2].cores
                evicted += 1
            waiting.remove(piece)
            number += 1
            free -= piece.cores
            running.append((at_us + piece.runs_us, number, piece))
        heapq.heapify(running)
    return evicted
