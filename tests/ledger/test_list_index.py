"""When an object was in lists of its kind, against looking through all of them."""

import random

import pytest

from gpufleet.ledger.list_index import ListIndex
from gpufleet.ledger.versions import Listed, ObjectKind

UIDS = [f"uid-{number}" for number in range(6)]


@pytest.mark.parametrize("are_in_time", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_lists_are_found_as_by_looking_through_all(seed: int, *, are_in_time: bool) -> None:
    draw = random.Random(seed)
    lists: list[Listed] = []
    uids: frozenset[str] = frozenset()
    for number in range(3, 40, 2):
        if draw.random() < 0.5:
            uids ^= frozenset(draw.sample(UIDS, 2))
        at_us = number * 10 if are_in_time else draw.randrange(400)
        lists.append(Listed(ObjectKind.POD, number, at_us, uids))
    index = ListIndex(draw.sample(lists, len(lists)))
    for uid in [*UIDS, "never"]:
        having = [one.at_us for one in lists if uid in one.uids]
        assert index.last_with_us(uid) == max(having, default=0)
        for after in range(45):
            lacking = [one.at_us for one in lists if one.number > after and uid not in one.uids]
            assert index.first_without_us(uid, after) == min(lacking, default=None)


def test_without_lists_nothing_is_known() -> None:
    assert (ListIndex(()).last_with_us("a"), ListIndex(()).first_without_us("a", 0)) == (0, None)
