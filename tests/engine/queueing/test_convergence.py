"""Under demand that never ends, queues come to have what is poured out for them, and nobody starves.

Running work ends in any order, or not at all where queues may take from each other (``endless``).
``make soak-engine`` tries more trees.
"""

import pytest

from tests.engine.effort import seeds
from tests.engine.queueing.endless import (
    check_converged,
    told_until_all_work_is_new,
    told_with_evictions_alone,
)

WORK_ENDED_LATE = (492, 784, 955, 1015, 1362)
"""Seeds in which work that started at first outlived twelve turns."""
PRIORITY_BEFORE_SHARE = 532
"""A seed in which all queues would borrow for their next work, and one of them has the higher priority."""
LARGER_SHARE_THAN_IS_LEFT = (146, 337, 351, 884, 995)
"""Seeds in which a queue takes what is its turn and has then the larger share than is left."""
IMMUNE_TO_ALL = 8165
"""A seed in which all that a queue borrows came to its place at the cost of a queue that has nothing."""


@pytest.mark.parametrize("seed", dict.fromkeys((*seeds(24), *WORK_ENDED_LATE, PRIORITY_BEFORE_SHARE)))
def test_as_work_ends_queues_come_to_have_what_they_are_owed(seed: int) -> None:
    check_converged(told_until_all_work_is_new(seed))


@pytest.mark.parametrize("seed", dict.fromkeys((*seeds(100), *LARGER_SHARE_THAN_IS_LEFT, IMMUNE_TO_ALL)))
def test_where_queues_may_take_back_they_have_what_they_are_owed_though_nothing_ends(seed: int) -> None:
    check_converged(told_with_evictions_alone(seed))
