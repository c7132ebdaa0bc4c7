"""The fewest of many things that still do what all of them did: parts are left out, ever smaller ones."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Thing = TypeVar("Thing")


async def fewest(
    things: Sequence[Thing], still: Callable[[Sequence[Thing]], Awaitable[bool]], tries: int
) -> tuple[Thing, ...]:
    """As few as so many tries find, in their order."""
    kept = list(things)
    part = max(1, len(kept) // 2)
    at = 0
    while tries > 0 and kept:
        fewer = kept[:at] + kept[at + part :]
        tries -= 1
        if await still(fewer):
            kept = fewer
        else:
            at += part
        if at < len(kept):
            continue
        if part == 1:
            break
        part, at = max(1, part // 2), 0
    return tuple(kept)
