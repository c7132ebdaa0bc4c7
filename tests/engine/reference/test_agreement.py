"""The engine decides as the reference does, in stories of the kinds in which it is known to."""

import random
from collections import Counter

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.model.queue import Queue
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, node, placed
from tests.engine.reference.drive import SideBySide, engine_pod
from tests.engine.reference.filling import filled, waiting_picture
from tests.engine.reference.picture import MILLI
from tests.engine.reference.quota import QuotaTree
from tests.engine.reference.story import (
    ELASTIC,
    EVERYTHING,
    RACKS,
    STRANGERS,
    WITH_ALL_FEATURES,
    Mix,
    random_plan,
    random_queues,
)

AT_ONCE = 10
"""So many stories are one test: a story takes a few milliseconds."""
NEVER = frozenset(
    {
        *("starts-waits", "started-beyond", "turn", "forbidden", "in-vain", "gang-broken"),
        *("same-step", "minimum-run-time", "circle", "own-before-owed", "unjust"),
        *("owed-waits", "owed-waits for a whole gang"),
        *("priority", "pods", "right", "sum_of_priorities", "lost"),
    }
)
"""What happens in no story, whatever features meet in it."""
NEVER_ELSEWHERE = NEVER - {"owed-waits", "owed-waits for a whole gang"}
"""The same for stories with elastic gangs, strangers and racks.

In one of 8,000 a gang waits that is owed its place: which member above its minimum an elastic gang gives up
is chosen before it is known where that helps (designs/0004-queues.md).
"""
FEATURES = {"elastic": ELASTIC, "strangers": STRANGERS, "racks": RACKS, "all": WITH_ALL_FEATURES}
SINGLE_PODS = Mix(gangs=False, departments=False, own_work_goes=False, nodes_max=1)
"""Pods that take back from other queues below one root, on one node."""
NOT_COMPARED = frozenset({"started-in-vain"})
"""That work starts whose place others take a second later."""


@pytest.mark.parametrize("first", seeds(24))
def test_no_decision_breaks_a_rule_that_holds_in_every_mix(first: int) -> None:
    for seed in range(first * AT_ONCE, (first + 1) * AT_ONCE):
        told = SideBySide(random_plan(seed)).run()
        assert not [one for one in told.found if one.kind in NEVER], f"seed {seed}"


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("first", seeds(6))
def test_the_same_holds_with_each_further_feature_and_with_all(feature: str, first: int) -> None:
    for seed in range(first * AT_ONCE, (first + 1) * AT_ONCE):
        told = SideBySide(random_plan(seed, FEATURES[feature])).run()
        assert not [one for one in told.found if one.kind in NEVER_ELSEWHERE], f"seed {seed}"


@pytest.mark.parametrize("first", seeds(24))
def test_single_pods_get_the_same_verdicts_and_as_few_and_just_victims(first: int) -> None:
    for seed in range(first * AT_ONCE, (first + 1) * AT_ONCE):
        told = SideBySide(random_plan(seed, SINGLE_PODS)).run()
        assert not [one for one in told.found if one.kind not in NOT_COMPARED], f"seed {seed}"


@pytest.mark.parametrize("seed", seeds(100))
def test_what_starts_on_an_empty_fleet_is_what_the_turns_say_and_what_is_shown_as_fair_share(
    seed: int,
) -> None:
    chance = random.Random(seed)
    queues = random_queues(chance, EVERYTHING, chance.randint(4, 9))
    queues = tuple(without_limit(msgspec.structs.replace(queue, strict=False), queues) for queue in queues)
    seen = waiting_picture(queues, 12, 100)
    told = Story()
    told.queues(*queues)
    told.nodes(node("n0", 100, cpu_milli=10_000_000))
    said = told.happen(*(event.PodAdded(engine_pod(job, job.name)) for job in seen.jobs.values()))
    starts = Counter(seen.job_of(uid).queue for uid in placed(said))
    assert starts == filled(seen)
    shown = {str(one.queue): one.amounts[0].owed for one in told.engine.fair_shares()}
    assert {leaf: shown[leaf] for leaf in QuotaTree(queues).leaves if shown[leaf]} == {
        leaf: count * MILLI for leaf, count in starts.items()
    }


def without_limit(queue: Queue, queues: tuple[Queue, ...]) -> Queue:
    """A queue with others below it without its hard limit.

    Where that leaves them less than they own, the older work has it, and the fair share is in proportion to
    what they own.
    """
    if not any(one.parent == queue.name for one in queues):
        return queue
    quotas = tuple(msgspec.structs.replace(quota, hard_limit=None) for quota in queue.quotas)
    return msgspec.structs.replace(queue, quotas=quotas)
