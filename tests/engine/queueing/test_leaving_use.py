"""Turns go by what queues use without the pods that leave: as if these were charged nothing."""

import random

import msgspec
import pytest

from gpufleet.engine import event
from gpufleet.engine.instruction import Bind
from tests.engine.effort import seeds
from tests.engine.fleet_builder import SECOND_US, Story, node, pod, shape
from tests.engine.reference.story import EVERYTHING, random_queues


@pytest.mark.parametrize("seed", seeds(40))
def test_what_turns_count_is_what_is_charged_once_the_leaving_pods_are_not(seed: int) -> None:
    told, chance = story_with_leaving_pods(seed), random.Random(seed)
    state = told.engine.state
    turns, tree, counted = state.turns, state.queues.tree, state.store.tables.queue_counted
    turns.begin(told.at_us)
    # One more is told to end while turns are given.
    running = [row for row in range(len(state.pods.pods)) if state.pods.node_row(row) is not None]
    row = chance.choice([row for row in running if not state.pods.pod_at(row).leaving] or running)
    if not state.pods.pod_at(row).leaving:
        state.departures.evict(state.pods.pod_at(row).uid)
        turns.leaving.tell(row)
    turns.take()
    seen = {str(name): turns.leaving.used_without(row) for name, row in tree.row_by_name.items()}
    with state.trial():
        state.future_quota.change(state.future_quota.charges().leaving, -1)
        assert seen == {str(name): counted[row].tolist() for name, row in tree.row_by_name.items()}


def story_with_leaving_pods(seed: int) -> Story:
    """Pods run in a random tree of queues, some of them leave, and more wait."""
    chance = random.Random(seed)
    queues = random_queues(chance, EVERYTHING, 12)
    parents = {queue.parent for queue in queues}
    leaves = [str(queue.name) for queue in queues if queue.name not in parents]
    told = Story("best-fit")
    told.queues(*queues)
    told.nodes(node("n0", 12, cpu_milli=100_000))
    pods = [
        pod(f"p{number}", shape(chance.choice((1, 2)), cpu_milli=1), queue=chance.choice(leaves))
        for number in range(20)
    ]
    said = told.happen(*map(event.PodAdded, pods))
    running = {one.uid for one in said if isinstance(one, Bind)}
    told.at_us += SECOND_US
    leaving = [one for one in pods if one.uid in running and chance.random() < 0.5]
    told.happen(*(event.PodAdded(msgspec.structs.replace(one, leaving=True)) for one in leaving))
    return told
