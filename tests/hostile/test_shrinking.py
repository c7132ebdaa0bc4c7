"""What is left of many calls is what it takes."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tests.hostile.shrinking import fewest


@given(st.integers(1, 40), st.data())
def test_what_is_left_is_just_what_it_takes(count: int, data: st.DataObject) -> None:
    needed = data.draw(st.sets(st.integers(0, count - 1), max_size=4))

    async def still(some: Sequence[int]) -> bool:
        return needed <= set(some)

    assert asyncio.run(fewest(range(count), still, 400)) == tuple(sorted(needed))


@given(st.integers(0, 40), st.integers(0, 6))
def test_it_gives_up_after_so_many_tries_and_never_lies(count: int, tries: int) -> None:
    asked: list[int] = []

    async def still(some: Sequence[int]) -> bool:
        asked.append(len(some))
        return 0 in some

    found = asyncio.run(fewest(range(count), still, tries))
    assert len(asked) <= tries
    assert count == 0 or 0 in found
