"""The engine decides as the reference does, in random stories: in verdict, justice, turn and victims.

``make soak-engine`` tells more of them.
"""

import random
from collections import Counter

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.model.queue import Queue
from tests.engine.effort import seeds
from tests.engine.fleet_builder import Story, node, placed
from tests.engine.reference.agreement import MIXES, disagreeing
from tests.engine.reference.drive import engine_pod
from tests.engine.reference.filling import filled, waiting_picture
from tests.engine.reference.picture import MILLI
from tests.engine.reference.quota import QuotaTree
from tests.engine.reference.story import EVERYTHING, random_queues

AT_ONCE = 50
"""So many stories are one test: a story takes some 20 ms."""


@pytest.mark.parametrize("first", seeds(200))
def test_the_engine_and_the_reference_decide_alike_whatever_meets(first: int) -> None:
    assert not disagreeing(range(first * AT_ONCE, (first + 1) * AT_ONCE), EVERYTHING)


@pytest.mark.parametrize("mix", [name for name in MIXES if name != "usual"])
@pytest.mark.parametrize("first", seeds(4))
def test_they_do_with_each_further_feature_and_with_all(mix: str, first: int) -> None:
    assert not disagreeing(range(first * AT_ONCE, (first + 1) * AT_ONCE), MIXES[mix])


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
